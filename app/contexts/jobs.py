"""Clears away the contexts that have expired; for every reader they were gone before."""

from __future__ import annotations

from app.db.database import Database
from app.db.sql import Statement

_PURGE = Statement("""
-- SKIP LOCKED: what somebody writes anew is not waited for; and a row that was, is looked at as it now is.
WITH gone AS (
DELETE FROM contexts AS c USING (
  SELECT tenant_id, invocation_id, scope, node_id, key FROM contexts
  WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT CAST(:limit AS bigint) FOR UPDATE SKIP LOCKED
) AS old
WHERE (c.tenant_id, c.invocation_id, c.scope, c.node_id, c.key)
  = (old.tenant_id, old.invocation_id, old.scope, old.node_id, old.key)
RETURNING c.tenant_id, c.artifact_hash
), held AS MATERIALIZED (
-- In the order in which everybody locks several.
SELECT a.tenant_id, a.hash FROM artifacts AS a
WHERE (a.tenant_id, a.hash) IN (SELECT tenant_id, artifact_hash FROM gone)
ORDER BY a.tenant_id, a.hash FOR NO KEY UPDATE
), freed AS (
UPDATE artifacts AS a SET touched_at = clock_timestamp() FROM held AS h
WHERE a.tenant_id = h.tenant_id AND a.hash = h.hash
)
SELECT count(*) AS removed FROM gone""")


async def purge_expired(database: Database, limit: int) -> int:
    """Remove at most `limit` contexts that have expired, of any tenant; how many there were."""
    row = await database.row(_PURGE, limit=limit)
    return 0 if row is None else int(row["removed"])
