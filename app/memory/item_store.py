"""Documents and records in SQL: read, listed, deleted, and purged once they have expired."""

from __future__ import annotations

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.sql import Statement
from app.errors import changed
from app.memory.errors import MemoryItemNotFound
from app.memory.item_sql import LISTED, live

ITEMS = Listing(
    "memory items",
    "memory_items AS t",
    LISTED,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz"), "id": Sort("{t}.id", "text")},
    default=("created_at", "desc"),
    filters={
        "kind": f"t.kind = :kind AND {live('t')}",
        "session_id": "t.session_id = :session_id",
        "invocation_id": "t.invocation_id = :invocation_id",
        "metadata": "t.metadata @> CAST(:metadata AS jsonb)",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
    weights={"content": "octet_length(t.content)"},
)

_REVISION = Statement(
    "SELECT m.revision FROM memory_items AS m"
    f" WHERE m.tenant_id = :tenant_id AND m.kind = :kind AND m.id = :id AND {live('m')}"
)
# Spaces are held before the item, as by every write: in another order two could wait for a change of spaces in between.
_HOLD = "(SELECT cairn_hold_spaces(:tenant_id, CAST(NULL AS text[])) IS NOT NULL)"
_DELETE = Statement(
    f"""WITH deleted AS (
  DELETE FROM memory_items AS m WHERE m.tenant_id = :tenant_id AND m.kind = :kind AND m.id = :id AND {live("m")}
    AND (CAST(:if_match AS bigint[]) IS NULL OR m.revision = ANY (:if_match)) AND {_HOLD}
  RETURNING m.tenant_id, m.kind, m.id
), forgotten AS MATERIALIZED (
  SELECT cairn_forget(d.tenant_id, d.kind, ARRAY[d.id]) FROM deleted AS d
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM forgotten
)""",
    "delete",
)
_EXPIRED_OF = Statement(
    "SELECT DISTINCT tenant_id FROM (SELECT tenant_id FROM memory_items WHERE expires_at <= clock_timestamp()"
    " ORDER BY expires_at LIMIT CAST(:limit AS bigint)) AS old"
)
_PURGE = Statement(
    f"""WITH old AS MATERIALIZED (
  -- SKIP LOCKED: what is being changed may have more time by then.
  SELECT m.kind, m.id FROM memory_items AS m
  WHERE m.tenant_id = :tenant_id AND m.expires_at <= clock_timestamp() AND {_HOLD}
    AND (CAST(:ids AS text[]) IS NULL OR m.kind = :kind AND m.id = ANY (:ids))
  ORDER BY m.expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM memory_items AS m USING old
  WHERE m.tenant_id = :tenant_id AND m.kind = old.kind AND m.id = old.id RETURNING m.kind, m.id
), forgotten AS MATERIALIZED (
  SELECT count(*) AS items, cairn_forget(:tenant_id, d.kind, array_agg(d.id)) FROM deleted AS d GROUP BY d.kind
)
SELECT COALESCE(sum(f.items), 0) AS purged FROM forgotten AS f"""
)


async def delete(writer: Writer, tenant_id: str, kind: str, item_id: str, if_match: list[int] | None) -> Answer:
    """Forget an item in every space. Raises `MemoryItemNotFound`, `PreconditionFailed`."""

    async def why() -> None:
        row = await writer.row(_REVISION, tenant_id=tenant_id, kind=kind, id=item_id)
        if row is None:
            raise not_found(kind, item_id)
        if if_match is not None and row["revision"] not in if_match:
            raise changed(kind, row["revision"])

    return await decided(writer, _DELETE, why, tenant_id=tenant_id, kind=kind, id=item_id, if_match=if_match)


def not_found(kind: str, item_id: str) -> MemoryItemNotFound:
    """The refusal where no item of the kind has the id."""
    return MemoryItemNotFound(f"There is no such {kind}, or it has expired.", id=item_id)


async def purge(reader: Reader, limit: int) -> int:
    """Remove items that have expired, with their vectors; how many, about `limit` at most."""
    purged = 0
    for row in await reader.rows(_EXPIRED_OF, limit=limit):
        purged += await purge_of(reader, row["tenant_id"])
    return purged


async def purge_of(reader: Reader, tenant_id: str, kind: str | None = None, ids: list[str] | None = None) -> int:
    """The same for one tenant, up to 1,000 items; of those with these ids alone, where some are given."""
    row = await reader.row(_PURGE, tenant_id=tenant_id, kind=kind, ids=ids)
    assert row is not None  # an aggregate without GROUP BY has a row
    return int(row["purged"])
