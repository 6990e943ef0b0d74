-- name: clean_up
-- A row that somebody holds is alive: it is skipped. Of nodes only those of the last 30 days are looked at, in the
-- order of their index.
WITH invocation AS MATERIALIZED (
  SELECT i.tenant_id, i.id FROM invocations AS i
  WHERE i.tenant_id = :tenant_id AND i.status = 'running'
    AND i.started_at < clock_timestamp() - make_interval(secs => :invocation_seconds)
    AND (i.heartbeat_at IS NULL
      OR i.heartbeat_at < clock_timestamp() - make_interval(secs => :invocation_seconds))
  ORDER BY i.started_at, i.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF i SKIP LOCKED
), node AS MATERIALIZED (
  SELECT n.tenant_id, n.invocation_id, n.id FROM node_invocations AS n
  JOIN invocations AS i ON i.tenant_id = n.tenant_id AND i.id = n.invocation_id
  WHERE n.tenant_id = :tenant_id AND n.status = 'running'
    AND n.started_at < clock_timestamp() - make_interval(secs => :node_invocation_seconds)
    AND n.started_at >= clock_timestamp() - interval '30 days'
      - make_interval(secs => :node_invocation_seconds)
    AND (i.heartbeat_at IS NULL
      OR i.heartbeat_at < clock_timestamp() - make_interval(secs => :node_invocation_seconds))
  ORDER BY n.started_at, n.invocation_id, n.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF n SKIP LOCKED
), run AS MATERIALIZED (
  SELECT r.tenant_id, r.id FROM evolution_runs AS r
  WHERE r.tenant_id = :tenant_id AND r.status = 'running'
    AND r.started_at < clock_timestamp() - make_interval(secs => :evolution_run_seconds)
    AND (r.heartbeat_at IS NULL
      OR r.heartbeat_at < clock_timestamp() - make_interval(secs => :evolution_run_seconds))
  ORDER BY r.started_at, r.id LIMIT CAST(:limit AS bigint)
  FOR UPDATE OF r SKIP LOCKED
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
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT e.tenant_id, e.type, e.subject_type, e.id, e.parent_id, e.data FROM (
    SELECT 0 AS place, n.tenant_id, 'node_invocation.ended' AS type, 'node_invocation' AS subject_type, n.id,
      n.invocation_id AS parent_id, {{node}} AS data FROM ended_node AS n
    UNION ALL
    SELECT 1, i.tenant_id, 'invocation.ended', 'invocation', i.id, NULL, {{invocation}} FROM ended_invocation AS i
    UNION ALL
    SELECT 2, r.tenant_id, 'evolution_run.ended', 'evolution_run', r.id, NULL, {{run}} FROM interrupted_run AS r
  ) AS e ORDER BY e.place
), found AS (
  SELECT (SELECT count(*) FROM invocation) AS invocations, (SELECT count(*) FROM node) AS nodes,
    (SELECT count(*) FROM run) AS runs
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, json_build_object(
    'dry_run', CAST(:dry_run AS boolean), 'workflow_invocations', f.invocations, 'node_invocations', f.nodes,
    'evolution_runs', f.runs, 'evolution_runs_end_times', f.runs, 'generations', 0, 'messages', 0,
    'ids', json_build_object(
      'workflow_invocations', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM invocation AS s),
      'node_invocations', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM node AS s),
      'evolution_runs', (SELECT COALESCE(json_agg(s.id ORDER BY s.id), '[]') FROM run AS s)),
    'more', greatest(f.invocations, f.nodes, f.runs) >= :limit) AS body
  FROM found AS f
)
