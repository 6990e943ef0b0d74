-- name: create
WITH created AS (
  INSERT INTO evaluators (tenant_id, id, name, config, rubric, owner_id, digest)
  SELECT :tenant_id, :id, :name, CAST(:config AS jsonb), CAST(:rubric AS jsonb), :owner_id, :digest
  ON CONFLICT DO NOTHING RETURNING *
), answer AS (
  SELECT 201 AS status, e.revision AS etag, {{evaluator}} AS body FROM created AS e
  UNION ALL
  SELECT 200, e.revision, {{evaluator}} FROM evaluators AS e
  WHERE e.tenant_id = :tenant_id AND e.id = :id AND e.digest = :digest
)

-- name: patch
WITH changed AS (
  UPDATE evaluators AS e SET
    name = CASE WHEN :set_name THEN :name ELSE e.name END,
    config = CASE WHEN :set_config THEN CAST(:config AS jsonb) ELSE e.config END,
    rubric = CASE WHEN :set_rubric THEN CAST(:rubric AS jsonb) ELSE e.rubric END,
    owner_id = CASE WHEN :set_owner_id THEN :owner_id ELSE e.owner_id END,
    revision = e.revision + 1, updated_at = clock_timestamp()
  WHERE e.tenant_id = :tenant_id AND e.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR e.revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, e.revision AS etag, {{evaluator}} AS body FROM changed AS e
)

-- name: get
SELECT e.revision, e.digest, {{evaluator}} AS body FROM evaluators AS e
WHERE e.tenant_id = :tenant_id AND e.id = :id

-- name: delete
WITH deleted AS (
  DELETE FROM evaluators AS e WHERE e.tenant_id = :tenant_id AND e.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR e.revision = ANY (:if_match))
  RETURNING id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
