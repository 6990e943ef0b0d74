"""Embeddings that a space lacks, in SQL: which items have none there, and theirs written once they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.database import Answer, Reader, Transaction, Writer
from app.db.sql import Statement, load
from app.errors import changed
from app.jobs import store as jobs
from app.memory import space_store as spaces
from app.memory.errors import MemorySpaceNotFound
from app.memory.item_sql import live
from app.memory.partitions import table_of
from app.memory.space_store import Space

REEMBED_KIND = "memory.reembed"
# What is read at once is no more than this in all, or a single item.
CONTENT_BYTES_MAX = 16 * 1024 * 1024

_SQL = load(__file__, "embedding_queries.sql")
_LACKING = f"""
FROM memory_items AS m
LEFT JOIN {{table}} AS v
  ON v.tenant_id = m.tenant_id AND v.space_number = :number AND v.kind = m.kind AND v.id = m.id
WHERE m.tenant_id = :tenant_id AND v.embedding IS NULL AND {live("m")}"""


@dataclass(frozen=True)
class Lacking:
    """An item without an embedding in a space, as it was when it was read."""

    kind: str
    id: str
    revision: int
    content: str

    @property
    def key(self) -> tuple[str, str]:
        """Its place in the order in which items are gone through."""
        return self.kind, self.id


async def fill(writer: Writer, tenant_id: str, name: str, if_match: list[int] | None) -> Answer:
    """Let the space be filled from the commit on, within a transaction, and make the job that embeds what it lacks;
    where there is one that has not ended, it is that. Raises `MemorySpaceNotFound`, `PreconditionFailed`.
    """
    space = await spaces.space_named(writer, tenant_id, name)
    if not space.written:
        # What is written from then on is embedded for it too; what was written before, the job sees.
        await spaces.change(writer, tenant_id)
    # Two who ask at once make one job.
    held = await writer.row(_SQL["hold"], tenant_id=tenant_id, number=space.number)
    if held is None:
        raise MemorySpaceNotFound("There is no such space.", name=name)
    if if_match is not None and held["revision"] not in if_match:
        raise changed("space", held["revision"])
    if not space.written:
        await writer.row(_SQL["fill"], tenant_id=tenant_id, number=space.number)
    arguments = {"space": name, "number": space.number}
    return await jobs.under_way(writer, tenant_id, REEMBED_KIND, arguments) or await jobs.create(
        writer, tenant_id, REEMBED_KIND, arguments
    )


async def space_numbered(reader: Reader, tenant_id: str, number: int) -> Space | None:
    """The space with this number, or None where it was deleted."""
    return next((space for space in await spaces.spaces_of(reader, tenant_id) if space.number == number), None)


async def lacking(reader: Reader, tenant_id: str, space: Space, after: tuple[str, str], limit: int) -> list[Lacking]:
    """The next items without an embedding in the space: at most so many, and of at most `CONTENT_BYTES_MAX`."""
    statement = Statement(
        "SELECT kind, id, revision, content FROM (\n"
        "  SELECT read.*, sum(octet_length(content)) OVER before AS bytes_before FROM (\n"
        "    SELECT m.kind, m.id, m.revision, m.content"
        + _LACKING.format(table=table_of(space.number))
        + " AND (m.kind, m.id) > (:after_kind, :after_id) ORDER BY m.kind, m.id LIMIT CAST(:limit AS bigint)\n"
        "  ) AS read WINDOW before AS (ORDER BY kind, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)\n"
        ") AS summed WHERE bytes_before IS NULL OR bytes_before < :bytes_max ORDER BY kind, id"
    )
    rows = await reader.rows(
        statement,
        tenant_id=tenant_id,
        number=space.number,
        after_kind=after[0],
        after_id=after[1],
        limit=limit,
        bytes_max=CONTENT_BYTES_MAX,
    )
    return [Lacking(**row) for row in rows]


async def hold_spaces(transaction: Transaction, tenant_id: str) -> None:
    """Keep the tenant's spaces as they are until the commit, as whoever writes to memory does."""
    await transaction.row(_SQL["hold_spaces"], tenant_id=tenant_id)


async def write(transaction: Transaction, tenant_id: str, space: Space, made: Sequence[tuple[Lacking, bytes]]) -> int:
    """Write vectors of items that are still as they were read; how many. `hold_spaces` comes before.

    Each item is held first, in the order that everybody takes, so that none is written for what was deleted.
    """
    table = table_of(space.number)
    statement = Statement(f"""
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(CAST(:kinds AS text[]), CAST(:ids AS text[]), CAST(:revisions AS bigint[]),
                       CAST(:embeddings AS vector[])) AS g (kind, id, revision, embedding)
), held AS MATERIALIZED (
  SELECT m.*, g.embedding FROM given AS g
  JOIN memory_items AS m ON m.tenant_id = :tenant_id AND m.kind = g.kind AND m.id = g.id AND m.revision = g.revision
  ORDER BY m.kind, m.id FOR NO KEY UPDATE OF m
), written AS (
  INSERT INTO {table} AS v (tenant_id, space_number, kind, id, embedding, lexemes, metadata, session_id, invocation_id,
                            expires_at)
  SELECT h.tenant_id, :number, h.kind, h.id, h.embedding, cairn_lexemes(:language, h.content), h.metadata, h.session_id,
         h.invocation_id, h.expires_at
  FROM held AS h
  ON CONFLICT (tenant_id, space_number, kind, id) DO UPDATE SET embedding = EXCLUDED.embedding
  WHERE v.embedding IS NULL
  RETURNING 1
)
SELECT count(*) AS written FROM written""")
    items = [item for item, _ in made]
    row = await transaction.row(
        statement,
        tenant_id=tenant_id,
        number=space.number,
        language=space.language,
        kinds=[item.kind for item in items],
        ids=[item.id for item in items],
        revisions=[item.revision for item in items],
        embeddings=[vector for _, vector in made],
    )
    assert row is not None  # an aggregate has a row
    return int(row["written"])


async def still_lacking(
    transaction: Transaction, tenant_id: str, space: Space, items: Sequence[Lacking]
) -> set[tuple[str, str]]:
    """Those of the items that are there and have no embedding all the same: they were changed meanwhile."""
    statement = Statement(
        "SELECT m.kind, m.id"
        + _LACKING.format(table=table_of(space.number))
        + " AND (m.kind, m.id) IN (SELECT * FROM unnest(CAST(:kinds AS text[]), CAST(:ids AS text[])))"
    )
    rows = await transaction.rows(
        statement,
        tenant_id=tenant_id,
        number=space.number,
        kinds=[item.kind for item in items],
        ids=[item.id for item in items],
    )
    return {(row["kind"], row["id"]) for row in rows}
