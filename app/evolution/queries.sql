-- name: create
-- A replay answers with the row as it now is. A generation whose id is another's fails the whole by its primary key.
WITH created AS (
  INSERT INTO evolution_runs (tenant_id, id, goal_text, config, evolution_type, notes, owner_id, started_at, digest)
  SELECT :tenant_id, :id, :goal_text, COALESCE(:config, CAST('{}' AS jsonb)), :evolution_type, :notes, :owner_id,
    COALESCE(:started_at, clock_timestamp()), :digest
  ON CONFLICT DO NOTHING RETURNING *
), opened AS (
  INSERT INTO generations (tenant_id, id, run_id, number, started_at, comment, feedback, digest)
  SELECT r.tenant_id, :generation_id, r.id, :generation_number, COALESCE(:generation_started_at, r.started_at),
    :generation_comment, :generation_feedback, :generation_digest
  FROM created AS r WHERE CAST(:generation_id AS text) IS NOT NULL
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT e.tenant_id, e.type, e.subject_type, e.id, e.data FROM (
    SELECT 0 AS place, r.tenant_id, 'evolution_run.started' AS type, 'evolution_run' AS subject_type, r.id,
      {{run}} AS data FROM created AS r
    UNION ALL
    SELECT 1, g.tenant_id, 'generation.started', 'generation', g.id, {{generation}} FROM opened AS g
  ) AS e ORDER BY e.place
), answer AS (
  SELECT 201 AS status, r.revision AS etag, {{run}} AS body FROM created AS r
  UNION ALL
  SELECT 200, r.revision, {{run}} FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.digest = :digest
)

-- name: unchanged
-- What a change without members answers.
WITH answer AS (
  SELECT 200 AS status, r.revision AS etag, {{run}} AS body FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
)

-- name: complete
-- The first terminal state wins; repeating it exactly gives the row again.
WITH changed AS (
  UPDATE evolution_runs AS r SET status = :status,
    ended_at = COALESCE(:ended_at, GREATEST(clock_timestamp(), r.started_at)),
    notes = CASE WHEN :set_notes THEN :notes ELSE r.notes END, end_digest = :digest, revision = r.revision + 1
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status = 'running'
    AND (CAST(:ended_at AS timestamptz) IS NULL OR :ended_at >= r.started_at)
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT r.tenant_id, 'evolution_run.ended', 'evolution_run', r.id, {{run}} FROM changed AS r
), answer AS (
  SELECT 200 AS status, r.revision AS etag, {{run}} AS body FROM changed AS r
  UNION ALL
  SELECT 200, r.revision, {{run}} FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.end_digest = :digest
)

-- name: reopen
-- Reopening a running run changes nothing.
WITH changed AS (
  UPDATE evolution_runs AS r SET status = 'running', ended_at = NULL, end_digest = NULL, revision = r.revision + 1
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status <> 'running'
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT r.tenant_id, 'evolution_run.reopened', 'evolution_run', r.id, {{run}} FROM changed AS r
), answer AS (
  SELECT 200 AS status, r.revision AS etag, {{run}} AS body FROM changed AS r
  UNION ALL
  SELECT 200, r.revision, {{run}} FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status = 'running'
)

-- name: heartbeat
-- Moves no revision: a sign of life changes nothing that a client could overwrite.
WITH changed AS (
  UPDATE evolution_runs AS r SET heartbeat_at = clock_timestamp()
  WHERE r.tenant_id = :tenant_id AND r.id = :id AND r.status = 'running'
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, r.revision AS etag, {{run}} AS body FROM changed AS r
)

-- name: put_checkpoint
WITH put AS (
  INSERT INTO run_checkpoints AS c (tenant_id, run_id, state)
  SELECT r.tenant_id, r.id, CAST(:state AS json) FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.id = :id
    AND (:may_create OR EXISTS (SELECT FROM run_checkpoints WHERE tenant_id = :tenant_id AND run_id = :id))
  ON CONFLICT (tenant_id, run_id) DO UPDATE SET
    state = excluded.state, revision = c.revision + 1, updated_at = clock_timestamp()
  WHERE CAST(:if_match AS bigint[]) IS NULL OR c.revision = ANY (:if_match)
  RETURNING c.*, old.run_id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN c.fresh THEN 201 ELSE 200 END AS status, c.revision AS etag, {{checkpoint}} AS body FROM put AS c
)

-- name: get_checkpoint
SELECT c.state, c.revision FROM run_checkpoints AS c WHERE c.tenant_id = :tenant_id AND c.run_id = :id

-- name: standing
SELECT r.status, r.started_at, r.ended_at, r.revision, r.digest, r.end_digest FROM evolution_runs AS r
WHERE r.tenant_id = :tenant_id AND r.id = :id

-- name: get
SELECT r.revision, {{run_seen}} AS body FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :id
