-- name: record
-- Without a number it takes the next under the invocation, whose row it locks for that, so writers at once take turns.
-- Where somebody gives that very number meanwhile there is no answer row, and it is run again.
WITH numbered AS (
  SELECT COALESCE(CAST(:number AS bigint), cairn_next_checkpoint(:tenant_id, :invocation_id)) AS number
), created AS (
  INSERT INTO checkpoints (tenant_id, invocation_id, number, node_id, state, digest)
  SELECT :tenant_id, :invocation_id, n.number, :node_id, CAST(:state AS json), :digest FROM numbered AS n
  ON CONFLICT DO NOTHING RETURNING {{returned}}
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{checkpoint}} AS body FROM created AS c
  UNION ALL
  SELECT 200, NULL, {{checkpoint}} FROM checkpoints AS c
  WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id AND c.number = CAST(:number AS bigint)
    AND c.digest = :digest
)

-- name: standing
SELECT c.digest FROM checkpoints AS c
WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id AND c.number = CAST(:number AS bigint)

-- name: resume
-- A sign of life of whoever goes on; a queued invocation starts. Nothing else of the record changes: what was running
-- when the worker went is shown, and is for the next one to end or to run again.
WITH resumed AS (
  UPDATE invocations AS i SET
    status = 'running', started_at = COALESCE(i.started_at, clock_timestamp()), heartbeat_at = clock_timestamp(),
    revision = i.revision + CASE i.status WHEN 'queued' THEN 1 ELSE 0 END,
    updated_at = CASE i.status WHEN 'queued' THEN clock_timestamp() ELSE i.updated_at END
  WHERE i.tenant_id = :tenant_id AND i.id = :invocation_id AND i.status IN ('queued', 'running')
    AND (CAST(:if_match AS bigint[]) IS NULL OR i.revision = ANY (:if_match))
  RETURNING i.*, old.status AS was
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT i.tenant_id, CASE i.was WHEN 'queued' THEN 'invocation.started' ELSE 'invocation.resumed' END, 'invocation',
    i.id, {{invocation}} FROM resumed AS i
), nodes AS MATERIALIZED (
  SELECT n.status, row_number() OVER (PARTITION BY n.status ORDER BY n.started_at, n.id) AS place, {{node}} AS body
  FROM resumed AS i JOIN node_invocations AS n ON n.tenant_id = i.tenant_id AND n.invocation_id = i.id
), answer AS (
  SELECT 200 AS status, i.revision AS etag, json_build_object(
    'invocation', {{invocation}},
    'checkpoint', (
      SELECT {{checkpoint}} FROM checkpoints AS c
      WHERE c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id ORDER BY c.number DESC LIMIT 1),
    'completed_nodes', {{completed}},
    'running_nodes', {{running}},
    'failed_nodes', {{failed}},
    'node_counts', json_build_object(
      'completed', (SELECT count(*) FROM nodes WHERE status = 'completed'),
      'running', (SELECT count(*) FROM nodes WHERE status = 'running'),
      'failed', (SELECT count(*) FROM nodes WHERE status = 'failed'))
  ) AS body FROM resumed AS i
)
