-- name: create
-- A slug that is taken is told by its constraint, so only the id gives way.
WITH created AS (
  INSERT INTO mcp_servers (tenant_id, id, publisher_id, slug, display_name, short_description, long_description,
    homepage_url, repo_url, logo_url, visibility, digest)
  SELECT :tenant_id, :id, :publisher_id, :slug, :display_name, :short_description, :long_description, :homepage_url,
    :repo_url, :logo_url, :visibility, :digest
  ON CONFLICT (tenant_id, id) DO NOTHING RETURNING *
), answer AS (
  SELECT 201 AS status, s.revision AS etag, {{server}} AS body FROM created AS s
  UNION ALL
  SELECT 200, s.revision, {{server}} FROM mcp_servers AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND s.digest = :digest
)

-- name: patch
WITH changed AS (
  UPDATE mcp_servers AS s SET {{changes}}, revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = :tenant_id AND s.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{server}} AS body FROM changed AS s
)

-- name: get
SELECT s.revision, s.digest, {{server}} AS body FROM mcp_servers AS s WHERE s.tenant_id = :tenant_id AND s.id = :id

-- name: lock
-- FOR UPDATE: a version or configuration that is being added holds the row's key, so none slips in before the removal.
SELECT s.revision FROM mcp_servers AS s WHERE s.tenant_id = :tenant_id AND s.id = :id FOR UPDATE

-- name: lock_versions
-- As above, for tools: they hold their version's row, not the server's. In the order of their ids.
SELECT v.id FROM mcp_versions AS v WHERE v.tenant_id = :tenant_id AND v.server_id = :id ORDER BY v.id FOR UPDATE

-- name: referring
SELECT c.id FROM mcp_configs AS c WHERE c.tenant_id = :tenant_id AND c.server_id = :id ORDER BY c.id LIMIT 20

-- name: delete_tools
DELETE FROM mcp_tools WHERE tenant_id = :tenant_id AND server_id = :id

-- name: delete_versions
DELETE FROM mcp_versions WHERE tenant_id = :tenant_id AND server_id = :id

-- name: delete
WITH deleted AS (
  DELETE FROM mcp_servers WHERE tenant_id = :tenant_id AND id = :id RETURNING id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
