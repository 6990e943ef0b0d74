"""Small regular work that belongs to no request: kept answers leave after a day."""

from __future__ import annotations

from app.db.database import Database
from app.db.sql import Statement

_PURGE = Statement("""
-- SKIP LOCKED: two processes purge side by side.
DELETE FROM idempotency_keys AS k USING (
  SELECT ctid AS place FROM idempotency_keys
  WHERE created_at < clock_timestamp() - interval '24 hours'
  ORDER BY created_at LIMIT CAST(:limit AS bigint) FOR UPDATE SKIP LOCKED
) AS old WHERE k.ctid = old.place
RETURNING 1""")


async def purge_kept_answers(database: Database, limit: int) -> int:
    """Remove answers that were kept for an Idempotency-Key for more than 24 hours."""
    return len(await database.rows(_PURGE, limit=limit))
