-- name: insert_workflow
INSERT INTO workflows (tenant_id, id, name, description, owner_id, metadata, digest)
SELECT :tenant_id, :id, :name, :description, :owner_id, COALESCE(:metadata, CAST('{}' AS jsonb)), :digest
ON CONFLICT DO NOTHING RETURNING id

-- name: announce_workflow
INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
SELECT w.tenant_id, 'workflow.created', 'workflow', w.id, {{workflow}}
FROM workflows AS w WHERE w.tenant_id = :tenant_id AND w.id = :id

-- name: create
-- A replay compares content and ancestry; message, generation and text of the first stay.
WITH created AS (
  INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation, parent1_id, parent2_id, parents_unknown,
    generation_id, commit_message, iteration_budget, time_budget_seconds, input_schema, output_schema, knowledge)
  SELECT :tenant_id, :id, :workflow_id, :dsl, :dsl_hash, :operation, :parent1_id, :parent2_id, :parents_unknown,
    :generation_id, :commit_message, :iteration_budget, :time_budget_seconds, :input_schema, :output_schema, :knowledge
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT v.tenant_id, 'version.created', 'version', v.id, {{version}} FROM created AS v
), restored AS (
  -- What was pruned is back with its content.
  UPDATE versions AS v SET dsl = :dsl, pruned_at = NULL
  WHERE v.tenant_id = :tenant_id AND v.id = :id AND v.pruned_at IS NOT NULL AND v.dsl_hash = :dsl_hash
    AND (:keep OR (v.workflow_id = :workflow_id AND v.operation = :operation
      AND v.parent1_id IS NOT DISTINCT FROM :parent1_id AND v.parent2_id IS NOT DISTINCT FROM :parent2_id))
  RETURNING v.*
), back AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT v.tenant_id, 'version.restored', 'version', v.id, {{version}} FROM restored AS v
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{version}} AS body, CAST(NULL AS text[]) AS moved
  FROM created AS v
  UNION ALL
  SELECT 200, NULL, {{version}}, ARRAY[v.id] FROM restored AS v
  UNION ALL
  SELECT 200, CAST(NULL AS bigint), {{version}}, NULL FROM versions AS v
  WHERE NOT EXISTS (SELECT FROM restored) AND v.tenant_id = :tenant_id AND v.id = :id AND v.dsl_hash = :dsl_hash
    AND (:keep OR (v.workflow_id = :workflow_id AND v.operation = :operation
      AND v.parent1_id IS NOT DISTINCT FROM :parent1_id AND v.parent2_id IS NOT DISTINCT FROM :parent2_id))
)

-- name: exists
SELECT id, pruned_at IS NOT NULL AS is_pruned FROM versions WHERE tenant_id = :tenant_id AND id = :id

-- name: dsl
SELECT v.dsl, v.dsl_hash FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.id = :id

-- name: put_io
WITH put AS (
  INSERT INTO version_io AS t (tenant_id, version_id, io) SELECT :tenant_id, :id, :io
  WHERE :may_create OR EXISTS (SELECT FROM version_io WHERE tenant_id = :tenant_id AND version_id = :id)
  ON CONFLICT (tenant_id, version_id) DO UPDATE SET
    io = excluded.io, revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match)
  RETURNING t.*, old.version_id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN t.fresh THEN 201 ELSE 200 END AS status, t.revision AS etag, {{io}} AS body FROM put AS t
)

-- name: io
SELECT t.io, t.revision FROM version_io AS t WHERE t.tenant_id = :tenant_id AND t.version_id = :id
