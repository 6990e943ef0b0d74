-- name: admit
-- One statement: the session's row is made or locked, and counts; under that lock the submission takes its number, so
-- within a session numbers are in the order of commits, and it is the head where nothing else is open. Who was
-- overtaken by the same id violates the primary key, and is run again. A submission is removed with the commit that
-- leaves its receipt, so one of the two is seen.
WITH receipt AS (
  SELECT r.submission_id, r.accepted_at FROM submission_receipts AS r
  WHERE r.tenant_id = :tenant_id AND r.submission_id = :id
), stored AS (
  SELECT {{returned}}, s.digest FROM submissions AS s WHERE s.tenant_id = :tenant_id AND s.id = :id
), session AS (
  INSERT INTO submission_sessions AS k (tenant_id, session_key, open_count)
  SELECT :tenant_id, :session_key, 1 WHERE NOT EXISTS (SELECT FROM stored) AND NOT EXISTS (SELECT FROM receipt)
  ON CONFLICT (tenant_id, session_key) DO UPDATE SET open_count = k.open_count + 1
  RETURNING k.number, k.open_count
), created AS (
  INSERT INTO submissions AS s (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head,
    accepted_at, canonical_ready_at, max_attempts, timeout_seconds, priority, not_before, on_lapse)
  SELECT :tenant_id, :id, k.number, :kind, :agent, :instance_id, CAST(:input AS json), :digest, k.open_count = 1,
    COALESCE(:accepted_at, clock_timestamp()), CASE WHEN :ready THEN clock_timestamp() END, :max_attempts,
    :timeout_seconds, :priority, :not_before, :on_lapse
  FROM session AS k
  RETURNING {{returned}}
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.admitted', 'submission', s.id, {{admitted}} FROM created AS s
), answer AS (
  SELECT 201 AS status, s.revision AS etag,
    CAST('{"kind":"submission","submission":' || CAST({{admitted}} AS text) || '}' AS json) AS body,
    CASE WHEN {{runnable}} THEN ARRAY[s.agent] END AS moved
  FROM created AS s
  UNION ALL
  SELECT 200, s.revision, CAST('{"kind":"submission","submission":' || CAST({{admitted}} AS text) || '}' AS json), NULL
  FROM stored AS s WHERE s.digest = :digest
  UNION ALL
  SELECT 200, NULL, CAST('{"kind":"retained_receipt","receipt":' || CAST({{receipt}} AS text) || '}' AS json), NULL
  FROM receipt AS r
)

-- name: readmit
-- A new submission with what a settled one asked for, at the end of its session. No client created it, so its digest is
-- of its id alone and equals none.
WITH settled AS (
  SELECT o.*, k.session_key FROM submissions AS o
  JOIN submission_sessions AS k ON k.tenant_id = o.tenant_id AND k.number = o.session_number
  WHERE o.tenant_id = :tenant_id AND o.id = :id AND o.status = 'settled'
), session AS (
  INSERT INTO submission_sessions AS k (tenant_id, session_key, open_count)
  SELECT o.tenant_id, o.session_key, 1 FROM settled AS o
  ON CONFLICT (tenant_id, session_key) DO UPDATE SET open_count = k.open_count + 1
  RETURNING k.number, k.session_key, k.open_count
), created AS (
  INSERT INTO submissions AS s (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head,
    accepted_at, canonical_ready_at, max_attempts, timeout_seconds, priority, on_lapse)
  SELECT o.tenant_id, :new_id, k.number, o.kind, o.agent, o.instance_id, o.input,
    sha256(convert_to(:new_id, 'UTF8')), k.open_count = 1, clock_timestamp(), clock_timestamp(), o.max_attempts,
    o.timeout_seconds, o.priority, o.on_lapse
  FROM settled AS o CROSS JOIN session AS k
  RETURNING {{returned}}, (SELECT k.session_key FROM session AS k) AS session_key
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.admitted', 'submission', s.id, {{readmitted}} FROM created AS s
)
SELECT CASE WHEN {{runnable}} THEN ARRAY[s.agent] END AS moved FROM created AS s

-- name: ready
-- The first time stays.
WITH changed AS (
  UPDATE submissions AS s SET canonical_ready_at = clock_timestamp(), revision = s.revision + 1,
    updated_at = clock_timestamp()
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND s.status = 'queued' AND s.canonical_ready_at IS NULL
    AND {{matched}}
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.ready', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body,
    CASE WHEN {{runnable}} THEN ARRAY[s.agent] END AS moved FROM changed AS s
  UNION ALL
  SELECT 200, s.revision, {{submission}}, NULL FROM submissions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND s.status = 'queued' AND s.canonical_ready_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM changed)
)

-- name: claim
-- Of the head of a session no other changes anything but settlement, so the row's own lock is enough. It is locked as
-- an update of a key is, against writes under an attempt.
WITH changed AS (
  UPDATE submissions AS s SET {{claimed}}, attempt_id = :attempt_id
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND {{runnable}}
    AND {{matched}}
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.claimed', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{submission}} AS body, {{with_input}} AS answered FROM changed AS s
)

-- name: delete
-- The receipt comes with the removal: the id admits nothing again.
WITH deleted AS (
  DELETE FROM submissions AS s WHERE s.tenant_id = :tenant_id AND s.id = :id AND s.status = 'settled'
    AND {{matched}}
  RETURNING s.tenant_id, s.id, s.accepted_at
), receipt AS (
  INSERT INTO submission_receipts (tenant_id, submission_id, accepted_at)
  SELECT s.tenant_id, s.id, s.accepted_at FROM deleted AS s
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.deleted', 'submission', s.id, json_build_object('id', s.id) FROM deleted AS s
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: unsettled
SELECT EXISTS (SELECT FROM submissions AS s WHERE s.tenant_id = :tenant_id AND s.status <> 'settled') AS unsettled

-- name: renew
-- Rows are locked in the order of their ids, so that two renewals cannot wait for each other. A lease that has lapsed
-- and that nobody took is renewed too. Moves neither the revision nor updated_at, as every sign of life.
WITH given AS (
  SELECT g.id, min(g.place) AS place FROM unnest(CAST(:ids AS text[])) WITH ORDINALITY AS g (id, place) GROUP BY g.id
), held AS MATERIALIZED (
  SELECT r.id FROM submissions AS r
  WHERE r.tenant_id = :tenant_id AND r.id = ANY (CAST(:ids AS text[])) AND r.status = 'running'
    AND r.owner_id = :owner_id
  ORDER BY r.id FOR NO KEY UPDATE
), renewed AS (
  UPDATE submissions AS s SET lease_expires_at = {{lease_expires_at}}, lease_lapses_at = {{lease_lapses_at}}
  FROM held AS h WHERE s.tenant_id = :tenant_id AND s.id = h.id
  RETURNING s.id
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, json_build_object(
    'renewed', COALESCE(json_agg(g.id ORDER BY g.place) FILTER (WHERE r.id IS NOT NULL), '[]'),
    'skipped', COALESCE(json_agg(g.id ORDER BY g.place) FILTER (WHERE r.id IS NULL), '[]')) AS body
  FROM given AS g LEFT JOIN renewed AS r ON r.id = g.id
)

-- name: work
-- Which of those who wait would find something, in one look for all of them.
SELECT w.tenant_id, w.agent FROM unnest(CAST(:tenant_ids AS text[]), CAST(:agents AS text[])) AS w (tenant_id, agent)
WHERE CASE WHEN w.agent = '' THEN EXISTS (
    SELECT FROM submissions AS s WHERE s.tenant_id = w.tenant_id AND {{runnable}})
  ELSE EXISTS (
    SELECT FROM submissions AS s WHERE s.tenant_id = w.tenant_id AND s.agent = w.agent AND {{runnable}}) END
