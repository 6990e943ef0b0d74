"""Jobs in SQL: made by a request, claimed by a runner under a lease, advanced with the effect of each step."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, instant_sql
from app.db.sql import load
from app.jobs.errors import JobEnded, JobNotFound

JOB = Shape(
    "id",
    "kind",
    "state",
    "arguments",
    computed("progress", "json_build_object('done', {t}.progress_done, 'total', {t}.progress_total)"),
    "counts",
    "report",
    "error",
    instant("cancel_requested_at"),
    instant("created_at"),
    instant("started_at"),
    instant("ended_at"),
)
JOBS = Listing(
    "jobs",
    "jobs AS t",
    JOB,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={"kind": "t.kind = :kind", "state": "t.state = :state"},
)
_SQL = load(__file__, job=JOB.json("t"), since=instant_sql("j.since"))


@dataclass(frozen=True)
class Claimed:
    """A job that a runner holds."""

    tenant_id: str
    id: str
    kind: str
    runner_id: str
    attempt_count: int


@dataclass(frozen=True)
class Standing:
    """Where a job stands before a step; `resume_from` is what the last step left, None before the first."""

    arguments: dict[str, Any]
    resume_from: dict[str, Any] | None
    cancel_requested: bool


@dataclass(frozen=True)
class Step:
    """What a step did: where the next one goes on, how much was done, and whether that was all."""

    resume_from: dict[str, Any] = field(default_factory=dict)
    done: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    total: int | None = None
    report: dict[str, Any] | None = None
    finished: bool = False
    # What is told to every process once the step is committed.
    moved: Sequence[Key] = ()
    # What is done outside the database once the step is committed. A killed process never does it.
    afterwards: Callable[[], Awaitable[None]] | None = None


async def create(
    writer: Writer, tenant_id: str, kind: str, arguments: dict[str, Any], job_id: str | None = None
) -> Answer:
    """Make a job, in the caller's transaction. The answer is 202 with the job."""
    answer = await writer.answer(
        _SQL["create"], tenant_id=tenant_id, id=job_id or new_id("job"), kind=kind,
        arguments=json.dumps(arguments).encode(),
    )  # fmt: skip
    assert answer is not None
    return answer


async def under_way(writer: Writer, tenant_id: str, kind: str, arguments: dict[str, Any]) -> Answer | None:
    """The job of this kind with these arguments that has not ended and is not to be cancelled, as `create` answers."""
    return await writer.answer(
        _SQL["under_way"], tenant_id=tenant_id, kind=kind, arguments=json.dumps(arguments).encode()
    )


async def get(reader: Reader, tenant_id: str, job_id: str) -> Answer:
    """The job. Raises `JobNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=job_id)
    if row is None:
        raise JobNotFound("There is no such job.", id=job_id)
    return Answer(200, row["body"])


async def cancel(writer: Writer, tenant_id: str, job_id: str) -> Answer:
    """Cancel what waits, ask what runs to stop; again is the same. Raises `JobNotFound`, `JobEnded`."""

    async def why() -> None:
        row = await writer.row(_SQL["get"], tenant_id=tenant_id, id=job_id)
        if row is None:
            raise JobNotFound("There is no such job.", id=job_id)
        if row["state"] not in ("queued", "running", "cancelled"):
            raise JobEnded("The job has ended; there is nothing to cancel.", id=job_id, current_state=row["state"])

    return await decided(writer, _SQL["cancel"], why, tenant_id=tenant_id, id=job_id)


async def claim(
    writer: Reader, runner_id: str, lease_seconds: float, kinds: Collection[str] = (), *, but: bool = True
) -> Claimed | None:
    """The job that waits longest, of these kinds, or of all `but` these; held for `lease_seconds` from now.

    None where nothing waits.
    """
    row = await writer.row(
        _SQL["claim"], runner_id=runner_id, lease_seconds=float(lease_seconds), kinds=list(kinds), but=but
    )
    if row is None:
        return None
    return Claimed(row["tenant_id"], row["id"], row["kind"], runner_id, row["attempt_count"])


async def standing(reader: Reader, job: Claimed) -> Standing | None:
    """Where the job stands; None when its runner has lost it."""
    row = await reader.row(_SQL["current"], tenant_id=job.tenant_id, id=job.id, runner_id=job.runner_id)
    return None if row is None else _standing(row)


async def advance(writer: Reader, job: Claimed, step: Step, lease_seconds: float) -> bool:
    """Write a step down, in the transaction of its effect; False when the job belongs to another runner by now."""
    row = await writer.row(
        _SQL["advance"],
        tenant_id=job.tenant_id,
        id=job.id,
        runner_id=job.runner_id,
        resume_from=_json(step.resume_from),
        done=step.done,
        counts=_json(step.counts),
        total=step.total,
        report=_json(step.report),
        finished=step.finished,
        lease_seconds=float(lease_seconds),
    )
    return row is not None


async def tell(writer: Reader, job: Claimed, done: int, total: int | None, counts: dict[str, int]) -> bool:
    """Write down how far a job is that is carried out as a whole; False when it belongs to another runner by now."""
    row = await writer.row(
        _SQL["tell"],
        tenant_id=job.tenant_id,
        id=job.id,
        runner_id=job.runner_id,
        done=done,
        total=total,
        counts=_json(counts),
    )
    return row is not None


async def finish(writer: Reader, job: Claimed, state: str, error: dict[str, Any] | None = None) -> None:
    """End a job as `failed` or `cancelled`."""
    await writer.row(
        _SQL["finish"],
        tenant_id=job.tenant_id,
        id=job.id,
        runner_id=job.runner_id,
        state=state,
        error=_json(error),
    )


async def release(writer: Reader, job: Claimed) -> None:
    """Let go of a job whose turn is over; it can be claimed at once, which counts as no attempt."""
    await writer.rows(_SQL["release"], tenant_id=job.tenant_id, id=job.id, runner_id=job.runner_id)


async def release_all(writer: Reader, runner_id: str) -> None:
    """Let go of whatever a runner holds that ends in order."""
    await writer.rows(_SQL["release_all"], runner_id=runner_id)


async def renew(writer: Reader, job: Claimed, lease_seconds: float) -> Standing | None:
    """Hold a job for `lease_seconds` from now; where it stands, or None when its runner has lost it."""
    row = await writer.row(
        _SQL["renew"], tenant_id=job.tenant_id, id=job.id, runner_id=job.runner_id, lease_seconds=float(lease_seconds)
    )
    return None if row is None else _standing(row)


async def put_off(
    writer: Reader,
    job: Claimed,
    error: dict[str, Any],
    pause_seconds: float,
    pause_seconds_max: float,
    patience_seconds: float,
) -> str | None:
    """Let a job wait, with the reason as its `error`: `pause_seconds` first, twice as long each time in a row, up to
    `pause_seconds_max`. It is `failed` where that goes on for longer than `patience_seconds`. None where it was lost.
    """
    row = await writer.row(
        _SQL["put_off"],
        tenant_id=job.tenant_id,
        id=job.id,
        runner_id=job.runner_id,
        error=_json(error),
        pause_seconds=float(pause_seconds),
        pause_seconds_max=float(pause_seconds_max),
        patience_seconds=float(patience_seconds),
    )
    return None if row is None else str(row["state"])


def _standing(row: asyncpg.Record) -> Standing:
    left = row["resume_from"]
    return Standing(
        json.loads(row["arguments"]), None if left is None else json.loads(left), row["cancel_requested_at"] is not None
    )


def _json(value: dict[str, Any] | None) -> bytes | None:
    return None if value is None else json.dumps(value, default=str).encode()
