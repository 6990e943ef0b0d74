-- name: graph
-- The parents of what is shown are nodes too, whatever workflow they belong to, so that no edge leads nowhere.
WITH newest AS MATERIALIZED (
  SELECT v.id, v.parent1_id, v.parent2_id, v.created_at FROM versions AS v
  WHERE v.tenant_id = :tenant_id AND v.workflow_id = :workflow_id
  ORDER BY v.created_at DESC, v.id DESC LIMIT CAST(:limit AS bigint) + 1
), shown AS MATERIALIZED (
  SELECT * FROM newest ORDER BY created_at DESC, id DESC LIMIT CAST(:limit AS bigint)
), edges AS MATERIALIZED (
  SELECT p.id AS parent_id, s.id AS child_id, s.created_at, p.kind FROM shown AS s
  CROSS JOIN LATERAL (VALUES (s.parent1_id, 'parent1'), (s.parent2_id, 'parent2')) AS p (id, kind)
  WHERE p.id IS NOT NULL
), others AS MATERIALIZED (
  SELECT e.parent_id AS id FROM edges AS e EXCEPT SELECT s.id FROM shown AS s
), nodes AS (
  SELECT 0 AS half, s.created_at, s.id FROM shown AS s UNION ALL SELECT 1, NULL, o.id FROM others AS o
)
SELECT
  (SELECT string_agg(CAST(v.body AS text), ',' ORDER BY n.half, n.created_at DESC, n.id DESC) FROM nodes AS n
    CROSS JOIN LATERAL (SELECT {{node}} AS body FROM versions AS v
      WHERE v.tenant_id = :tenant_id AND v.id = n.id OFFSET 0) AS v) AS nodes,
  (SELECT string_agg(CAST(json_build_object('from', e.parent_id, 'to', e.child_id, 'kind', e.kind) AS text), ','
    ORDER BY e.created_at DESC, e.child_id DESC, e.kind) FROM edges AS e) AS edges,
  (SELECT count(*) FROM newest) > CAST(:limit AS bigint) AS followed, last.id, CAST(last.created_at AS text) AS key
FROM (SELECT s.id, s.created_at FROM shown AS s ORDER BY s.created_at, s.id LIMIT 1) AS last

-- name: both
SELECT v.id, v.pruned_at IS NOT NULL AS is_pruned,
  octet_length(CAST(v.dsl AS text)) AS size_bytes,
  CASE WHEN octet_length(CAST(v.dsl AS text)) <= CAST(:size_max_bytes AS bigint) THEN v.dsl END AS dsl
FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.id IN (:version_id, :other_id)
