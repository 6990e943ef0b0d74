"""What is given up says why in sentences: one that is given without its full stop ran into the next.

That no time is left no longer counts seconds from the first claim: an owner may have set another `timeout_at`.
"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

RETURN_TO_QUEUE = """
CREATE OR REPLACE FUNCTION cairn_return(
  of_tenant text, of_id text, by_attempt text, pause interval, why text
) RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Returns a running submission to the queue, to be claimed after the pause. One that is not held for its owner's own
-- recovery, and has no attempt or no time left, is settled as failed instead and becomes a dead letter.
DECLARE
  host submissions;
  spent text;
  reason text := NULLIF(rtrim(why, E' \\t\\r\\n'), '');
BEGIN
  PERFORM cairn_lock_session(of_tenant, of_id);
  SELECT s.* INTO host FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.id = of_id AND (s.status = 'running') IS TRUE
    AND s.attempt_id = by_attempt FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  spent := CASE
    WHEN host.on_lapse = 'hold' THEN NULL
    WHEN host.attempt_count >= host.max_attempts THEN 'attempts_exhausted'
    WHEN host.timeout_at <= clock_timestamp() THEN 'time_exhausted'
  END;
  IF spent IS NOT NULL THEN
    RETURN QUERY SELECT * FROM cairn_settle(of_tenant, of_id, 'running', by_attempt, NULL, 'failed',
      COALESCE(reason, 'The attempt was given back.') || CASE WHEN reason ~ '[^.!?…]$' THEN '.' ELSE '' END
        || CASE spent
        WHEN 'attempts_exhausted' THEN ' No attempt is left of ' || host.max_attempts || '.'
        ELSE ' No time is left: its timeout_at has passed.' END,
      spent);
    RETURN;
  END IF;
  RETURN QUERY UPDATE submissions AS s SET
    status = 'queued', attempt_id = NULL, owner_id = NULL, lease_expires_at = NULL, lease_lapses_at = NULL,
    input_applied_at = NULL, started_at = NULL, recovery_requested_at = NULL,
    not_before = CASE WHEN pause > interval '0' THEN clock_timestamp() + pause ELSE s.not_before END,
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = of_tenant AND s.id = of_id
  RETURNING s.*;
END $$
"""
BEFORE = """
CREATE OR REPLACE FUNCTION cairn_return(
  of_tenant text, of_id text, by_attempt text, pause interval, why text
) RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Returns a running submission to the queue, to be claimed after the pause. One that is not held for its owner's own
-- recovery, and has no attempt or no time left, is settled as failed instead and becomes a dead letter.
DECLARE
  host submissions;
  spent text;
BEGIN
  PERFORM cairn_lock_session(of_tenant, of_id);
  SELECT s.* INTO host FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.id = of_id AND (s.status = 'running') IS TRUE
    AND s.attempt_id = by_attempt FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  spent := CASE
    WHEN host.on_lapse = 'hold' THEN NULL
    WHEN host.attempt_count >= host.max_attempts THEN 'attempts_exhausted'
    WHEN host.timeout_at <= clock_timestamp() THEN 'time_exhausted'
  END;
  IF spent IS NOT NULL THEN
    RETURN QUERY SELECT * FROM cairn_settle(of_tenant, of_id, 'running', by_attempt, NULL, 'failed',
      COALESCE(why, 'The attempt was given back.') || CASE spent
        WHEN 'attempts_exhausted' THEN ' No attempt is left of ' || host.max_attempts || '.'
        ELSE ' No time is left: ' || host.timeout_seconds || ' seconds after the first claim.' END,
      spent);
    RETURN;
  END IF;
  RETURN QUERY UPDATE submissions AS s SET
    status = 'queued', attempt_id = NULL, owner_id = NULL, lease_expires_at = NULL, lease_lapses_at = NULL,
    input_applied_at = NULL, started_at = NULL, recovery_requested_at = NULL,
    not_before = CASE WHEN pause > interval '0' THEN clock_timestamp() + pause ELSE s.not_before END,
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = of_tenant AND s.id = of_id
  RETURNING s.*;
END $$
"""


def upgrade() -> None:
    op.execute(RETURN_TO_QUEUE)


def downgrade() -> None:
    op.execute(BEFORE)
