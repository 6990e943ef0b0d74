-- name: create
WITH created AS (
  INSERT INTO datasets (tenant_id, id, name, description, data_format, status, owner_id, metadata, digest)
  SELECT :tenant_id, :id, :name, :description, :data_format, :status, :owner_id,
    COALESCE(:metadata, CAST('{}' AS jsonb)), :digest
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT d.tenant_id, 'dataset.created', 'dataset', d.id, {{dataset}} FROM created AS d
), answer AS (
  SELECT 201 AS status, d.revision AS etag, {{dataset}} AS body FROM created AS d
  UNION ALL
  SELECT 200, d.revision, {{dataset}} FROM datasets AS d
  WHERE d.tenant_id = :tenant_id AND d.id = :id AND d.digest = :digest
)

-- name: patch
WITH changed AS (
  UPDATE datasets AS d SET
    name = CASE WHEN :set_name THEN :name ELSE d.name END,
    description = CASE WHEN :set_description THEN :description ELSE d.description END,
    data_format = CASE WHEN :set_data_format THEN :data_format ELSE d.data_format END,
    status = CASE WHEN :set_status THEN :status ELSE d.status END,
    owner_id = CASE WHEN :set_owner_id THEN :owner_id ELSE d.owner_id END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{}' AS jsonb)) ELSE d.metadata END,
    revision = d.revision + 1, updated_at = clock_timestamp()
  WHERE d.tenant_id = :tenant_id AND d.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR d.revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, d.revision AS etag, {{dataset}} AS body FROM changed AS d
)

-- name: get
SELECT d.revision, d.digest, {{dataset}} AS body FROM datasets AS d WHERE d.tenant_id = :tenant_id AND d.id = :id

-- name: lock
-- FOR UPDATE: a version or record that is being added holds the row's key, so none can slip in before the removal.
SELECT revision FROM datasets WHERE tenant_id = :tenant_id AND id = :id FOR UPDATE

-- name: referring
-- Any 20 of them: to find the first ones by id, every invocation of the tenant might be read.
SELECT found.id FROM (
  SELECT i.id FROM dataset_records AS r
  JOIN invocations AS i ON i.tenant_id = r.tenant_id AND i.dataset_record_id = r.id
  WHERE r.tenant_id = :tenant_id AND r.dataset_id = :id AND i.dataset_record_id IS NOT NULL LIMIT 20
) AS found ORDER BY found.id

-- name: count
-- At most `limit` of each are counted.
SELECT (SELECT count(*) FROM (
    SELECT FROM dataset_records WHERE tenant_id = :tenant_id AND dataset_id = :id LIMIT CAST(:limit AS bigint)) AS r)
  + (SELECT count(*) FROM (
    SELECT FROM dataset_versions WHERE tenant_id = :tenant_id AND dataset_id = :id LIMIT CAST(:limit AS bigint)) AS v)
  AS count

-- name: delete_dataset_records
-- By their ids, not by their places: a row that a replay touches meanwhile moves, and would be missed.
WITH gone AS (DELETE FROM dataset_records WHERE tenant_id = :tenant_id AND dataset_id = :id AND id = ANY (ARRAY(
  SELECT id FROM dataset_records WHERE tenant_id = :tenant_id AND dataset_id = :id LIMIT CAST(:limit AS bigint)))
RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete_dataset_versions
WITH gone AS (DELETE FROM dataset_versions WHERE tenant_id = :tenant_id AND dataset_id = :id AND id = ANY (ARRAY(
  SELECT id FROM dataset_versions WHERE tenant_id = :tenant_id AND dataset_id = :id LIMIT CAST(:limit AS bigint)))
RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete
WITH deleted AS (
  DELETE FROM datasets AS d WHERE d.tenant_id = :tenant_id AND d.id = :id RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT d.tenant_id, 'dataset.deleted', 'dataset', d.id, json_build_object('id', d.id) FROM deleted AS d
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: create_version
WITH created AS (
  INSERT INTO dataset_versions (tenant_id, dataset_id, id, name, version_label, snapshot_metadata, digest)
  SELECT :tenant_id, :dataset_id, :id, :name, :version_label, CAST(:snapshot_metadata AS jsonb), :digest
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT v.tenant_id, 'dataset_version.created', 'dataset_version', v.id, v.dataset_id, {{version}} FROM created AS v
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{version}} AS body FROM created AS v
  UNION ALL
  SELECT 200, NULL, {{version}} FROM dataset_versions AS v
  WHERE v.tenant_id = :tenant_id AND v.dataset_id = :dataset_id AND v.id = :id AND v.digest = :digest
)

-- name: get_version
SELECT v.digest, {{version}} AS body FROM dataset_versions AS v
WHERE v.tenant_id = :tenant_id AND v.dataset_id = :dataset_id AND v.id = :id
