"""Maintenance in SQL: one statement finds, ends, announces and answers."""

from __future__ import annotations

import json

from app.db.database import Answer, Database, Reader, Writer
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import changed
from app.evolution.generation_store import GENERATION
from app.evolution.store import RUN
from app.invocations.store import INVOCATION
from app.maintenance.errors import CleanupUnderWay, ScheduleNotFound
from app.nodes.store import NODE

LIMIT = 1000
SCHEDULE = Shape(
    "every_seconds",
    "thresholds",
    instant("due_at"),
    instant("last_success_at"),
    "last_counts",
    instant("created_at"),
    instant("updated_at"),
)
_SILENT = """'{"message": "There was no sign of life for too long.", "category": "stale"}'::jsonb"""
_SQL = load(
    __file__,
    invocation=INVOCATION.json("i"),
    node=NODE.json("n"),
    run=RUN.json("r"),
    generation=GENERATION.json("g"),
    schedule=SCHEDULE.json("s"),
    silent=_SILENT,
)


async def clean_up(writer: Writer, tenant_id: str, *, dry_run: bool, seconds: dict[str, int]) -> Answer:
    """End what has run without a sign of life for longer than the thresholds, at most 1,000 of a kind.

    Raises `CleanupUnderWay`.
    """
    answer = await writer.answer(_SQL["clean_up"], tenant_id=tenant_id, dry_run=dry_run, limit=LIMIT, **seconds)
    if answer is None:
        raise CleanupUnderWay("Another clean-up of this tenant is under way; call again when it is done.")
    return answer


async def put_schedule(
    writer: Writer,
    tenant_id: str,
    every_seconds: int,
    seconds: dict[str, int],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> Answer:
    """Schedule the clean-up: 201 where it was not. Raises `PreconditionFailed`."""

    async def why() -> None:
        stored = await writer.row(_SQL["get_schedule"], tenant_id=tenant_id)
        if stored is None and not may_create:
            raise changed("schedule", None)
        if stored is not None and if_match is not None and stored["revision"] not in if_match:
            raise changed("schedule", stored["revision"])

    return await decided(
        writer,
        _SQL["put_schedule"],
        why,
        tenant_id=tenant_id,
        every_seconds=every_seconds,
        thresholds=json.dumps(seconds).encode(),
        if_match=if_match,
        may_create=may_create,
    )


async def get_schedule(reader: Reader, tenant_id: str) -> Answer:
    """The schedule. Raises `ScheduleNotFound`."""
    row = await reader.row(_SQL["get_schedule"], tenant_id=tenant_id)
    if row is None:
        raise ScheduleNotFound("No clean-up is scheduled; PUT one.")
    return Answer(200, row["body"], row["revision"])


async def delete_schedule(writer: Writer, tenant_id: str, if_match: list[int] | None) -> Answer:
    """Delete the schedule. Raises `ScheduleNotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_SQL["delete_schedule"], tenant_id=tenant_id, if_match=if_match)
    if answer is None:
        raise changed("schedule", (await get_schedule(writer, tenant_id)).etag)
    return answer


async def due(database: Database, limit: int) -> list[tuple[str, dict[str, int]]]:
    """The tenants whose clean-up is due, the longest due first, each with its thresholds."""
    rows = await database.rows(_SQL["due"], limit=limit)
    return [(row["tenant_id"], json.loads(row["thresholds"])) for row in rows]


async def done(database: Database, tenant_id: str, counts: dict[str, int]) -> None:
    """Write down what a scheduled clean-up ended, and when the next one is due."""
    await database.rows(_SQL["done"], tenant_id=tenant_id, counts=json.dumps(counts).encode())
