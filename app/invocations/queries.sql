-- name: create
-- Set-based: n invocations of any tenants, n = 1 the same statement. A row whose version is missing, or whose id is
-- taken by another digest, gives no answer row.
WITH given AS (
  SELECT * FROM unnest(
    CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:version_ids AS text[]), CAST(:parents AS text[]),
    CAST(:run_ids AS text[]), CAST(:generation_ids AS text[]), CAST(:record_ids AS text[]),
    CAST(:evaluator_ids AS text[]), CAST(:submission_ids AS text[]), CAST(:session_ids AS text[]),
    CAST(:statuses AS text[]), CAST(:started_ats AS timestamptz[]), CAST(:inputs AS json[]), CAST(:outputs AS json[]),
    CAST(:expected_outputs AS text[]), CAST(:expected_types AS jsonb[]), CAST(:actual_outputs AS text[]),
    CAST(:usd_costs AS numeric[]), CAST(:fitnesses AS json[]), CAST(:fitness_scores AS float8[]),
    CAST(:accuracies AS float8[]), CAST(:novelties AS float8[]), CAST(:feedbacks AS text[]),
    CAST(:preparations AS text[]), CAST(:errors AS jsonb[]), CAST(:metadatas AS jsonb[]), CAST(:extrases AS jsonb[]),
    CAST(:digests AS bytea[])
  ) WITH ORDINALITY AS g (tenant_id, id, version_id, parent_invocation_id, run_id, generation_id, dataset_record_id,
    evaluator_id, submission_id, session_id, status, started_at, input, output, expected_output, expected_output_type,
    actual_output, usd_cost, fitness, fitness_score, accuracy, novelty, feedback, preparation, error, metadata, extras,
    digest, place)
), created AS (
  INSERT INTO invocations (tenant_id, id, version_id, workflow_id, parent_invocation_id, run_id, generation_id,
    dataset_record_id, evaluator_id, submission_id, session_id, status, started_at, input, output, expected_output,
    expected_output_type, actual_output, usd_cost, fitness, fitness_score, accuracy, novelty, feedback, preparation,
    error, metadata, extras, digest)
  SELECT g.tenant_id, g.id, g.version_id, v.workflow_id, g.parent_invocation_id, g.run_id, g.generation_id,
    g.dataset_record_id, g.evaluator_id, g.submission_id, g.session_id, g.status,
    CASE WHEN g.status = 'running' THEN COALESCE(g.started_at, clock_timestamp()) END, g.input, g.output,
    g.expected_output, g.expected_output_type, g.actual_output, g.usd_cost, g.fitness, g.fitness_score, g.accuracy,
    g.novelty, g.feedback, g.preparation, g.error, COALESCE(g.metadata, CAST('{}' AS jsonb)),
    COALESCE(g.extras, CAST('{}' AS jsonb)), g.digest
  FROM given AS g
  JOIN versions AS v ON v.tenant_id = g.tenant_id AND v.id = g.version_id AND v.pruned_at IS NULL
  -- Whoever prunes it is waited for, and then it is looked at again.
  FOR KEY SHARE OF v
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, CASE i.status WHEN 'queued' THEN 'invocation.queued' ELSE 'invocation.started' END,
    'invocation', i.id, {{invocation}} FROM created AS i
), answer AS (
  SELECT g.place, 201 AS status, i.revision AS etag, {{invocation}} AS body
  FROM given AS g JOIN created AS i ON i.tenant_id = g.tenant_id AND i.id = g.id
  UNION ALL
  SELECT g.place, 200, i.revision, {{invocation}}
  FROM given AS g JOIN invocations AS i ON i.tenant_id = g.tenant_id AND i.id = g.id AND i.digest = g.digest
)

-- name: start
-- Starting a running invocation again is the same.
WITH given AS (
  SELECT * FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:started_ats AS timestamptz[]))
    WITH ORDINALITY AS g (tenant_id, id, started_at, place)
), changed AS (
  UPDATE invocations AS i SET status = 'running', started_at = COALESCE(g.started_at, clock_timestamp()),
    revision = i.revision + 1, updated_at = clock_timestamp()
  FROM given AS g WHERE i.tenant_id = g.tenant_id AND i.id = g.id AND i.status = 'queued'
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
  RETURNING i.*, g.place
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, 'invocation.started', 'invocation', i.id, {{invocation}} FROM changed AS i
), answer AS (
  SELECT i.place, 200 AS status, i.revision AS etag, {{invocation}} AS body FROM changed AS i
  UNION ALL
  SELECT g.place, 200, i.revision, {{invocation}}
  FROM given AS g JOIN invocations AS i ON i.tenant_id = g.tenant_id AND i.id = g.id AND i.status = 'running'
  WHERE g.started_at IS NULL OR g.started_at = i.started_at
)

-- name: heartbeat
-- Moves neither the revision nor updated_at: a sign of life changes nothing that a client could overwrite.
WITH given AS (
  SELECT * FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[])) WITH ORDINALITY AS g (tenant_id, id, place)
), changed AS (
  UPDATE invocations AS i SET heartbeat_at = clock_timestamp()
  FROM given AS g WHERE i.tenant_id = g.tenant_id AND i.id = g.id AND i.status = 'running'
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
  RETURNING i.*, g.place
), answer AS (
  SELECT i.place, 200 AS status, i.revision AS etag, {{invocation}} AS body FROM changed AS i
)

-- name: end
-- The first terminal state wins; repeating it exactly gives the row again. What never started cannot complete.
WITH given AS (
  SELECT * FROM unnest(
    CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:statuses AS text[]), CAST(:ended_ats AS timestamptz[]),
    CAST(:digests AS bytea[]), CAST(:evaluator_ids AS text[]), CAST(:expected_outputs AS text[]),
    CAST(:expected_types AS jsonb[]), CAST(:actual_outputs AS text[]), CAST(:usd_costs AS numeric[]),
    CAST(:fitnesses AS json[]), CAST(:fitness_scores AS float8[]), CAST(:accuracies AS float8[]),
    CAST(:novelties AS float8[]), CAST(:feedbacks AS text[]), CAST(:metadatas AS jsonb[]), CAST(:extrases AS jsonb[]),
    CAST(:outputs AS json[]), CAST(:errors AS jsonb[]), CAST(:cleared AS text[])
  ) WITH ORDINALITY AS g (tenant_id, id, status, ended_at, digest, evaluator_id, expected_output, expected_output_type,
    actual_output, usd_cost, fitness, fitness_score, accuracy, novelty, feedback, metadata, extras, output, error,
    cleared, place)
), changed AS (
  UPDATE invocations AS i SET
    status = g.status, ended_at = COALESCE(g.ended_at, GREATEST(clock_timestamp(), i.started_at)),
    end_digest = g.digest,
    {{assignments}},
    revision = i.revision + 1, updated_at = clock_timestamp()
  FROM given AS g
  WHERE i.tenant_id = g.tenant_id AND i.id = g.id
    AND (i.status = 'running' OR i.status = 'queued' AND g.status IN ('failed', 'cancelled'))
    AND (g.ended_at IS NULL OR i.started_at IS NULL OR g.ended_at >= i.started_at)
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
  RETURNING i.*, g.place
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, 'invocation.ended', 'invocation', i.id, {{invocation}} FROM changed AS i
), answer AS (
  SELECT i.place, 200 AS status, i.revision AS etag, {{invocation}} AS body FROM changed AS i
  UNION ALL
  SELECT g.place, 200, i.revision, {{invocation}}
  FROM given AS g JOIN invocations AS i ON i.tenant_id = g.tenant_id AND i.id = g.id AND i.end_digest = g.digest
)

-- name: cancel
-- Queued: cancelled. Running: asked to stop, or with force ended at once. Asking again changes nothing.
WITH changed AS (
  UPDATE invocations AS i SET
    status = CASE WHEN i.status = 'queued' OR :force THEN 'cancelled' ELSE i.status END,
    ended_at = CASE WHEN i.status = 'queued' OR :force THEN GREATEST(clock_timestamp(), i.started_at) END,
    cancel_requested_at = COALESCE(i.cancel_requested_at, clock_timestamp()),
    revision = i.revision + 1, updated_at = clock_timestamp()
  WHERE i.tenant_id = :tenant_id AND i.id = :id
    AND (i.status = 'queued' OR i.status = 'running' AND (:force OR i.cancel_requested_at IS NULL))
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, CASE i.status WHEN 'cancelled' THEN 'invocation.ended' ELSE 'invocation.cancel_requested' END,
    'invocation', i.id, {{invocation}} FROM changed AS i
), answer AS (
  SELECT 200 AS status, i.revision AS etag, {{invocation}} AS body FROM changed AS i
  UNION ALL
  SELECT 200, i.revision, {{invocation}} FROM invocations AS i
  WHERE i.tenant_id = :tenant_id AND i.id = :id AND NOT EXISTS (SELECT FROM changed)
    AND (i.status = 'cancelled' OR i.status = 'running' AND i.cancel_requested_at IS NOT NULL AND NOT :force)
)

-- name: unchanged
-- What a change without members answers.
WITH answer AS (
  SELECT 200 AS status, i.revision AS etag, {{invocation}} AS body FROM invocations AS i
  WHERE i.tenant_id = :tenant_id AND i.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
)

-- name: standing
SELECT i.status, i.started_at, i.cancel_requested_at, i.revision, i.digest, i.end_digest FROM invocations AS i
WHERE i.tenant_id = :tenant_id AND i.id = :id

-- name: lock
-- FOR UPDATE: no node, message or child can be added while the record is removed.
SELECT i.status, i.revision, EXISTS (
  SELECT FROM invocations AS c WHERE c.tenant_id = :tenant_id AND c.parent_invocation_id = :id) AS has_children
FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :id FOR UPDATE

-- name: delete_parts
WITH m AS (DELETE FROM messages WHERE tenant_id = :tenant_id AND invocation_id = :id),
e AS (DELETE FROM evaluations WHERE tenant_id = :tenant_id AND invocation_id = :id),
c AS (DELETE FROM checkpoints WHERE tenant_id = :tenant_id AND invocation_id = :id),
r AS (DELETE FROM artifact_references WHERE tenant_id = :tenant_id AND invocation_id = :id RETURNING hash),
x AS (DELETE FROM contexts WHERE tenant_id = :tenant_id AND invocation_id = :id RETURNING artifact_hash),
held AS MATERIALIZED (
  -- In the order in which everybody locks several.
  SELECT a.hash FROM artifacts AS a WHERE a.tenant_id = :tenant_id
    AND a.hash IN (SELECT hash FROM r UNION SELECT artifact_hash FROM x) ORDER BY a.hash FOR NO KEY UPDATE
),
freed AS (
  -- What they referred to has the whole grace period from here on.
  UPDATE artifacts AS a SET touched_at = clock_timestamp() FROM held AS h
  WHERE a.tenant_id = :tenant_id AND a.hash = h.hash
)
DELETE FROM actions WHERE tenant_id = :tenant_id AND invocation_id = :id

-- name: delete_nodes
DELETE FROM node_invocations WHERE tenant_id = :tenant_id AND invocation_id = :id

-- name: delete
WITH deleted AS (
  DELETE FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :id RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, 'invocation.deleted', 'invocation', i.id, json_build_object('id', i.id) FROM deleted AS i
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
