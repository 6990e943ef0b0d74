-- name: lock
-- FOR NO KEY UPDATE on the version makes writers of its nodes take turns, so that revisions are dense and the next
-- statement sees what the writer before committed. It does not hold up rows that only refer to the version.
SELECT 1 FROM versions WHERE tenant_id = :tenant_id AND id = :version_id FOR NO KEY UPDATE

-- name: record
-- Stores the configurations that the version does not have yet, in the order given; runs after `lock`.
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(
    CAST(:ids AS text[]), CAST(:node_ids AS text[]), CAST(:hashes AS bytea[]), CAST(:system_prompts AS text[]),
    CAST(:llm_models AS text[]), CAST(:descriptions AS text[]), CAST(:lists AS jsonb[]), CAST(:memories AS jsonb[]),
    CAST(:extras AS jsonb[])
  ) WITH ORDINALITY
    AS g (id, node_id, config_hash, system_prompt, llm_model, description, lists, memory, extras, place)
), stored AS MATERIALIZED (
  SELECT n.* FROM node_versions AS n
  WHERE n.tenant_id = :tenant_id AND n.version_id = :version_id AND n.node_id = ANY (CAST(:node_ids AS text[]))
), missing AS (
  SELECT DISTINCT ON (g.node_id, g.config_hash) g.* FROM given AS g
  WHERE NOT EXISTS (SELECT FROM stored AS s WHERE s.node_id = g.node_id AND s.config_hash = g.config_hash)
  ORDER BY g.node_id, g.config_hash, g.place
), created AS (
  INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, system_prompt, llm_model, tools, description,
                             handoffs, waiting_for, memory, extras, config_hash)
  SELECT :tenant_id, m.id, :version_id, m.node_id,
    COALESCE((SELECT max(s.revision) FROM stored AS s WHERE s.node_id = m.node_id), 0)
      + row_number() OVER (PARTITION BY m.node_id ORDER BY m.place),
    m.system_prompt, m.llm_model, ARRAY(SELECT jsonb_array_elements_text(m.lists -> 0)), m.description,
    ARRAY(SELECT jsonb_array_elements_text(m.lists -> 1)), ARRAY(SELECT jsonb_array_elements_text(m.lists -> 2)),
    m.memory, COALESCE(m.extras, CAST('{}' AS jsonb)), m.config_hash
  FROM missing AS m
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT n.tenant_id, 'node_version.created', 'node_version', n.id, n.version_id, {{node_version}} FROM created AS n
), known AS (
  SELECT true AS fresh, * FROM created UNION ALL SELECT false, * FROM stored
)
SELECT n.fresh, n.id, {{node_version}} AS body
FROM given AS g JOIN known AS n ON n.node_id = g.node_id AND n.config_hash = g.config_hash
ORDER BY g.place

-- name: memory
SELECT COALESCE(m.memory, n.memory, CAST('{}' AS jsonb)) AS body, COALESCE(m.revision, n.revision) AS revision
FROM (
  SELECT memory, revision FROM node_versions
  WHERE tenant_id = :tenant_id AND version_id = :version_id AND node_id = :node_id ORDER BY revision DESC LIMIT 1
) AS n LEFT JOIN node_memories AS m
  ON m.tenant_id = :tenant_id AND m.version_id = :version_id AND m.node_id = :node_id

-- name: write_memory
-- The memory starts as that of the node's newest revision, under that revision's number; the first write takes the next
-- number. Two first writes at once: the second meets the row of the first, and changes that one.
WITH node AS (
  SELECT COALESCE(memory, CAST('{}' AS jsonb)) AS memory, revision FROM node_versions
  WHERE tenant_id = :tenant_id AND version_id = :version_id AND node_id = :node_id ORDER BY revision DESC LIMIT 1
), written AS (
  INSERT INTO node_memories AS m (tenant_id, version_id, node_id, memory, revision)
  SELECT :tenant_id, :version_id, :node_id,
    CASE WHEN :merge THEN cairn_merge_patch(n.memory, :memory) ELSE CAST(:memory AS jsonb) END, n.revision + 1
  FROM node AS n
  WHERE CAST(:if_match AS bigint[]) IS NULL OR n.revision = ANY (:if_match)
     OR EXISTS (SELECT FROM node_memories WHERE tenant_id = :tenant_id AND version_id = :version_id
                AND node_id = :node_id)
  ON CONFLICT (tenant_id, version_id, node_id) DO UPDATE SET
    memory = CASE WHEN :merge THEN cairn_merge_patch(m.memory, :memory) ELSE excluded.memory END,
    revision = m.revision + 1, updated_at = clock_timestamp()
  WHERE CAST(:if_match AS bigint[]) IS NULL OR m.revision = ANY (:if_match)
  RETURNING *
), answer AS (
  SELECT 200 AS status, m.revision AS etag, CAST(m.memory AS json) AS body FROM written AS m
)
