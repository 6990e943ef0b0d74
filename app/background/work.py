"""Carries out the jobs that clients asked for: step by step, each with its progress in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

import structlog

from app.background.holding import while_held
from app.bus.hints import Hints
from app.db.database import Database, Transaction
from app.errors import AppError, PersistenceError, Unavailable
from app.jobs import store
from app.jobs.course import Course, JobLost
from app.jobs.store import Claimed, Standing, Step

log = structlog.get_logger("cairn.jobs")

OneStep = Callable[[Transaction, Claimed, Standing], Awaitable[Step]]
"""One bounded step of a job, on the transaction that also writes its progress down."""


@runtime_checkable
class Prepared(Protocol):
    """A kind of job whose steps need the outside world: first that, without a transaction, then the step itself."""

    async def prepare(self, database: Database, job: Claimed, standing: Standing) -> Any:
        """What the step needs. No transaction is open; reading from the database for itself is fine.

        The job is held meanwhile. It is cut off where the job is cancelled or lost, where its process ends, and with
        the run that it is part of (`run_seconds` of the timetable), which counts as an attempt. So it is bounded, and
        what it does is harmless to do again. Raise `Unavailable` for what may be there later.
        """

    async def carry_out(self, transaction: Transaction, job: Claimed, standing: Standing, prepared: Any) -> Step:
        """The step, on the transaction that also writes its progress down, where the job stands as it did before."""


@runtime_checkable
class Whole(Protocol):
    """A kind of job that is carried out as a whole, for as long as that takes: it reads one snapshot, or writes all or
    nothing. A runner of its own takes such jobs, so that they hold up no others.
    """

    async def perform(self, database: Database, job: Claimed, standing: Standing, course: Course) -> None:
        """All of it; it ends with `course.finish` in the transaction of its effect.

        The job is held meanwhile. It is cut off where the job is cancelled or lost and where its process ends, which
        counts as an attempt, and is begun again from the beginning: until `finish` is committed nothing of it may be
        seen, and it removes what an attempt before it left. Raise `Unavailable` for what may be there later.
        """


Kind = OneStep | Prepared | Whole

# A job that ended its runner so often without any progress is not given to another one.
ATTEMPTS_MAX = 10
SLICE_SECONDS = 5.0
# What is away is asked for again after a pause that doubles, and given up after a day.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 5.0, 300.0
PATIENCE_SECONDS = 86_400.0
# So often within a lease it is renewed while a step is prepared.
RENEWALS = 3


class JobRunner:
    """Takes jobs one at a time, a few seconds of each in turn, so that a long one does not hold up the others.

    One that is to take jobs `as_a_whole` takes only those, and no other runner does. `ended` is told the kind of each
    job that ended here, and its state.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        lease_seconds: float,
        hints: Hints,
        *,
        as_a_whole: bool = False,
        ended: Callable[[str, str], None] = lambda _kind, _state: None,
    ) -> None:
        self.kinds, self.lease_seconds, self.hints = kinds, lease_seconds, hints
        self.runner_id = f"runner_{uuid4().hex}"
        self._as_a_whole, self._ended = as_a_whole, ended
        self._wholes = [name for name, kind in kinds.items() if isinstance(kind, Whole)]

    async def run(self, database: Database, limit: int) -> int:
        """Carry a job on for at most `limit` steps or a few seconds; 1 if there was one, 0 if nothing waits."""
        job = await store.claim(database, self.runner_id, self.lease_seconds, self._wholes, but=not self._as_a_whole)
        if job is None:
            return 0
        try:
            await self._slice(database, job, limit)
            await store.release(database, job)
        except JobLost:
            log.warning("job lost to another runner", job_id=job.id, kind=job.kind)
        except Unavailable as refusal:
            await self._put_off(database, job, refusal)
        except AppError as refusal:
            await self._fail(database, job, refusal)
        except Exception as error:
            log.exception("job failed", job_id=job.id, kind=job.kind)
            await self._fail(database, job, PersistenceError(f"The job met a defect: {type(error).__name__}."))
        return 1

    async def _slice(self, database: Database, job: Claimed, limit: int) -> None:
        kind = self.kinds.get(job.kind)
        if kind is None:
            raise PersistenceError(f"This release does not know the kind {job.kind}.")
        if job.attempt_count > ATTEMPTS_MAX:
            raise PersistenceError(f"The job's runner ended {ATTEMPTS_MAX} times without any progress of the job.")
        if isinstance(kind, Whole):
            await self._whole(database, job, kind)
            return
        until = time.monotonic() + SLICE_SECONDS
        for _ in range(limit):
            if await self._step(database, job, kind) or time.monotonic() > until:
                return

    async def _whole(self, database: Database, job: Claimed, kind: Whole) -> None:
        standing = await store.standing(database, job)
        if standing is None:
            raise JobLost
        if not standing.cancel_requested:
            course = Course(database, job, self.lease_seconds)
            if await self._held(database, job, kind.perform(database, job, standing, course), course):
                self._ended(job.kind, "completed")
                return
        await store.finish(database, job, "cancelled")
        self._ended(job.kind, "cancelled")

    async def _step(self, database: Database, job: Claimed, kind: OneStep | Prepared) -> bool:
        """One step; whether the job ended with it."""
        prepared = await self._prepared(database, job, kind) if isinstance(kind, Prepared) else None
        async with database.writing() as transaction:
            standing = await store.standing(transaction, job)
            if standing is None:
                raise JobLost
            if standing.cancel_requested:
                await store.finish(transaction, job, "cancelled")
                step = None
            else:
                if isinstance(kind, Prepared):
                    step = await kind.carry_out(transaction, job, standing, prepared)
                else:
                    step = await kind(transaction, job, standing)
                if not await store.advance(transaction, job, step, self.lease_seconds):
                    raise JobLost
        if step is None:
            self._ended(job.kind, "cancelled")
            return True
        self.hints.publish(*step.moved)
        if step.afterwards is not None:
            await step.afterwards()
        if step.finished:
            self._ended(job.kind, "completed")
        return step.finished

    async def _prepared(self, database: Database, job: Claimed, kind: Prepared) -> Any:
        """What the next step needs; None where it is not to happen, which the step itself finds.

        Raises `JobLost` as soon as it is known that another runner has the job.
        """
        standing = await store.standing(database, job)
        if standing is None or standing.cancel_requested:
            return None
        held = await self._held(database, job, kind.prepare(database, job, standing))
        return None if held is None else held[0]

    async def _held(
        self, database: Database, job: Claimed, work: Coroutine[Any, Any, Any], course: Course | None = None
    ) -> tuple[Any] | None:
        """What the work gives, while the job is held; None where it was cut off because the job is to be cancelled.

        Raises `JobLost` as soon as it is known that another runner has the job.
        """
        return await while_held(work, self.lease_seconds / RENEWALS, lambda: self._still_wanted(database, job, course))

    async def _still_wanted(self, database: Database, job: Claimed, course: Course | None) -> bool:
        """Hold the job for another lease; whether it is to go on. Raises `JobLost`."""
        try:
            held = await store.renew(database, job, self.lease_seconds)
        except Unavailable:
            # It is asked again before the lease ends, and at the latest by the step itself.
            return True
        if held is None:
            if course is not None and course.ending:
                # It has ended by this very work, which goes on to its own end.
                return True
            raise JobLost
        return not held.cancel_requested

    async def _put_off(self, database: Database, job: Claimed, refusal: Unavailable) -> None:
        """Let the job wait for what is away: the database, or whatever its steps need; not for ever."""
        state = await store.put_off(database, job, _told(refusal), PAUSE_SECONDS, PAUSE_SECONDS_MAX, PATIENCE_SECONDS)
        log.warning("job step put off", job_id=job.id, kind=job.kind, state=state, error=refusal.detail)
        if state == "failed":
            self._ended(job.kind, "failed")

    async def _fail(self, database: Database, job: Claimed, refusal: AppError) -> None:
        await store.finish(database, job, "failed", _told(refusal))
        self._ended(job.kind, "failed")

    async def release(self, database: Database) -> None:
        """Let go of a job that was cut off, so that the next runner need not wait for the lease."""
        await store.release_all(database, self.runner_id)


def _told(refusal: AppError) -> dict[str, Any]:
    return {"code": refusal.code, "detail": refusal.detail, **refusal.facts}
