"""Spaces of embeddings in SQL. A space is a row and a partition, made and removed together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.page import Listing, Sort
from app.db.shape import Shape, computed, instant
from app.db.sql import Statement, load
from app.errors import changed, invalid
from app.memory.errors import (
    MemorySpaceActive,
    MemorySpaceConflict,
    MemorySpaceIncomplete,
    MemorySpaceMissing,
    MemorySpaceNotFound,
    MemorySpacesFull,
)
from app.memory.item_sql import live
from app.memory.partitions import creation, table_of

KEPT = ("model", "dimensions", "metric", "language")
# Each change of a space makes every process read the tenant's spaces again, so there are not many.
SPACES_MAX = 100

# What the catalog says of the index: its rows are an estimate.
_INDEX = """\
(SELECT row_to_json(told) FROM (
  SELECT CASE
      WHEN p.pid IS NOT NULL OR {t}.reindex_requested_at IS NOT NULL THEN 'building'
      WHEN i.indexrelid IS NULL THEN 'none' WHEN i.indisvalid THEN 'ready' ELSE 'broken' END AS state,
    CASE WHEN p.phase LIKE 'building%' THEN round(p.blocks_done / CAST(NULLIF(p.blocks_total, 0) AS numeric), 3)
      WHEN p.phase IN ('initializing', 'waiting for writers before build') THEN 0
      WHEN p.pid IS NOT NULL THEN 1 END AS progress,
    COALESCE(pg_stat_get_live_tuples(named.partition), 0) AS rows,
    COALESCE(pg_relation_size(i.indexrelid), 0) AS size_bytes
  FROM (SELECT to_regclass('memory_vectors_' || {t}.number) AS partition,
    to_regclass('ix_memory_vectors_' || {t}.number || '_embedding') AS index) AS named
  LEFT JOIN pg_index AS i ON i.indexrelid = named.index
  LEFT JOIN pg_stat_progress_create_index AS p ON p.relid = named.partition
  LIMIT 1
) AS told)"""

_FIELDS = (
    "name",
    "model",
    "dimensions",
    "metric",
    "language",
    "active",
    "filling",
    instant("created_at"),
    instant("updated_at"),
    instant("activated_at"),
)
SPACE = Shape(*_FIELDS, computed("index", _INDEX))

SPACES = Listing(
    "memory spaces",
    "memory_spaces AS t",
    SPACE,
    sorts={"name": Sort("{t}.name", "text"), "created_at": Sort("{t}.created_at", "timestamptz")},
    default=("name", "asc"),
    ids=("t.name",),
)

_SQL = load(__file__, "space_queries.sql", space=SPACE.json("s"), event=Shape(*_FIELDS).json("s"))


@dataclass(frozen=True)
class Space:
    """A space as it was when it was read. `number` names its partition; `revision` moves with `active`, `filling`."""

    name: str
    number: int
    model: str
    dimensions: int
    metric: str
    language: str
    active: bool
    filling: bool
    revision: int

    @property
    def written(self) -> bool:
        """Whether whatever is remembered gets a row in it."""
        return self.active or self.filling


async def spaces_of(reader: Reader, tenant_id: str) -> tuple[Space, ...]:
    """The spaces of a tenant, by number."""
    return tuple(Space(**row) for row in await reader.rows(_SQL["all"], tenant_id=tenant_id))


async def space_named(reader: Reader, tenant_id: str, name: str | None) -> Space:
    """The space with this name, or the active one. Raises `MemorySpaceNotFound`, `MemorySpaceMissing`."""
    row = await reader.row(_SQL["one"], tenant_id=tenant_id, name=name)
    if row is not None:
        return Space(**row)
    if name is None:
        raise missing()
    raise MemorySpaceNotFound("There is no such space.", name=name)


def missing() -> MemorySpaceMissing:
    """The refusal of whatever needs a space where there is none."""
    return MemorySpaceMissing(
        "Make a space first: PUT /v1/memory/spaces/{name} with the model and dimensions of the embeddings."
    )


async def change(writer: Writer, tenant_id: str) -> None:
    """Keep everybody from writing to memory of the tenant, and from changing its spaces, until the commit.

    Whoever changes a row of `memory_spaces` does so first; what was written before is seen afterwards.
    """
    await writer.row(_SQL["change"], tenant_id=tenant_id)


async def put(
    writer: Writer,
    tenant_id: str,
    name: str,
    fields: dict[str, Any],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> Answer:
    """Make a space, within a transaction: 201, or 200 where it is there with the same fields.

    Raises `MemorySpaceConflict` with what it has; `InvalidInput` for a language that the server does not know.
    """
    digest = digest_of(fields)
    stored = await writer.row(_SQL["get"], tenant_id=tenant_id, name=name)
    if stored is None:
        if not may_create:
            raise changed("space", None)
        await change(writer, tenant_id)
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, name=name)
    if stored is None:
        return await _create(writer, tenant_id, name, fields, digest)
    if if_match is not None and stored["revision"] not in if_match:
        raise changed("space", stored["revision"])
    if stored["digest"] != digest:
        space = await space_named(writer, tenant_id, name)
        raise MemorySpaceConflict(
            "The space is there with other fields, which it keeps; make another one and activate it.",
            name=name,
            **{field: getattr(space, field) for field in KEPT},
        )
    return Answer(200, stored["body"], stored["revision"])


async def _create(writer: Writer, tenant_id: str, name: str, fields: dict[str, Any], digest: bytes) -> Answer:
    languages = [row["cfgname"] for row in await writer.rows(_SQL["languages"])]
    if fields["language"] not in languages:
        raise invalid("/language", f"must be one of {', '.join(languages)}")
    if len(await spaces_of(writer, tenant_id)) >= SPACES_MAX:
        raise MemorySpacesFull(f"A tenant has at most {SPACES_MAX} spaces; delete one first.", limit=SPACES_MAX)
    made = await writer.row(_SQL["create"], tenant_id=tenant_id, name=name, digest=digest, **fields)
    assert made is not None  # an INSERT without a condition
    for sql in creation(made["number"], fields["dimensions"]):
        await writer.rows(Statement(sql))
    return Answer(201, made["body"], made["revision"])


async def get(reader: Reader, tenant_id: str, name: str) -> Answer:
    """The space. Raises `MemorySpaceNotFound`."""
    row = await _stored(reader, tenant_id, name)
    return Answer(200, row["body"], row["revision"])


async def activate(
    writer: Writer, tenant_id: str, name: str, if_match: list[int] | None, *, allow_incomplete: bool = False
) -> Answer:
    """Let searches use the space, and no longer the one before, within a transaction.

    Raises `MemorySpaceNotFound`, `PreconditionFailed`; `MemorySpaceIncomplete` where items have no embedding in it.
    """
    space = await space_named(writer, tenant_id, name)
    if not space.active and not allow_incomplete:
        # Before the lock, since it may take a while: what is written meanwhile is embedded for it, if it is filling.
        await _refuse_incomplete(writer, tenant_id, space)
    await change(writer, tenant_id)
    stored = await _stored(writer, tenant_id, name)
    if if_match is not None and stored["revision"] not in if_match:
        raise changed("space", stored["revision"])
    if stored["active"]:
        return Answer(200, stored["body"], stored["revision"])
    if not space.filling and not allow_incomplete:
        await _refuse_incomplete(writer, tenant_id, space)
    await writer.row(_SQL["rest"], tenant_id=tenant_id)
    answer = await writer.answer(_SQL["activate"], tenant_id=tenant_id, name=name)
    assert answer is not None  # held since it was looked at
    return answer


@dataclass(frozen=True)
class Count:
    """How many items there are, and how many of them have an embedding in a space."""

    items: int
    embedded: int

    @property
    def lacking(self) -> int:
        """How many have none."""
        return self.items - self.embedded


async def count(reader: Reader, tenant_id: str, space: Space) -> Count:
    """What there is, and how much of it is embedded in the space."""
    statement = Statement(
        "SELECT count(*) AS items, count(v.embedding) AS embedded FROM memory_items AS m"
        f" LEFT JOIN {table_of(space.number)} AS v"
        " ON v.tenant_id = m.tenant_id AND v.space_number = :number AND v.kind = m.kind AND v.id = m.id"
        f" WHERE m.tenant_id = :tenant_id AND {live('m')}"
    )
    row = await reader.row(statement, tenant_id=tenant_id, number=space.number)
    assert row is not None  # an aggregate has a row
    return Count(**row)


async def _refuse_incomplete(reader: Reader, tenant_id: str, space: Space) -> None:
    found = await count(reader, tenant_id, space)
    if found.lacking:
        raise MemorySpaceIncomplete(
            f"{found.lacking} of {found.items} items have no embedding in the space; reembed it first.",
            items=found.items,
            embedded=found.embedded,
            missing=found.lacking,
        )


async def reindex(writer: Writer, tenant_id: str, name: str, if_match: list[int] | None) -> Answer:
    """Ask for a new index of the space. Raises `MemorySpaceNotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_SQL["reindex"], tenant_id=tenant_id, name=name, if_match=if_match)
    if answer is None:
        raise changed("space", (await _stored(writer, tenant_id, name))["revision"])
    return answer


async def delete(writer: Writer, tenant_id: str, name: str, if_match: list[int] | None) -> Answer:
    """Remove a space, within a transaction; what is remembered stays. A job removes its partition after it.

    Raises `MemorySpaceNotFound`, `PreconditionFailed`, `MemorySpaceActive`.
    """
    await _stored(writer, tenant_id, name)
    await change(writer, tenant_id)
    stored = await _stored(writer, tenant_id, name)
    if if_match is not None and stored["revision"] not in if_match:
        raise changed("space", stored["revision"])
    if stored["active"]:
        raise MemorySpaceActive("The space is active; activate another one first.", name=name)
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, name=name)
    assert answer is not None  # held since it was looked at
    return answer


async def _stored(reader: Reader, tenant_id: str, name: str) -> Any:
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, name=name)
    if row is None:
        raise MemorySpaceNotFound("There is no such space.", name=name)
    return row
