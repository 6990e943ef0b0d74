-- name: progress
-- What the engine said of a generation comes first; what it left out follows from the invocations, or from the members.
WITH chosen AS MATERIALIZED (
  SELECT g.* FROM generations AS g
  WHERE g.tenant_id = :tenant_id AND g.run_id = :run_id AND g.number >= CAST(:from_number AS bigint)
  ORDER BY g.number LIMIT CAST(:limit AS bigint) + 1
), ran AS MATERIALIZED (
  SELECT l.generation_id, count(*) AS invocations, count(*) FILTER (WHERE l.status = 'completed') AS successes,
    max(l.fitness_score) AS best, {{mean_fitness}} AS average, min(l.fitness_score) AS worst,
    {{mean_accuracy}} AS accuracy, sum(l.usd_cost) AS cost
  FROM {{invocations_of_run}} AS l WHERE l.generation_id IS NOT NULL GROUP BY l.generation_id
), scored AS MATERIALIZED (
  SELECT m.generation_id, max(m.fitness) AS best, {{mean_member}} AS average, min(m.fitness) AS worst
  FROM chosen AS g JOIN generation_members AS m ON m.tenant_id = g.tenant_id AND m.generation_id = g.id
  GROUP BY m.generation_id
), shown AS (
  SELECT g.number, row_number() OVER (ORDER BY g.number) AS place, {{step}} AS body
  FROM chosen AS g LEFT JOIN ran ON ran.generation_id = g.id LEFT JOIN scored ON scored.generation_id = g.id
)
SELECT json_build_object('run_id', r.id,
  'generations', COALESCE((SELECT json_agg(s.body ORDER BY s.number) FROM shown AS s WHERE s.place <= :limit), '[]'),
  'next_number', (SELECT s.number FROM shown AS s WHERE s.place > :limit)) AS body
FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :run_id

-- fragment: best_first
b.fitness_score DESC NULLS LAST, b.accuracy DESC NULLS LAST, b.started_at, b.id

-- fragment: items_of_chosen
SELECT json_build_object('items', COALESCE((
  SELECT json_agg({{found}} ORDER BY {{best_first}})
  FROM chosen AS b
  JOIN invocations AS i ON i.tenant_id = r.tenant_id AND i.id = b.id
  JOIN versions AS v ON v.tenant_id = r.tenant_id AND v.id = b.version_id
), '[]')) AS body
FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :run_id

-- name: best
-- The best come first, those without a score last.
WITH chosen AS MATERIALIZED (
  SELECT b.* FROM {{invocations_of_run}} AS b ORDER BY {{best_first}} LIMIT CAST(:n AS bigint)
)
{{items_of_chosen}}

-- name: best_of_each_version
WITH chosen AS MATERIALIZED (
  SELECT b.* FROM (
    SELECT DISTINCT ON (b.version_id) b.* FROM {{invocations_of_run}} AS b ORDER BY b.version_id, {{best_first}}
  ) AS b ORDER BY {{best_first}} LIMIT CAST(:n AS bigint)
)
{{items_of_chosen}}

-- name: graph
-- Versions and invocations in the order of their generations, each kind bounded; edges between what is shown.
-- `(… IN …) IS TRUE` is looked up in a hash; as joins, whose sizes a kept plan cannot know, edges were nested loops.
WITH linked AS MATERIALIZED (
  SELECT l.* FROM {{invocations_of_run}} AS l
), ran AS MATERIALIZED (
  SELECT l.* FROM linked AS l
  WHERE (CAST(:from_number AS bigint) IS NULL OR l.number >= :from_number)
    AND (CAST(:to_number AS bigint) IS NULL OR l.number <= :to_number)
  ORDER BY l.number, l.started_at, l.id LIMIT CAST(:limit AS bigint) + 1
), seen AS MATERIALIZED (
  SELECT v.*, s.number, s.invocations, s.fitness FROM (
    SELECT s.version_id, min(s.number) AS number, CAST(sum(s.invocations) AS bigint) AS invocations,
      max(s.fitness) AS fitness
    FROM {{versions_of_run}} AS s GROUP BY s.version_id
  ) AS s JOIN versions AS v ON v.tenant_id = :tenant_id AND v.id = s.version_id
  WHERE (CAST(:from_number AS bigint) IS NULL OR s.number >= :from_number)
    AND (CAST(:to_number AS bigint) IS NULL OR s.number <= :to_number)
  ORDER BY s.number, v.created_at, v.id LIMIT CAST(:limit AS bigint) + 1
), invocation_nodes AS MATERIALIZED (
  SELECT i.id, i.version_id, i.parent_invocation_id, row_number() OVER (ORDER BY l.number, l.started_at, l.id) AS place,
    {{invocation_node}} AS body
  FROM (SELECT * FROM ran ORDER BY number, started_at, id LIMIT CAST(:limit AS bigint)) AS l
  JOIN invocations AS i ON i.tenant_id = :tenant_id AND i.id = l.id
), version_nodes AS MATERIALIZED (
  SELECT v.id, v.parent1_id, v.parent2_id, row_number() OVER (ORDER BY v.number, v.created_at, v.id) AS place,
    {{version_node}} AS body
  FROM (SELECT * FROM seen ORDER BY number, created_at, id LIMIT CAST(:limit AS bigint)) AS v
), edges AS (
  SELECT 0 AS kind, c.place, json_build_object('kind', 'parent1', 'from', c.parent1_id, 'to', c.id) AS body
  FROM version_nodes AS c WHERE (c.parent1_id IN (SELECT id FROM version_nodes)) IS TRUE
  UNION ALL
  SELECT 1, c.place, json_build_object('kind', 'parent2', 'from', c.parent2_id, 'to', c.id)
  FROM version_nodes AS c WHERE (c.parent2_id IN (SELECT id FROM version_nodes)) IS TRUE
  UNION ALL
  SELECT 2, c.place, json_build_object('kind', 'invocation', 'from', c.version_id, 'to', c.id)
  FROM invocation_nodes AS c WHERE (c.version_id IN (SELECT id FROM version_nodes)) IS TRUE
  UNION ALL
  SELECT 3, c.place, json_build_object('kind', 'parent_invocation', 'from', c.parent_invocation_id, 'to', c.id)
  FROM invocation_nodes AS c WHERE (c.parent_invocation_id IN (SELECT id FROM invocation_nodes)) IS TRUE
)
SELECT json_build_object('run_id', r.id,
  'nodes', COALESCE((SELECT json_agg(n.body ORDER BY n.kind, n.place) FROM (
    SELECT 0 AS kind, v.place, v.body FROM version_nodes AS v
    UNION ALL SELECT 1, i.place, i.body FROM invocation_nodes AS i) AS n), '[]'),
  'edges', COALESCE((SELECT json_agg(e.body ORDER BY e.kind, e.place) FROM edges AS e), '[]'),
  'more', json_build_object('versions', (SELECT count(*) > CAST(:limit AS bigint) FROM seen),
    'invocations', (SELECT count(*) > CAST(:limit AS bigint) FROM ran))) AS body
FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :run_id
