-- name: clean_up
-- One at a time for each tenant: whoever does not get the turn finds nothing, and says so. A row that somebody holds is
-- alive: it is skipped. Of nodes only those of the last 30 days are looked at, in the order of their index; but those of
-- an invocation that ends here end with it, however old, and are waited for. Meanwhile others may give a sign of life: so
-- the invocation of a node is locked too, and looked at as it is then.
WITH turn AS MATERIALIZED (
  SELECT :dry_run OR pg_try_advisory_xact_lock(hashtextextended(CAST(:tenant_id AS text), 24308)) AS is_ours
), invocation AS MATERIALIZED (
  SELECT i.tenant_id, i.id FROM turn AS o, invocations AS i
  WHERE o.is_ours AND i.tenant_id = :tenant_id AND i.status = 'running'
    AND i.started_at < clock_timestamp() - make_interval(secs => :invocation_seconds)
    AND (i.heartbeat_at IS NULL
      OR i.heartbeat_at < clock_timestamp() - make_interval(secs => :invocation_seconds))
  ORDER BY i.started_at, i.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF i SKIP LOCKED
), below AS MATERIALIZED (
  SELECT n.tenant_id, n.invocation_id, n.id FROM invocation AS i
  JOIN node_invocations AS n ON n.tenant_id = i.tenant_id AND n.invocation_id = i.id
  WHERE n.status = 'running'
  ORDER BY n.invocation_id, n.id FOR NO KEY UPDATE OF n
), left_alone AS MATERIALIZED (
  SELECT n.tenant_id, n.invocation_id, n.id FROM turn AS o, node_invocations AS n
  JOIN invocations AS i ON i.tenant_id = n.tenant_id AND i.id = n.invocation_id
  WHERE o.is_ours AND n.tenant_id = :tenant_id AND n.status = 'running'
    AND n.started_at < clock_timestamp() - make_interval(secs => :node_invocation_seconds)
    AND n.started_at >= clock_timestamp() - interval '30 days'
      - make_interval(secs => :node_invocation_seconds)
    AND (i.heartbeat_at IS NULL
      OR i.heartbeat_at < clock_timestamp() - make_interval(secs => :node_invocation_seconds))
  ORDER BY n.started_at, n.invocation_id, n.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF n SKIP LOCKED FOR SHARE OF i SKIP LOCKED
), node AS MATERIALIZED (
  SELECT * FROM below UNION SELECT * FROM left_alone
), run AS MATERIALIZED (
  SELECT r.tenant_id, r.id FROM turn AS o, evolution_runs AS r
  WHERE o.is_ours AND r.tenant_id = :tenant_id AND r.status = 'running'
    AND r.started_at < clock_timestamp() - make_interval(secs => :evolution_run_seconds)
    AND (r.heartbeat_at IS NULL
      OR r.heartbeat_at < clock_timestamp() - make_interval(secs => :evolution_run_seconds))
  ORDER BY r.started_at, r.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF r SKIP LOCKED
), generation AS MATERIALIZED (
  SELECT g.tenant_id, g.id FROM run AS r JOIN generations AS g ON g.tenant_id = r.tenant_id AND g.run_id = r.id
  WHERE g.ended_at IS NULL AND g.interrupted_at IS NULL
  ORDER BY g.run_id, g.number FOR NO KEY UPDATE OF g
), ended_invocation AS (
  UPDATE invocations AS i SET status = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
    revision = i.revision + 1, error = COALESCE(i.error, {{silent}})
  FROM invocation AS s WHERE NOT :dry_run AND i.tenant_id = s.tenant_id AND i.id = s.id
  RETURNING i.*
), ended_node AS (
  UPDATE node_invocations AS n SET status = 'failed', ended_at = clock_timestamp(), revision = n.revision + 1,
    error = COALESCE(n.error, {{silent}})
  FROM node AS s
  WHERE NOT :dry_run AND n.tenant_id = s.tenant_id AND n.invocation_id = s.invocation_id AND n.id = s.id
  RETURNING n.*
), interrupted_run AS (
  UPDATE evolution_runs AS r SET status = 'interrupted', ended_at = clock_timestamp(), revision = r.revision + 1
  FROM run AS s WHERE NOT :dry_run AND r.tenant_id = s.tenant_id AND r.id = s.id
  RETURNING r.*
), interrupted_generation AS (
  UPDATE generations AS g SET interrupted_at = clock_timestamp(), revision = g.revision + 1
  FROM generation AS s WHERE NOT :dry_run AND g.tenant_id = s.tenant_id AND g.id = s.id
  RETURNING g.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT e.tenant_id, e.type, e.subject_type, e.id, e.parent_id, e.data FROM (
    SELECT 0 AS place, n.tenant_id, 'node_invocation.ended' AS type, 'node_invocation' AS subject_type, n.id,
      n.invocation_id AS parent_id, {{node}} AS data FROM ended_node AS n
    UNION ALL
    SELECT 1, i.tenant_id, 'invocation.ended', 'invocation', i.id, NULL, {{invocation}} FROM ended_invocation AS i
    UNION ALL
    SELECT 2, g.tenant_id, 'generation.updated', 'generation', g.id, NULL, {{generation}}
    FROM interrupted_generation AS g
    UNION ALL
    SELECT 3, r.tenant_id, 'evolution_run.ended', 'evolution_run', r.id, NULL, {{run}} FROM interrupted_run AS r
  ) AS e ORDER BY e.place
), found AS (
  SELECT (SELECT count(*) FROM invocation) AS invocations, (SELECT count(*) FROM node) AS nodes,
    (SELECT count(*) FROM run) AS runs, (SELECT count(*) FROM generation) AS generations,
    (SELECT count(*) FROM left_alone) AS left_alone
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, json_build_object(
    'dry_run', CAST(:dry_run AS boolean), 'workflow_invocations', f.invocations, 'node_invocations', f.nodes,
    'evolution_runs', f.runs, 'evolution_runs_end_times', f.runs, 'generations', f.generations, 'messages', 0,
    'ids', json_build_object(
      'workflow_invocations', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM invocation AS s),
      'node_invocations', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM node AS s),
      'evolution_runs', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM run AS s),
      'generations', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM generation AS s)),
    'more', greatest(f.invocations, f.left_alone, f.runs) >= :limit) AS body
  FROM found AS f, turn AS o WHERE o.is_ours
)

-- name: put_schedule
-- A new rhythm counts from now.
WITH put AS (
  INSERT INTO cleanup_schedules AS s (tenant_id, every_seconds, thresholds)
  SELECT :tenant_id, :every_seconds, CAST(:thresholds AS jsonb)
  WHERE :may_create OR EXISTS (SELECT FROM cleanup_schedules WHERE tenant_id = :tenant_id)
  ON CONFLICT (tenant_id) DO UPDATE SET
    every_seconds = excluded.every_seconds, thresholds = excluded.thresholds, due_at = clock_timestamp(),
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE (s.every_seconds, s.thresholds) IS DISTINCT FROM (excluded.every_seconds, excluded.thresholds)
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING s.*, old.tenant_id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN s.fresh THEN 201 ELSE 200 END AS status, s.revision AS etag, {{schedule}} AS body FROM put AS s
  UNION ALL
  SELECT 200, s.revision, {{schedule}} FROM cleanup_schedules AS s
  WHERE s.tenant_id = :tenant_id AND NOT EXISTS (SELECT FROM put)
    AND (s.every_seconds, s.thresholds) = (:every_seconds, CAST(:thresholds AS jsonb))
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
)

-- name: get_schedule
SELECT s.revision, {{schedule}} AS body FROM cleanup_schedules AS s WHERE s.tenant_id = :tenant_id

-- name: delete_schedule
WITH deleted AS (
  DELETE FROM cleanup_schedules AS s WHERE s.tenant_id = :tenant_id
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING s.tenant_id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: due
SELECT s.tenant_id, s.thresholds FROM cleanup_schedules AS s JOIN tenants AS n USING (tenant_id)
WHERE s.due_at <= clock_timestamp() AND n.closed_at IS NULL
ORDER BY s.due_at LIMIT CAST(:limit AS bigint)

-- name: done
UPDATE cleanup_schedules SET last_success_at = clock_timestamp(), last_counts = CAST(:counts AS jsonb),
  due_at = clock_timestamp() + make_interval(secs => every_seconds)
WHERE tenant_id = :tenant_id RETURNING tenant_id
