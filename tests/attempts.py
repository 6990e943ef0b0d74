"""Submissions that run, put into the database as they stand, and what becomes of them: for tests of the fence."""

from __future__ import annotations

import asyncpg

RUNNING = """
WITH session AS (
  INSERT INTO submission_sessions (tenant_id, session_key, open_count) VALUES ($1, $2, 1) RETURNING number
)
INSERT INTO submissions (
  tenant_id, id, session_number, kind, agent, instance_id, input, digest, status, is_head, canonical_ready_at,
  attempt_id, attempt_count, owner_id, lease_expires_at, lease_lapses_at, started_at
)
SELECT $1, $2, number, 'direct', 'agent', 'instance', '{}', '\\x', 'running', true, clock_timestamp(),
  $3, 1, 'owner', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 hour', clock_timestamp()
FROM session
"""
SETTLE = "SELECT count(*) FROM cairn_settle($1, $2, 'running', $3, NULL, 'completed', NULL)"
REPLACE = "UPDATE submissions SET attempt_id = $4 WHERE tenant_id = $1 AND id = $2 AND attempt_id = $3"
RENEW = """
UPDATE submissions SET lease_expires_at = clock_timestamp(), lease_lapses_at = clock_timestamp(),
  revision = revision + 1, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2 AND attempt_id = $3
"""


async def run(connection: asyncpg.Connection, tenant_id: str, submission_id: str, attempt_id: str) -> None:
    """A submission that this attempt runs; its lease has lapsed, and nobody has taken it."""
    await connection.execute(RUNNING, tenant_id, submission_id, attempt_id)
