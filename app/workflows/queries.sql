-- name: create
-- A replay answers with the row as it now is; another digest gives no row, and the store says why.
WITH created AS (
  INSERT INTO workflows (tenant_id, id, name, description, owner_id, metadata, digest)
  SELECT :tenant_id, :id, :name, :description, :owner_id, COALESCE(:metadata, CAST('{}' AS jsonb)), :digest
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT w.tenant_id, 'workflow.created', 'workflow', w.id, {{workflow}} FROM created AS w
), answer AS (
  SELECT 201 AS status, w.revision AS etag, {{workflow}} AS body FROM created AS w
  UNION ALL
  SELECT 200, w.revision, {{workflow}} FROM workflows AS w
  WHERE w.tenant_id = :tenant_id AND w.id = :id AND w.digest = :digest
)

-- name: ensure
-- Creates, or updates the fields given; a call that changes nothing leaves the revision alone.
WITH ensured AS (
  INSERT INTO workflows AS w (tenant_id, id, name, description, owner_id, metadata, digest)
  SELECT :tenant_id, :id, :name, :description, :owner_id, COALESCE(:metadata, CAST('{}' AS jsonb)), :digest
  WHERE :may_create OR EXISTS (SELECT FROM workflows WHERE tenant_id = :tenant_id AND id = :id)
  ON CONFLICT (tenant_id, id) DO UPDATE SET
    name = CASE WHEN :set_name THEN excluded.name ELSE w.name END,
    description = CASE WHEN :set_description THEN excluded.description ELSE w.description END,
    owner_id = CASE WHEN :set_owner_id THEN excluded.owner_id ELSE w.owner_id END,
    metadata = CASE WHEN :set_metadata THEN excluded.metadata ELSE w.metadata END,
    revision = w.revision + 1, updated_at = clock_timestamp()
  WHERE (CAST(:if_match AS bigint[]) IS NULL OR w.revision = ANY (:if_match))
    AND (:set_name AND w.name IS DISTINCT FROM excluded.name
      OR :set_description AND w.description IS DISTINCT FROM excluded.description
      OR :set_owner_id AND w.owner_id IS DISTINCT FROM excluded.owner_id
      OR :set_metadata AND w.metadata IS DISTINCT FROM excluded.metadata)
  RETURNING w.*, old.id IS NULL AS fresh
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT w.tenant_id, CASE WHEN w.fresh THEN 'workflow.created' ELSE 'workflow.updated' END, 'workflow', w.id,
         {{workflow}} FROM ensured AS w
), answer AS (
  SELECT CASE WHEN w.fresh THEN 201 ELSE 200 END AS status, w.revision AS etag, {{workflow}} AS body
  FROM ensured AS w
  UNION ALL
  SELECT 200, w.revision, {{workflow}} FROM workflows AS w
  WHERE w.tenant_id = :tenant_id AND w.id = :id AND NOT EXISTS (SELECT FROM ensured)
    AND (CAST(:if_match AS bigint[]) IS NULL OR w.revision = ANY (:if_match))
)

-- name: patch
WITH changed AS (
  UPDATE workflows AS w SET
    name = CASE WHEN :set_name THEN :name ELSE w.name END,
    description = CASE WHEN :set_description THEN :description ELSE w.description END,
    owner_id = CASE WHEN :set_owner_id THEN :owner_id ELSE w.owner_id END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{}' AS jsonb)) ELSE w.metadata END,
    revision = w.revision + 1, updated_at = clock_timestamp()
  WHERE w.tenant_id = :tenant_id AND w.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR w.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT w.tenant_id, 'workflow.updated', 'workflow', w.id, {{workflow}} FROM changed AS w
), answer AS (
  SELECT 200 AS status, w.revision AS etag, {{workflow}} AS body FROM changed AS w
)

-- name: lock
-- FOR UPDATE: a version that is being added holds the row's key, so none can slip in before the removal.
SELECT revision FROM workflows WHERE tenant_id = :tenant_id AND id = :id FOR UPDATE

-- name: delete
WITH deleted AS (
  DELETE FROM workflows AS w WHERE w.tenant_id = :tenant_id AND w.id = :id
    AND NOT EXISTS (SELECT FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.workflow_id = :id)
    AND (CAST(:if_match AS bigint[]) IS NULL OR w.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT w.tenant_id, 'workflow.deleted', 'workflow', w.id, json_build_object('id', w.id) FROM deleted AS w
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: get
SELECT w.revision, w.digest, {{workflow}} AS body FROM workflows AS w WHERE w.tenant_id = :tenant_id AND w.id = :id
