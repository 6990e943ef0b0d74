"""Evolution runs in SQL: their fields, and the checkpoints that engines resume from."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import Statement, load
from app.errors import changed
from app.evolution.errors import CheckpointNotFound, EvolutionRunConflict, EvolutionRunNotFound, GenerationConflict
from app.evolution.generation_store import GENERATION, generation_digest
from app.evolution.links import DERIVED, RUN_TOTALS

FIELDS = ("goal_text", "config", "evolution_type", "notes", "owner_id")
_COLUMNS = (
    "id",
    "goal_text",
    "config",
    "status",
    "evolution_type",
    "notes",
    "owner_id",
    instant("started_at"),
    instant("ended_at"),
    instant("heartbeat_at"),
)
# What a write answers and an event carries; and what a read shows, with what is derived at that moment.
RUN = Shape(*_COLUMNS)
RUN_SEEN = Shape(*_COLUMNS, *(computed(name, f"d.{name}") for name in DERIVED), beside=RUN_TOTALS)
CHECKPOINT = Shape("run_id", instant("updated_at"))

SQL = load(
    __file__,
    run=RUN.json("r"),
    run_seen=RUN_SEEN.json("r"),
    generation=GENERATION.json("g"),
    checkpoint=CHECKPOINT.json("c"),
)


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Start a run, and open a generation with it if one is given: 201, or 200 with the run as it now is.

    Raises `EvolutionRunConflict`, `GenerationConflict` (the generation's id is another's); nothing is stored then.
    """
    run_id = given.get("id") or new_id("run")
    digest = digest_of({**given, "id": run_id})
    generation = given.get("generation")
    opened = generation or {}

    async def why() -> None:
        stored = await standing_of(writer, tenant_id, run_id)
        if stored["digest"] != digest:
            raise EvolutionRunConflict("A run with this id was created with other fields.", id=run_id)

    try:
        return await decided(
            writer,
            SQL["create"],
            why,
            tenant_id=tenant_id,
            id=run_id,
            started_at=given.get("started_at"),
            digest=digest,
            generation_id=None if generation is None else opened.get("id") or new_id("gen"),
            generation_number=opened.get("number") or 0,
            generation_started_at=opened.get("started_at"),
            generation_comment=opened.get("comment"),
            generation_feedback=opened.get("feedback"),
            generation_digest=generation_digest(opened),
            **{name: given.get(name) for name in FIELDS},
        )
    except GenerationConflict as refusal:
        refusal.facts["id"] = opened.get("id")
        raise


async def patch(
    writer: Writer, tenant_id: str, run_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `EvolutionRunNotFound`, `PreconditionFailed`."""
    arguments = {name: b"{}" if name == "config" and value is None else value for name, value in given.items()}
    statement = _patch(frozenset(given)) if given else SQL["unchanged"]
    answer = await writer.answer(statement, tenant_id=tenant_id, id=run_id, if_match=if_match, **arguments)
    if answer is None:
        raise changed("run", (await standing_of(writer, tenant_id, run_id))["revision"])
    return answer


@lru_cache(maxsize=64)
def _patch(names: frozenset[str]) -> Statement:
    assignments = ", ".join(f"{name} = :{name}" for name in sorted(names))
    shown = RUN.json("r")
    return Statement(
        f"WITH changed AS (UPDATE evolution_runs AS r SET {assignments}, revision = r.revision + 1"
        " WHERE r.tenant_id = :tenant_id AND r.id = :id"
        " AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match)) RETURNING *),"
        " event AS (INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
        f" SELECT r.tenant_id, 'evolution_run.updated', 'evolution_run', r.id, {shown} FROM changed AS r),"
        f" answer AS (SELECT 200 AS status, r.revision AS etag, {shown} AS body FROM changed AS r)",
        "patch_run",
    )


async def get(reader: Reader, tenant_id: str, run_id: str) -> Answer:
    """The run with what is derived from its generations and invocations. Raises `EvolutionRunNotFound`."""
    row = await reader.row(SQL["get"], tenant_id=tenant_id, id=run_id)
    if row is None:
        raise not_found(run_id)
    return Answer(200, row["body"], row["revision"])


async def put_checkpoint(
    writer: Writer, tenant_id: str, run_id: str, state: bytes, if_match: list[int] | None, *, may_create: bool
) -> Answer:
    """Keep the engine's state, exactly, in place of the last one.

    Raises `EvolutionRunNotFound`, `PreconditionFailed`.
    """
    arguments = {"tenant_id": tenant_id, "id": run_id, "state": state, "if_match": if_match, "may_create": may_create}

    async def why() -> None:
        await require(writer, tenant_id, run_id)
        if not may_create:
            stored = await writer.row(SQL["get_checkpoint"], tenant_id=tenant_id, id=run_id)
            if stored is None or (if_match is not None and stored["revision"] not in if_match):
                raise changed("checkpoint", None if stored is None else stored["revision"])

    return await decided(writer, SQL["put_checkpoint"], why, **arguments)


async def checkpoint(reader: Reader, tenant_id: str, run_id: str) -> Answer:
    """The engine's state, exactly. Raises `EvolutionRunNotFound`, `CheckpointNotFound`."""
    row = await reader.row(SQL["get_checkpoint"], tenant_id=tenant_id, id=run_id)
    if row is None:
        await require(reader, tenant_id, run_id)
        raise CheckpointNotFound("No checkpoint of this run was written yet; PUT one first.", id=run_id)
    return Answer(200, row["state"], row["revision"])


async def standing_of(reader: Reader, tenant_id: str, run_id: str) -> Any:
    """Where the run stands. Raises `EvolutionRunNotFound`."""
    row = await reader.row(SQL["standing"], tenant_id=tenant_id, id=run_id)
    if row is None:
        raise not_found(run_id)
    return row


async def require(reader: Reader, tenant_id: str, run_id: str) -> None:
    """Raise `EvolutionRunNotFound` unless the run is there."""
    await standing_of(reader, tenant_id, run_id)


def not_found(run_id: str) -> EvolutionRunNotFound:
    """The refusal for a run that is not there."""
    return EvolutionRunNotFound("There is no such evolution run.", id=run_id)
