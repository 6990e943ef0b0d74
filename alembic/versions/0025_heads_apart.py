"""What only became the head of its session is told apart from what a settlement has changed.

Its instants cannot tell: it may have been made ready, or admitted, while the settlement waited for a lock.
"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

SETTLE = """
CREATE OR REPLACE FUNCTION cairn_settle(
  of_tenant text, of_id text, from_status text, by_attempt text, by_record text, to_outcome text, with_error text,
  dead_reason text DEFAULT NULL
) RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Settles one submission that is in from_status (under by_attempt and by_record, where they are given) with everything
-- that hangs on it: what joined it is settled alike, what was joining goes back to the queue, and the session's next
-- becomes its head. A null outcome takes that of the reserved record. Gives the rows that changed, by sequence;
-- what only became the head with revision 0, since nothing has happened to it that is told of.
DECLARE
  session bigint := cairn_lock_session(of_tenant, of_id);
  host submissions;
  changed text[];
  more text[];
  next record;
  only_head text;
  shown submissions;
  settled_count bigint;
BEGIN
  UPDATE submissions AS s SET
    status = 'settled', is_head = false, settled_at = clock_timestamp(), lease_lapses_at = NULL,
    outcome = COALESCE(to_outcome, s.settlement_outcome),
    error = CASE WHEN COALESCE(to_outcome, s.settlement_outcome) = 'completed' THEN NULL
      ELSE COALESCE(
        with_error, s.settlement_error, 'The submission ' || COALESCE(to_outcome, s.settlement_outcome) || '.')
    END,
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = of_tenant AND s.id = of_id AND (s.status = from_status) IS TRUE
    AND (by_attempt IS NULL OR s.attempt_id = by_attempt)
    AND (by_record IS NULL OR s.settlement_record_id = by_record)
  RETURNING s.* INTO host;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  changed := ARRAY[of_id];

  WITH joined AS (
    UPDATE submissions AS s SET
      status = 'settled', settled_at = clock_timestamp(), outcome = host.outcome, error = host.error,
      revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.joined_into = of_id AND (s.status = 'joined') IS TRUE
    RETURNING s.id
  )
  SELECT COALESCE(array_agg(joined.id), '{}'), count(*) + 1 INTO more, settled_count FROM joined;
  changed := changed || more;

  WITH reverted AS (
    UPDATE submissions AS s SET
      status = 'queued', joined_into = NULL, input_applied_at = NULL,
      revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.joined_into = of_id AND (s.status = 'joining') IS TRUE
    RETURNING s.id
  )
  SELECT COALESCE(array_agg(reverted.id), '{}') INTO more FROM reverted;
  changed := changed || more;

  UPDATE submission_sessions AS k SET open_count = k.open_count - settled_count
  WHERE k.tenant_id = of_tenant AND k.number = session;

  -- The session is locked, so nobody is admitted or settled between the look and the change.
  SELECT s.id, s.is_head INTO next FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.session_number = session AND s.status <> 'settled'
  ORDER BY s.sequence LIMIT 1;
  IF FOUND AND NOT next.is_head THEN
    UPDATE submissions AS s SET is_head = true WHERE s.tenant_id = of_tenant AND s.id = next.id;
    IF next.id <> ALL (changed) THEN
      only_head := next.id;
    END IF;
    changed := changed || next.id;
  END IF;

  IF dead_reason IS NOT NULL THEN
    INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, last_error)
    VALUES (of_tenant, 'submission', of_id, dead_reason, host.attempt_count, host.error);
  END IF;
  FOR shown IN
    SELECT s.* FROM submissions AS s WHERE s.tenant_id = of_tenant AND s.id = ANY (changed) ORDER BY s.sequence
  LOOP
    IF shown.id = only_head THEN
      shown.revision := 0;
    END IF;
    RETURN NEXT shown;
  END LOOP;
END $$
"""
BEFORE = """
CREATE OR REPLACE FUNCTION cairn_settle(
  of_tenant text, of_id text, from_status text, by_attempt text, by_record text, to_outcome text, with_error text,
  dead_reason text DEFAULT NULL
) RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Settles one submission that is in from_status (under by_attempt and by_record, where they are given) with everything
-- that hangs on it: what joined it is settled alike, what was joining goes back to the queue, and the session's next
-- becomes its head. A null outcome takes that of the reserved record. Gives the rows that changed, by sequence.
DECLARE
  session bigint := cairn_lock_session(of_tenant, of_id);
  host submissions;
  changed text[];
  more text[];
  next record;
  settled_count bigint;
BEGIN
  UPDATE submissions AS s SET
    status = 'settled', is_head = false, settled_at = clock_timestamp(), lease_lapses_at = NULL,
    outcome = COALESCE(to_outcome, s.settlement_outcome),
    error = CASE WHEN COALESCE(to_outcome, s.settlement_outcome) = 'completed' THEN NULL
      ELSE COALESCE(
        with_error, s.settlement_error, 'The submission ' || COALESCE(to_outcome, s.settlement_outcome) || '.')
    END,
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = of_tenant AND s.id = of_id AND (s.status = from_status) IS TRUE
    AND (by_attempt IS NULL OR s.attempt_id = by_attempt)
    AND (by_record IS NULL OR s.settlement_record_id = by_record)
  RETURNING s.* INTO host;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  changed := ARRAY[of_id];

  WITH joined AS (
    UPDATE submissions AS s SET
      status = 'settled', settled_at = clock_timestamp(), outcome = host.outcome, error = host.error,
      revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.joined_into = of_id AND (s.status = 'joined') IS TRUE
    RETURNING s.id
  )
  SELECT COALESCE(array_agg(joined.id), '{}'), count(*) + 1 INTO more, settled_count FROM joined;
  changed := changed || more;

  WITH reverted AS (
    UPDATE submissions AS s SET
      status = 'queued', joined_into = NULL, input_applied_at = NULL,
      revision = s.revision + 1, updated_at = clock_timestamp()
    WHERE s.tenant_id = of_tenant AND s.joined_into = of_id AND (s.status = 'joining') IS TRUE
    RETURNING s.id
  )
  SELECT COALESCE(array_agg(reverted.id), '{}') INTO more FROM reverted;
  changed := changed || more;

  UPDATE submission_sessions AS k SET open_count = k.open_count - settled_count
  WHERE k.tenant_id = of_tenant AND k.number = session;

  -- The session is locked, so nobody is admitted or settled between the look and the change.
  SELECT s.id, s.is_head INTO next FROM submissions AS s
  WHERE s.tenant_id = of_tenant AND s.session_number = session AND s.status <> 'settled'
  ORDER BY s.sequence LIMIT 1;
  IF FOUND AND NOT next.is_head THEN
    UPDATE submissions AS s SET is_head = true WHERE s.tenant_id = of_tenant AND s.id = next.id;
    changed := changed || next.id;
  END IF;

  IF dead_reason IS NOT NULL THEN
    INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, last_error)
    VALUES (of_tenant, 'submission', of_id, dead_reason, host.attempt_count, host.error);
  END IF;
  RETURN QUERY SELECT s.* FROM submissions AS s
    WHERE s.tenant_id = of_tenant AND s.id = ANY (changed) ORDER BY s.sequence;
END $$
"""


def upgrade() -> None:
    op.execute(SETTLE)


def downgrade() -> None:
    op.execute(BEFORE)
