-- name: one_configuration_once
-- Lucky added a row for each node at every set-up; the record has one revision for each configuration.
WITH ranked AS (
  SELECT id, first_value(id) OVER (
    PARTITION BY version_id, node_id, config_hash ORDER BY revision, created_at, id
  ) AS kept_id FROM lucky_node_versions
)
UPDATE lucky_node_versions AS n SET kept_id = r.kept_id FROM ranked AS r
WHERE r.id = n.id AND r.kept_id <> n.id
RETURNING n.line, n.id, 'is the configuration of ' || n.kept_id || ' again' AS detail

-- name: follow_kept_configurations
UPDATE lucky_node_invocations AS n SET node_version_id = k.kept_id
FROM lucky_node_versions AS k WHERE k.id = n.node_version_id AND k.kept_id IS NOT NULL

-- name: leave_repeated_configurations
DELETE FROM lucky_node_versions WHERE kept_id IS NOT NULL

-- name: number_revisions_once
WITH ranked AS (
  SELECT id, version_id, node_id, revision, max(revision) OVER (PARTITION BY version_id, node_id) AS top,
    row_number() OVER (PARTITION BY version_id, node_id, revision ORDER BY created_at, id) AS nth
  FROM lucky_node_versions
), again AS (
  SELECT id, revision AS was,
    top + row_number() OVER (PARTITION BY version_id, node_id ORDER BY revision, nth, id) AS fresh
  FROM ranked WHERE nth > 1
)
UPDATE lucky_node_versions AS n SET revision = a.fresh FROM again AS a WHERE a.id = n.id
RETURNING n.line, n.id, 'version ' || a.was || ' is now revision ' || n.revision AS detail

-- name: place_tools
-- A tool is identified within the version of its server.
UPDATE lucky_mcp_tools AS t SET server_id = v.server_id
FROM (SELECT id, server_id FROM lucky_mcp_versions
  UNION SELECT id, server_id FROM mcp_versions WHERE tenant_id = :tenant_id) AS v
WHERE v.id = t.version_id

-- name: name_configs_once
WITH ranked AS (
  SELECT id, name, row_number() OVER (PARTITION BY user_id, name ORDER BY created_at, id) AS nth FROM lucky_mcp_configs
)
UPDATE lucky_mcp_configs AS c SET name = r.name || ' (' || c.id || ')' FROM ranked AS r
WHERE r.id = c.id AND r.nth > 1
RETURNING c.line, c.id, 'is now named ' || c.name AS detail

-- name: enter_config_sets
INSERT INTO mcp_config_sets AS t (tenant_id, user_id, revision)
SELECT DISTINCT :tenant_id, s.user_id, 1 FROM lucky_mcp_configs AS s
ON CONFLICT (tenant_id, user_id) DO UPDATE SET revision = t.revision + 1

-- name: number_generations_once
WITH ranked AS (
  SELECT id, run_id, number, max(number) OVER (PARTITION BY run_id) AS top,
    row_number() OVER (PARTITION BY run_id, number ORDER BY started_at, id) AS nth
  FROM lucky_generations
), again AS (
  SELECT id, number AS was, top + row_number() OVER (PARTITION BY run_id ORDER BY number, nth, id) AS fresh
  FROM ranked WHERE nth > 1
)
UPDATE lucky_generations AS g SET number = a.fresh FROM again AS a WHERE a.id = g.id
RETURNING g.line, g.id, 'number ' || a.was || ' of run ' || g.run_id || ' is now ' || g.number AS detail

-- name: lost_parents
-- Parents that are neither in the dump nor in the tenant, and a version named as its own parent, which is none.
WITH named AS (
  SELECT v.id, v.line, p.parent_id, p.place FROM lucky_versions AS v
  CROSS JOIN LATERAL (VALUES (1, v.parent1_id), (2, v.parent2_id), (3, v.parent_id)) AS p (place, parent_id)
  WHERE p.parent_id IS NOT NULL
), lost AS (
  SELECT n.* FROM named AS n WHERE n.parent_id = n.id OR NOT (
    EXISTS (SELECT FROM lucky_versions AS s WHERE s.id = n.parent_id)
    OR EXISTS (SELECT FROM versions AS t WHERE t.tenant_id = :tenant_id AND t.id = n.parent_id))
), gathered AS (
  SELECT id, array_agg(place) AS places, string_agg(DISTINCT parent_id, ', ') AS parents FROM lost GROUP BY id
)
UPDATE lucky_versions AS v SET
  parent1_id = CASE WHEN 1 <> ALL (g.places) THEN v.parent1_id END,
  parent2_id = CASE WHEN 2 <> ALL (g.places) THEN v.parent2_id END,
  parent_id = CASE WHEN 3 <> ALL (g.places) THEN v.parent_id END,
  parents_unknown = true
FROM gathered AS g WHERE g.id = v.id
RETURNING v.line, v.id, 'lacks ' || g.parents AS detail

-- name: place_parents
-- The three columns for parents become two; a crossover of a version with itself names it twice.
UPDATE lucky_versions AS v SET parent1_id = p.parents[1], parent2_id = p.parents[2], parent_id = p.parents[3]
FROM (
  SELECT s.id, array_remove(ARRAY[
    s.parent1_id,
    CASE WHEN s.operation = 'crossover' OR s.parent2_id IS DISTINCT FROM s.parent1_id THEN s.parent2_id END,
    CASE WHEN s.parent_id IS DISTINCT FROM s.parent1_id AND s.parent_id IS DISTINCT FROM s.parent2_id
      THEN s.parent_id END
  ], NULL) AS parents FROM lucky_versions AS s WHERE num_nonnulls(s.parent1_id, s.parent2_id, s.parent_id) > 0
) AS p WHERE p.id = v.id

-- name: third_parents
SELECT v.line, v.id, v.parent_id || ' besides ' || v.parent1_id || ' and ' || v.parent2_id AS detail
FROM lucky_versions AS v WHERE v.parent_id IS NOT NULL

-- name: unusual_parents
UPDATE lucky_versions AS v SET parents_unknown = true
WHERE NOT v.parents_unknown AND num_nonnulls(v.parent1_id, v.parent2_id)
  <> CASE v.operation WHEN 'mutation' THEN 1 WHEN 'crossover' THEN 2 ELSE 0 END
RETURNING v.line, v.id, v.operation || ' with ' || num_nonnulls(v.parent1_id, v.parent2_id) || ' parents' AS detail

-- name: link_to_workflow
UPDATE lucky_invocations AS i SET workflow_id = v.workflow_id
FROM (SELECT id, workflow_id FROM lucky_versions
  UNION SELECT id, workflow_id FROM versions WHERE tenant_id = :tenant_id) AS v
WHERE v.id = i.version_id

-- name: link_to_generation
UPDATE lucky_invocations AS i SET generation_id = v.generation_id, extras = i.extras || jsonb_build_object(
  'lucky', COALESCE(i.extras -> 'lucky', '{}') || '{"generation_id_from_version": true}')
FROM (SELECT id, generation_id FROM lucky_versions
  UNION SELECT id, generation_id FROM versions WHERE tenant_id = :tenant_id) AS v
WHERE v.id = i.version_id AND i.generation_id IS NULL AND v.generation_id IS NOT NULL
RETURNING i.line, i.id, 'generation ' || i.generation_id AS detail

-- name: link_to_run
UPDATE lucky_invocations AS i SET run_id = g.run_id, extras = i.extras || jsonb_build_object(
  'lucky', COALESCE(i.extras -> 'lucky', '{}') || '{"run_id_from_generation": true}')
FROM (SELECT id, run_id FROM lucky_generations
  UNION SELECT id, run_id FROM generations WHERE tenant_id = :tenant_id) AS g
WHERE g.id = i.generation_id AND i.run_id IS NULL
RETURNING i.line, i.id, 'run ' || i.run_id AS detail

-- name: end_runs
UPDATE lucky_evolution_runs AS r SET ended_at = e.at
FROM (
  SELECT s.id, greatest(s.started_at, max(g.ended_at), max(g.started_at)) AS at
  FROM lucky_evolution_runs AS s LEFT JOIN lucky_generations AS g ON g.run_id = s.id
  WHERE s.ended_at IS NULL AND s.status <> 'running' GROUP BY s.id, s.started_at
) AS e WHERE e.id = r.id
RETURNING r.line, r.id, 'ended_at ' || to_char(r.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.USZ') AS detail

-- name: end_invocations
-- Cleaning up set a status and no end: the last that the nodes tell is the earliest that it can have been.
UPDATE lucky_invocations AS i SET ended_at = e.at, updated_at = e.at, extras = i.extras || jsonb_build_object(
  'lucky', COALESCE(i.extras -> 'lucky', '{}') || '{"end_time_unknown": true}')
FROM (
  SELECT s.id, greatest(s.started_at, max(n.ended_at), max(n.started_at)) AS at
  FROM lucky_invocations AS s LEFT JOIN lucky_node_invocations AS n ON n.invocation_id = s.id
  WHERE s.ended_at IS NULL AND s.status NOT IN ('queued', 'running') GROUP BY s.id, s.started_at
) AS e WHERE e.id = i.id
RETURNING i.line, i.id, 'ended_at ' || to_char(i.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.USZ') AS detail

-- name: end_nodes
UPDATE lucky_node_invocations AS n SET ended_at = n.started_at, extras = n.extras || jsonb_build_object(
  'lucky', COALESCE(n.extras -> 'lucky', '{}') || '{"end_time_unknown": true}')
WHERE n.ended_at IS NULL AND n.status <> 'running'
RETURNING n.line, n.id, 'ended_at is its start' AS detail

-- name: place_nodes
-- A node invocation ran under its own version where that is known, else under that of its invocation.
UPDATE lucky_node_invocations AS n SET
  version_id = CASE WHEN EXISTS (SELECT FROM lucky_versions AS s WHERE s.id = n.version_id)
    OR EXISTS (SELECT FROM versions AS t WHERE t.tenant_id = :tenant_id AND t.id = n.version_id)
    THEN n.version_id ELSE i.version_id END,
  extras = CASE WHEN n.version_id IS NULL OR n.version_id = i.version_id THEN n.extras
    ELSE n.extras || jsonb_build_object('lucky', COALESCE(n.extras -> 'lucky', '{}')
      || jsonb_build_object('wf_version_id', n.version_id)) END
FROM (SELECT id, version_id FROM lucky_invocations
  UNION SELECT id, version_id FROM invocations WHERE tenant_id = :tenant_id) AS i
WHERE i.id = n.invocation_id

-- name: index_node_versions
CREATE INDEX ON lucky_node_versions (version_id, node_id)

-- name: make_missing_node_versions
-- Lucky kept no configuration of some nodes that ran; the record needs one to say which ran.
INSERT INTO lucky_node_versions (line, id, version_id, node_id, revision, llm_model, tools, handoffs, waiting_for, extras,
                                 config_hash, created_at)
SELECT 0, 'lucky:' || encode(m.hash, 'hex'), m.version_id, m.node_id, 1, m.model, '{}', '{}', '{}',
  '{"lucky": {"made_by_import": true}}', m.hash, m.first_at
FROM (
  SELECT n.version_id, n.node_id, max(n.model) AS model, min(n.started_at) AS first_at,
    sha256(convert_to(jsonb_build_array(n.version_id, n.node_id)::text, 'UTF8')) AS hash
  FROM lucky_node_invocations AS n
  WHERE n.node_version_id IS NULL
    AND NOT EXISTS (SELECT FROM lucky_node_versions AS s WHERE s.version_id = n.version_id AND s.node_id = n.node_id)
    AND NOT EXISTS (SELECT FROM node_versions AS t
      WHERE t.tenant_id = :tenant_id AND t.version_id = n.version_id AND t.node_id = n.node_id)
  GROUP BY n.version_id, n.node_id
) AS m
RETURNING line, id, 'node ' || node_id || ' of ' || version_id AS detail

-- name: link_nodes
-- The revision that was the newest when the node started, or the first where all are younger.
UPDATE lucky_node_invocations AS n SET node_version_id = (
  SELECT c.id FROM (
    SELECT s.id, s.revision, s.created_at FROM lucky_node_versions AS s
    WHERE s.version_id = n.version_id AND s.node_id = n.node_id
    UNION ALL
    SELECT t.id, t.revision, t.created_at FROM node_versions AS t
    WHERE t.tenant_id = :tenant_id AND t.version_id = n.version_id AND t.node_id = n.node_id
  ) AS c
  ORDER BY c.created_at <= n.started_at DESC,
    CASE WHEN c.created_at <= n.started_at THEN -c.revision ELSE c.revision END, c.id LIMIT 1
)
WHERE n.node_version_id IS NULL

-- name: taken_numbers
SELECT s.line, s.id, 'number ' || s.number || ' of run ' || s.run_id || ' belongs to ' || t.id AS detail
FROM lucky_generations AS s JOIN generations AS t
  ON t.tenant_id = :tenant_id AND t.run_id = s.run_id AND t.number = s.number AND t.id <> s.id

-- name: taken_revisions
SELECT s.line, s.id, 'its revision or its configuration belongs to ' || t.id AS detail
FROM lucky_node_versions AS s JOIN node_versions AS t
  ON t.tenant_id = :tenant_id AND t.version_id = s.version_id AND t.node_id = s.node_id AND t.id <> s.id
    AND (t.revision = s.revision OR t.config_hash = s.config_hash)

-- name: other_dataset
SELECT s.line, s.id, 'its dataset_version_id ' || s.dataset_version_id || ' belongs to another dataset' AS detail
FROM lucky_dataset_records AS s WHERE s.dataset_version_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM lucky_dataset_versions AS v
    WHERE v.dataset_id = s.dataset_id AND v.id = s.dataset_version_id)
  AND NOT EXISTS (SELECT FROM dataset_versions AS v WHERE v.tenant_id = :tenant_id
    AND v.dataset_id = s.dataset_id AND v.id = s.dataset_version_id)

-- name: other_io
SELECT s.line, s.id, 'other inputs and outputs are recorded for it' AS detail
FROM lucky_versions AS s JOIN versions AS v ON v.tenant_id = :tenant_id AND v.id = s.id
LEFT JOIN version_io AS t ON t.tenant_id = :tenant_id AND t.version_id = s.id
WHERE s.io IS NOT NULL AND t.io::text IS DISTINCT FROM s.io::text AND (v.pruned_at IS NULL OR t.io IS NOT NULL)

-- name: bring_io_back
INSERT INTO version_io (tenant_id, version_id, io, updated_at)
SELECT :tenant_id, s.id, s.io, COALESCE(s.io_updated_at, s.created_at)
FROM lucky_versions AS s JOIN versions AS v ON v.tenant_id = :tenant_id AND v.id = s.id
WHERE s.io IS NOT NULL AND v.pruned_at IS NOT NULL ON CONFLICT DO NOTHING

-- name: bring_back
UPDATE versions AS v SET dsl = s.dsl, pruned_at = NULL FROM lucky_versions AS s
WHERE v.tenant_id = :tenant_id AND v.id = s.id AND v.pruned_at IS NOT NULL
RETURNING s.line, s.id, 'has its content again' AS detail

-- name: store_io
INSERT INTO version_io (tenant_id, version_id, io, updated_at)
SELECT :tenant_id, s.id, s.io, COALESCE(s.io_updated_at, s.created_at) FROM lucky_versions AS s WHERE s.io IS NOT NULL

-- name: store_best
UPDATE generations AS g SET best_version_id = s.best_version_id FROM lucky_generations AS s
WHERE g.tenant_id = :tenant_id AND g.id = s.id AND s.best_version_id IS NOT NULL

-- name: store_members
-- Lucky moved a version to its last generation; the invocations of a generation tell who else was in it.
INSERT INTO generation_members (tenant_id, generation_id, version_id, fitness)
SELECT :tenant_id, m.generation_id, m.version_id, max(m.fitness_score)
FROM (
  SELECT generation_id, id AS version_id, CAST(NULL AS double precision) AS fitness_score FROM lucky_versions
  UNION ALL
  SELECT generation_id, version_id, fitness_score FROM lucky_invocations
) AS m
WHERE m.generation_id IS NOT NULL GROUP BY m.generation_id, m.version_id
ON CONFLICT DO NOTHING
