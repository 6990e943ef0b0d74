-- name: create
WITH created AS (
  INSERT INTO mcp_versions (tenant_id, server_id, id, version, status, mcp_spec_version, manifest_hash, capabilities,
    listed, release_notes, source_ref, tools_list_changed, prompts_list_changed, resources_list_changed,
    resources_subscribe, released_at, digest)
  SELECT :tenant_id, :server_id, :id, :version, :status, :mcp_spec_version, :manifest_hash,
    COALESCE(:capabilities, CAST('{}' AS jsonb)), :listed, :release_notes, :source_ref, :tools_list_changed,
    :prompts_list_changed, :resources_list_changed, :resources_subscribe,
    CASE WHEN :status IN ('released', 'yanked') THEN clock_timestamp() END, :digest
  ON CONFLICT (tenant_id, server_id, id) DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT v.tenant_id, 'mcp_version.released', 'mcp_version', v.id, v.server_id, {{version}} FROM created AS v
  WHERE v.status = 'released'
), answer AS (
  SELECT 201 AS status, v.revision AS etag, {{version}} AS body FROM created AS v
  UNION ALL
  SELECT 200, v.revision, {{version}} FROM mcp_versions AS v
  WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :id AND v.digest = :digest
)

-- name: patch
-- Once released it only moves between released and yanked, and only what is not frozen changes.
WITH changed AS (
  UPDATE mcp_versions AS v SET {{changes}},
    released_at = CASE WHEN :set_status AND :status = 'released' THEN COALESCE(v.released_at, clock_timestamp())
                       ELSE v.released_at END,
    revision = v.revision + 1, updated_at = clock_timestamp()
  WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR v.revision = ANY (:if_match))
    AND (v.status NOT IN ('released', 'yanked') OR NOT :frozen)
    AND (NOT :set_status OR :status = v.status
      OR CASE WHEN v.status IN ('released', 'yanked') THEN :status IN ('released', 'yanked')
              ELSE :status <> 'yanked' END)
  RETURNING v.*, old.status AS was
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT v.tenant_id, 'mcp_version.' || v.status, 'mcp_version', v.id, v.server_id, {{version}} FROM changed AS v
  WHERE v.status <> v.was AND v.status IN ('released', 'yanked')
), answer AS (
  SELECT 200 AS status, v.revision AS etag, {{version}} AS body FROM changed AS v
)

-- name: get
SELECT v.revision, v.digest, v.status, {{version}} AS body FROM mcp_versions AS v
WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :id

-- name: lock
-- FOR UPDATE: no tool can be added to the version before it is gone.
SELECT v.revision, v.status FROM mcp_versions AS v
WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :id FOR UPDATE

-- name: delete_tools
DELETE FROM mcp_tools WHERE tenant_id = :tenant_id AND server_id = :server_id AND version_id = :id

-- name: delete
WITH deleted AS (
  DELETE FROM mcp_versions WHERE tenant_id = :tenant_id AND server_id = :server_id AND id = :id RETURNING id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
