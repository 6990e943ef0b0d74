"""What joins in one call is bounded by the bytes of the inputs that the caller is shown, not by its number alone."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

JOIN = """
CREATE OR REPLACE FUNCTION cairn_join(of_tenant text, into_id text, by_attempt text, for_agent text, row_limit integer)
RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Claims for a running host what queues behind it, from the front, up to the first that is not ready, not due, asked to
-- abort, or another agent's; and no more once those before have 16 MiB of inputs, which the caller is shown.
DECLARE
  session bigint := cairn_lock_session(of_tenant, into_id);
  host submissions;
  candidate record;
  joining text[] := '{}';
  bytes bigint := 0;
BEGIN
  -- Against its settlement; writes under its attempt pass.
  SELECT s.* INTO host FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.id = into_id AND (s.status = 'running') IS TRUE AND s.attempt_id = by_attempt
  FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR candidate IN
    SELECT s.id, octet_length(s.input::text) AS weight, s.canonical_ready_at IS NOT NULL
      AND s.abort_requested_at IS NULL AND s.agent = for_agent AND s.due_at <= clock_timestamp() AS joins
    FROM submissions AS s
    WHERE s.tenant_id = of_tenant AND s.session_number = session AND s.status <> 'settled'
      AND (s.status = 'queued') IS TRUE AND s.sequence > host.sequence
    ORDER BY s.sequence LIMIT row_limit
  LOOP
    EXIT WHEN NOT candidate.joins OR bytes >= 16777216;
    joining := joining || candidate.id;
    bytes := bytes + candidate.weight;
  END LOOP;
  -- The session is locked, so none of them is claimed or settled between the look and the change.
  RETURN QUERY
  WITH changed AS (
    UPDATE submissions AS s SET
      status = 'joining', joined_into = into_id, revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.id = ANY (joining)
    RETURNING s.*
  )
  SELECT * FROM changed ORDER BY changed.sequence;
END $$
"""
BEFORE = """
CREATE OR REPLACE FUNCTION cairn_join(of_tenant text, into_id text, by_attempt text, for_agent text, row_limit integer)
RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Claims for a running host what queues behind it, from the front, up to the first that is not ready, not due, asked to
-- abort, or another agent's.
DECLARE
  session bigint := cairn_lock_session(of_tenant, into_id);
  host submissions;
  joining text[];
BEGIN
  -- Against its settlement; writes under its attempt pass.
  SELECT s.* INTO host FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.id = into_id AND (s.status = 'running') IS TRUE AND s.attempt_id = by_attempt
  FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT array_agg(q.id) INTO joining FROM (
    SELECT s.id, bool_and(
      s.canonical_ready_at IS NOT NULL AND s.abort_requested_at IS NULL AND s.agent = for_agent
      AND s.due_at <= clock_timestamp()
    ) OVER (ORDER BY s.sequence) AS joins
    FROM submissions AS s
    WHERE s.tenant_id = of_tenant AND s.session_number = session AND s.status <> 'settled'
      AND (s.status = 'queued') IS TRUE AND s.sequence > host.sequence
    ORDER BY s.sequence LIMIT row_limit
  ) AS q WHERE q.joins;
  -- The session is locked, so none of them is claimed or settled between the look and the change.
  RETURN QUERY
  WITH changed AS (
    UPDATE submissions AS s SET
      status = 'joining', joined_into = into_id, revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.id = ANY (joining)
    RETURNING s.*
  )
  SELECT * FROM changed ORDER BY changed.sequence;
END $$
"""


def upgrade() -> None:
    op.execute(JOIN)


def downgrade() -> None:
    op.execute(BEFORE)
