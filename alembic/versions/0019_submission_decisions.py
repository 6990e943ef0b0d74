"""The decisions about a session's submissions that must look after they have locked.

A statement that waits for a lock still sees the other rows as they were when it began: one that settles a host would
miss what joined it meanwhile. Inside a function each statement looks anew, so these lock first and look then.

A row that is found by its key is asked for its status by `(…) IS TRUE`: as a condition that an index has, all that are
in one state looked as good as the key to plans that were made while the table was small, and were read through.
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

LOCK = """
CREATE FUNCTION cairn_lock_session(of_tenant text, of_id text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  session bigint;
BEGIN
  -- A submission never changes its session, so this needs no lock of its own. Null where there is no such submission.
  SELECT s.session_number INTO session FROM submissions AS s WHERE s.tenant_id = of_tenant AND s.id = of_id;
  PERFORM FROM submission_sessions AS k WHERE k.tenant_id = of_tenant AND k.number = session FOR NO KEY UPDATE;
  RETURN session;
END $$
"""
SETTLE = """
CREATE FUNCTION cairn_settle(
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
RETURN_TO_QUEUE = """
CREATE FUNCTION cairn_return(
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
LAPSE = """
CREATE FUNCTION cairn_lapse(row_limit integer, pause_first interval, pause_longest interval)
RETURNS SETOF submissions LANGUAGE plpgsql AS $$
-- Returns or settles submissions whose lease has lapsed by this clock; what others hold at the moment is left for the
-- next time. The pause before the next attempt doubles with each, and differs at random by up to a half.
DECLARE
  lapsed record;
BEGIN
  FOR lapsed IN
    SELECT s.tenant_id, s.id, s.session_number, s.attempt_id, s.attempt_count FROM submissions AS s
    WHERE s.status = 'running' AND s.on_lapse = 'requeue' AND s.lease_lapses_at < clock_timestamp()
    ORDER BY s.lease_lapses_at LIMIT row_limit
  LOOP
    -- The session first, as everybody does.
    PERFORM FROM submission_sessions AS k
    WHERE k.tenant_id = lapsed.tenant_id AND k.number = lapsed.session_number FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    -- A renewal may have come meanwhile; a write under the attempt may be on its way.
    PERFORM FROM submissions AS s
    WHERE s.tenant_id = lapsed.tenant_id AND s.id = lapsed.id AND (s.status = 'running') IS TRUE
      AND s.attempt_id = lapsed.attempt_id AND s.lease_lapses_at < clock_timestamp() FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    RETURN QUERY SELECT * FROM cairn_return(lapsed.tenant_id, lapsed.id, lapsed.attempt_id,
      LEAST(pause_longest, pause_first * power(2, LEAST(lapsed.attempt_count - 1, 30))) * (0.5 + random() / 2),
      'The lease of attempt ' || lapsed.attempt_count || ' lapsed without an answer.');
  END LOOP;
END $$
"""
JOIN = """
CREATE FUNCTION cairn_join(of_tenant text, into_id text, by_attempt text, for_agent text, row_limit integer)
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
FUNCTIONS = (
    "cairn_join(text, text, text, text, integer)",
    "cairn_lapse(integer, interval, interval)",
    "cairn_return(text, text, text, interval, text)",
    "cairn_settle(text, text, text, text, text, text, text, text)",
    "cairn_lock_session(text, text)",
)


def upgrade() -> None:
    for function in (LOCK, SETTLE, RETURN_TO_QUEUE, LAPSE, JOIN):
        op.execute(function)


def downgrade() -> None:
    for signature in FUNCTIONS:
        op.execute(f"DROP FUNCTION {signature}")
