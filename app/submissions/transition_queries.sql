-- fragment: events
-- Of everything that a settlement or a return has changed. What only became the head of its session has no event: it
-- comes with revision 0. What goes back to the queue and had an attempt was running; what had none was joining.
event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, w.type, 'submission', s.id, {{submission}}
  FROM changed AS s CROSS JOIN LATERAL (VALUES
    (1, CASE WHEN s.status = 'settled' THEN 'submission.settled' WHEN s.attempt_count > 0 THEN 'submission.requeued'
      ELSE 'submission.reverted' END),
    (2, CASE WHEN s.status = 'settled' AND s.joined_into IS NULL AND CAST(:dead AS boolean) THEN 'submission.dead' END)
  ) AS w (place, type)
  WHERE w.type IS NOT NULL AND s.revision > 0
  ORDER BY s.sequence, w.place
)

-- fragment: moved
(SELECT array_agg(DISTINCT s.agent) FROM changed AS s WHERE {{runnable}}) AS moved

-- fragment: answer
answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body, {{moved}} FROM changed AS s
  WHERE CASE WHEN s.id = :id THEN cairn_require_revision(s.revision - 1, :if_match) END
)

-- name: settle
-- First terminal state wins. The function locks the session, then looks; see its migration.
WITH changed AS MATERIALIZED (
  SELECT * FROM cairn_settle(:tenant_id, :id, :from_status, :attempt_id, :record_id, :outcome, :error)
), {{events}}, {{answer}}

-- name: requeue
-- Back to the queue; or settled, where no attempt or no time is left.
WITH changed AS MATERIALIZED (
  SELECT * FROM cairn_return(
    :tenant_id, :id, :attempt_id, make_interval(secs => CAST(:delay_seconds AS float8)), :error)
), {{events}}, {{answer}}

-- name: lapse
-- The same for all whose lease has lapsed, in one statement.
WITH changed AS MATERIALIZED (
  SELECT * FROM cairn_lapse(
    CAST(:limit AS integer), make_interval(secs => CAST(:first_seconds AS float8)),
    make_interval(secs => CAST(:longest_seconds AS float8)))
), {{events}}
SELECT s.tenant_id, s.agent, {{runnable}} AS runnable,
  s.revision > 0 AND s.attempt_count > 0 AND s.joined_into IS NULL AS lapsed
FROM changed AS s

-- name: apply_input
-- Stamped once: what a repeat says of attempts and time changes nothing.
WITH changed AS (
  UPDATE submissions AS s SET
    input_applied_at = clock_timestamp(), max_attempts = COALESCE(:max_attempts, s.max_attempts),
    timeout_at = COALESCE(:timeout_at, s.timeout_at), revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}}
    AND s.input_applied_at IS NULL AND {{matched}}
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.input_applied', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body FROM changed AS s
  UNION ALL
  SELECT 200, s.revision, {{submission}} FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}}
    AND s.input_applied_at IS NOT NULL
)

-- name: request_recovery
-- The first request's instant stays.
WITH changed AS (
  UPDATE submissions AS s SET
    recovery_requested_at = clock_timestamp(), revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}}
    AND s.recovery_requested_at IS NULL AND {{matched}}
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.recovery_requested', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body FROM changed AS s
  UNION ALL
  SELECT 200, s.revision, {{submission}} FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}}
    AND s.recovery_requested_at IS NOT NULL
)

-- name: replace_attempt
-- FOR UPDATE: what is being written under the attempt is waited for; the next write under it is refused.
WITH held AS MATERIALIZED (
  SELECT s.id FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}} AND {{matched}}
  FOR UPDATE
), changed AS (
  UPDATE submissions AS s SET
    attempt_id = :next_attempt_id, started_at = clock_timestamp(), attempt_count = s.attempt_count + 1,
    owner_id = COALESCE(:owner_id, s.owner_id), recovery_requested_at = NULL,
    lease_expires_at = COALESCE({{lease_expires_at}}, s.lease_expires_at),
    lease_lapses_at = COALESCE({{lease_lapses_at}}, s.lease_lapses_at),
    revision = s.revision + 1, updated_at = clock_timestamp()
  FROM held AS h WHERE s.tenant_id = :tenant_id AND s.id = h.id
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.attempt_replaced', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body, {{with_input}} AS answered FROM changed AS s
)

-- name: lock_session
-- Before the look: what is admitted or joins meanwhile is waited for, and then seen.
SELECT k.number FROM submission_sessions AS k
WHERE k.tenant_id = :tenant_id AND k.session_key = :session_key FOR NO KEY UPDATE

-- name: abort_session
-- Rows are locked by sequence, a host before what joined it, as everybody does.
WITH held AS MATERIALIZED (
  SELECT r.id FROM submissions AS r
  JOIN submission_sessions AS k ON k.tenant_id = r.tenant_id AND k.number = r.session_number
  WHERE k.tenant_id = :tenant_id AND k.session_key = :session_key
    AND r.status <> 'settled' AND (r.status <> 'terminalizing') IS TRUE
  ORDER BY r.sequence FOR NO KEY UPDATE OF r
), changed AS (
  UPDATE submissions AS s SET
    abort_requested_at = clock_timestamp(), revision = s.revision + 1, updated_at = clock_timestamp()
  FROM held AS h WHERE s.tenant_id = :tenant_id AND s.id = h.id AND s.abort_requested_at IS NULL
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.abort_requested', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, json_build_object('submission_ids', COALESCE(
    (SELECT json_agg(r.id ORDER BY r.sequence) FROM held AS h
      JOIN submissions AS r ON r.tenant_id = :tenant_id AND r.id = h.id),
    CAST('[]' AS json))) AS body
)

-- name: reserve
-- The host is the row itself, or what it joined. FOR UPDATE: what is being written under the attempt is waited for;
-- afterwards only this record may be.
WITH host AS MATERIALIZED (
  SELECT s.id FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND {{owned}}
    AND s.id = (SELECT COALESCE(r.joined_into, r.id) FROM submissions AS r
      WHERE r.tenant_id = :tenant_id AND r.id = :id)
  FOR UPDATE
), changed AS (
  UPDATE submissions AS s SET
    status = 'terminalizing', attempt_id = :attempt_id, started_at = COALESCE(s.started_at, clock_timestamp()),
    settlement_record_id = :record_id, settlement_record = :record, settlement_outcome = :outcome,
    settlement_error = :error, revision = s.revision + 1, updated_at = clock_timestamp()
  FROM host AS h WHERE s.tenant_id = :tenant_id AND s.id = :id
    AND (s.id = h.id AND (s.status = 'running') IS TRUE AND s.owner_id IS NOT NULL
      OR s.joined_into = h.id AND (s.status = 'joined') IS TRUE)
    AND {{matched}}
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.terminalizing', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{obligation}} AS body, {{obligation_with_record}} AS answered
  FROM changed AS s
  UNION ALL
  SELECT 200, s.revision, {{obligation}}, {{obligation_with_record}} FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND (s.status = 'terminalizing') IS TRUE AND s.attempt_id = :attempt_id
    AND s.settlement_record_id = :record_id
    AND CAST(s.settlement_record AS text) = CAST(CAST(:record AS json) AS text)
    AND NOT EXISTS (SELECT FROM changed)
)

-- name: claim_joins
-- The host is looked at again after the claim: nothing may have joined because it is no longer owned.
WITH changed AS MATERIALIZED (
  SELECT * FROM cairn_join(:tenant_id, :id, :attempt_id, :agent, :row_limit)
), host AS MATERIALIZED (
  SELECT s.id, s.revision FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{owned}}
    AND (SELECT count(*) FROM changed) >= 0
  FOR KEY SHARE
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.joining', 'submission', s.id, {{submission}} FROM changed AS s ORDER BY s.sequence
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, COALESCE(
    (SELECT {{joined_items}} FROM changed AS s), CAST('{"items":[]}' AS json)) AS body, COALESCE(
    (SELECT {{joined_with_input}} FROM changed AS s), CAST('{"items":[]}' AS json)) AS answered
  FROM host AS h WHERE cairn_require_revision(h.revision, :if_match)
)

-- name: finalize_join
-- The host before its child: its settlement waits for this, or this sees it settled.
WITH host AS MATERIALIZED (
  SELECT s.id FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :host_id AND {{owned}}
  FOR NO KEY UPDATE
), changed AS (
  UPDATE submissions AS s SET
    status = 'joined', input_applied_at = clock_timestamp(), revision = s.revision + 1,
    updated_at = clock_timestamp()
  FROM host AS h WHERE s.tenant_id = :tenant_id AND s.id = :id AND (s.status = 'joining') IS TRUE AND s.joined_into = h.id
    AND {{matched}}
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.joined', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body FROM changed AS s
)

-- name: revert_join
-- The host FOR UPDATE: what is being written for the child under the host's attempt is waited for.
WITH host AS MATERIALIZED (
  SELECT s.id FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :host_id AND {{owned}}
  FOR UPDATE
), changed AS (
  UPDATE submissions AS s SET
    status = 'queued', joined_into = NULL, input_applied_at = NULL, revision = s.revision + 1,
    updated_at = clock_timestamp()
  FROM host AS h WHERE s.tenant_id = :tenant_id AND s.id = :id AND (s.status = 'joining') IS TRUE AND s.joined_into = h.id
    AND {{matched}}
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.reverted', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body FROM changed AS s
)
