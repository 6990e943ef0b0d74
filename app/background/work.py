"""Carries out the jobs that clients asked for: step by step, each with its progress in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

import structlog

from app.bus.hints import Hints
from app.db.database import Database, Transaction
from app.errors import AppError, PersistenceError, Unavailable
from app.jobs import store
from app.jobs.store import Claimed, Standing, Step

log = structlog.get_logger("cairn.jobs")

Kind = Callable[[Transaction, Claimed, Standing], Awaitable[Step]]
"""One bounded step of a job, on the transaction that also writes its progress down."""

ATTEMPTS_MAX = 10
SLICE_SECONDS = 5.0
RETRY_SECONDS = 5.0


class JobLost(Exception):
    """Another runner has the job; what this step did is rolled back."""


class JobRunner:
    """Takes jobs one at a time, a few seconds of each in turn, so that a long one does not hold up the others."""

    def __init__(self, kinds: Mapping[str, Kind], lease_seconds: float, hints: Hints) -> None:
        self.kinds, self.lease_seconds, self.hints = kinds, lease_seconds, hints
        self.runner_id = f"runner_{uuid4().hex}"

    async def run(self, database: Database, limit: int) -> int:
        """Carry a job on for at most `limit` steps or a few seconds; 1 if there was one, 0 if nothing waits."""
        job = await store.claim(database, self.runner_id, self.lease_seconds)
        if job is None:
            return 0
        try:
            await self._slice(database, job, limit)
            await store.release(database, self.runner_id)
        except JobLost:
            log.warning("job lost to another runner", job_id=job.id, kind=job.kind)
        except Unavailable as refusal:
            # The database was busy or away: the job waits and is tried again, a bounded number of times.
            await store.put_off(database, job, RETRY_SECONDS)
            log.warning("job step put off", job_id=job.id, kind=job.kind, error=refusal.detail)
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
            raise PersistenceError(f"The job's runner ended {ATTEMPTS_MAX} times before the job did.")
        until = time.monotonic() + SLICE_SECONDS
        for _ in range(limit):
            if await self._step(database, job, kind) or time.monotonic() > until:
                return

    async def _step(self, database: Database, job: Claimed, kind: Kind) -> bool:
        """One step; whether the job ended with it."""
        async with database.writing() as transaction:
            standing = await store.standing(transaction, job)
            if standing is None:
                raise JobLost
            if standing.cancel_requested:
                await store.finish(transaction, job, "cancelled")
                return True
            step = await kind(transaction, job, standing)
            if not await store.advance(transaction, job, step, self.lease_seconds):
                raise JobLost
        self.hints.publish(*step.moved)
        return step.finished

    async def _fail(self, database: Database, job: Claimed, refusal: AppError) -> None:
        error = {"code": refusal.code, "detail": refusal.detail, **refusal.facts}
        await store.finish(database, job, "failed", error)

    async def release(self, database: Database) -> None:
        """Let go of a job that was cut off, so that the next runner need not wait for the lease."""
        await store.release(database, self.runner_id)
