-- name: head
SELECT {{invocation}} AS invocation, {{version}} AS version, {{workflow}} AS workflow
FROM invocations AS i JOIN versions AS v ON v.tenant_id = i.tenant_id AND v.id = i.version_id
JOIN workflows AS w ON w.tenant_id = v.tenant_id AND w.id = v.workflow_id
WHERE i.tenant_id = :tenant_id AND i.id = :invocation_id

-- name: nodes
-- In start order, with the actions of each. `followed` says that more come after; the nodes stop after `limit`, or
-- before the one whose predecessors fill the budget.
SELECT n.id, CAST(n.started_at AS text) AS key, n.followed, n.actions, {{node}} AS node, {{node_version}} AS node_version
FROM (
  SELECT n.*, a.actions, n.own + a.bytes AS bytes, row_number() OVER running AS place,
    sum(n.own + a.bytes) OVER running AS filled, lead(true) OVER running IS TRUE AS followed
  FROM (
    SELECT *, {{output_bytes}} AS own FROM node_invocations
    WHERE tenant_id = :tenant_id AND invocation_id = :invocation_id
    ORDER BY started_at, id LIMIT CAST(:limit AS bigint) + 1
  ) AS n CROSS JOIN LATERAL (
    SELECT array_agg({{action}} ORDER BY a.position) AS actions, COALESCE(sum({{action_bytes}}), 0) AS bytes
    FROM (
      SELECT * FROM actions WHERE tenant_id = n.tenant_id AND invocation_id = n.invocation_id
        AND node_invocation_id = n.id
      ORDER BY position LIMIT CAST(:limit AS bigint) + 1
    ) AS a
  ) AS a
  WINDOW running AS (ORDER BY n.started_at, n.id ROWS UNBOUNDED PRECEDING)
) AS n JOIN node_versions AS v ON v.tenant_id = n.tenant_id AND v.id = n.node_version_id
WHERE n.place <= CAST(:limit AS bigint) AND n.filled - n.bytes <= CAST(:budget AS bigint)
ORDER BY n.started_at, n.id

-- name: messages
-- In the order of their numbers, bounded like the nodes.
SELECT m.id, CAST(m.seq AS text) AS key, to_json(m.id) AS shown_id, m.origin_node_invocation_id AS origin,
  m.target_node_invocation_id AS target, m.followed, {{message}} AS body
FROM (
  SELECT m.*, row_number() OVER running AS place, sum(m.bytes) OVER running AS filled,
    lead(true) OVER running IS TRUE AS followed
  FROM (
    SELECT *, {{payload_bytes}} AS bytes FROM messages
    WHERE tenant_id = :tenant_id AND invocation_id = :invocation_id
    ORDER BY seq, id LIMIT CAST(:limit AS bigint) + 1
  ) AS m
  WINDOW running AS (ORDER BY m.seq, m.id ROWS UNBOUNDED PRECEDING)
) AS m
WHERE m.place <= CAST(:limit AS bigint) AND m.filled - m.bytes <= CAST(:budget AS bigint)
ORDER BY m.seq, m.id

-- name: metrics
-- Sums are exact; what is not known (a node that still runs, a cost that nobody stated) is left out of them.
WITH runs AS MATERIALIZED (
  SELECT n.id, n.node_id, n.status, n.started_at, n.usd_cost, n.input_tokens, n.output_tokens, n.error,
    {{seconds_of_node}} AS seconds
  FROM node_invocations AS n WHERE n.tenant_id = :tenant_id AND n.invocation_id = :invocation_id
), nodes AS (
  SELECT r.node_id, count(*) AS runs, count(*) FILTER (WHERE r.status = 'failed') AS failed_runs,
    trim_scale(sum(r.seconds)) AS duration_seconds, trim_scale(sum(r.usd_cost)) AS usd_cost,
    sum(r.input_tokens) AS input_tokens, sum(r.output_tokens) AS output_tokens
  FROM runs AS r GROUP BY r.node_id ORDER BY min(r.started_at), r.node_id LIMIT CAST(:limit AS bigint)
), calls AS (
  SELECT a.tool, count(*) AS calls,
    count(*) FILTER (WHERE {{failed_call}}) AS failed_calls,
    trim_scale(sum(a.duration_ms)) AS duration_ms
  FROM actions AS a WHERE a.tenant_id = :tenant_id AND a.invocation_id = :invocation_id
  GROUP BY a.tool ORDER BY count(*) DESC, a.tool LIMIT CAST(:limit AS bigint)
), failures AS (
  SELECT r.id AS node_invocation_id, r.node_id, r.error FROM runs AS r
  WHERE r.status = 'failed' OR r.error IS NOT NULL ORDER BY r.started_at, r.id LIMIT CAST(:limit AS bigint)
), bottleneck AS (
  SELECT r.id AS node_invocation_id, r.node_id, trim_scale(r.seconds) AS duration_seconds FROM runs AS r
  WHERE r.seconds IS NOT NULL ORDER BY r.seconds DESC, r.started_at, r.id LIMIT 1
), costs AS (
  SELECT r.node_id, trim_scale(sum(r.usd_cost)) AS usd_cost FROM runs AS r WHERE r.usd_cost IS NOT NULL
  GROUP BY r.node_id
), flow AS (
  SELECT m.from_node_id, m.to_node_id, count(*) AS messages FROM messages AS m
  WHERE m.tenant_id = :tenant_id AND m.invocation_id = :invocation_id
  GROUP BY m.from_node_id, m.to_node_id ORDER BY min(m.seq), min(m.id) LIMIT CAST(:limit AS bigint)
)
SELECT (SELECT row_to_json(shown) FROM (SELECT
  i.id AS invocation_id, i.status, trim_scale({{seconds_of_invocation}}) AS duration_seconds,
  trim_scale(COALESCE(i.usd_cost, (SELECT sum(r.usd_cost) FROM runs AS r))) AS usd_cost,
  (SELECT count(*) FROM runs) AS node_invocation_count,
  (SELECT count(*) FROM runs AS r WHERE r.status = 'completed') AS completed_count,
  (SELECT count(*) FROM runs AS r WHERE r.status = 'failed') AS failed_count,
  (SELECT count(*) FROM messages AS m WHERE m.tenant_id = i.tenant_id AND m.invocation_id = i.id) AS message_count,
  (SELECT count(*) FROM messages AS m WHERE m.tenant_id = i.tenant_id AND m.invocation_id = i.id
    AND m.role = 'error') AS error_message_count,
  (SELECT row_to_json(b) FROM bottleneck AS b) AS bottleneck,
  (SELECT row_to_json(c) FROM costs AS c ORDER BY c.usd_cost DESC, c.node_id LIMIT 1) AS dearest_node,
  (SELECT trim_scale(avg(c.usd_cost)) FROM costs AS c) AS avg_usd_cost_per_node,
  (SELECT COALESCE(json_agg(n), '[]') FROM nodes AS n) AS nodes,
  (SELECT COALESCE(json_agg(c), '[]') FROM calls AS c) AS tools,
  (SELECT COALESCE(json_agg(f), '[]') FROM flow AS f) AS flow,
  (SELECT count(*) FROM runs AS r WHERE r.status = 'failed' OR r.error IS NOT NULL) AS error_count,
  (SELECT COALESCE(json_agg(f), '[]') FROM failures AS f) AS errors,
  i.error
) AS shown) AS body
FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :invocation_id
