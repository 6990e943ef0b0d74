-- name: enter
-- The row is held to the end of the transaction, so that those who change one user's configurations take turns, and
-- the statements after this one see what the one before committed.
INSERT INTO mcp_config_sets AS s (tenant_id, user_id) VALUES (:tenant_id, :user_id)
ON CONFLICT (tenant_id, user_id) DO UPDATE SET revision = s.revision
RETURNING s.revision

-- name: count
-- After `enter`, never within it: a statement that had to wait sees what was there before it waited.
SELECT count(*) AS count FROM mcp_configs AS c WHERE c.tenant_id = :tenant_id AND c.user_id = :user_id

-- name: moved
UPDATE mcp_config_sets SET revision = revision + 1 WHERE tenant_id = :tenant_id AND user_id = :user_id
RETURNING revision

-- name: get
SELECT c.user_id, c.revision, c.digest, {{config}} AS body FROM mcp_configs AS c
WHERE c.tenant_id = :tenant_id AND c.id = :id

-- name: create
INSERT INTO mcp_configs AS c (tenant_id, id, user_id, name, server_id, config, enabled, digest)
VALUES (:tenant_id, :id, :user_id, :name, :server_id, COALESCE(:config, CAST('{}' AS jsonb)), :enabled, :digest)
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING c.revision, {{config}} AS body

-- name: patch
UPDATE mcp_configs AS c SET
  name = CASE WHEN :set_name THEN :name ELSE c.name END,
  server_id = CASE WHEN :set_server_id THEN :server_id ELSE c.server_id END,
  config = CASE WHEN :set_config THEN COALESCE(:config, CAST('{}' AS jsonb)) ELSE c.config END,
  enabled = CASE WHEN :set_enabled THEN :enabled ELSE c.enabled END,
  revision = c.revision + 1, updated_at = clock_timestamp()
WHERE c.tenant_id = :tenant_id AND c.id = :id AND c.user_id = :user_id
  AND (CAST(:if_match AS bigint[]) IS NULL OR c.revision = ANY (:if_match))
RETURNING c.revision, {{config}} AS body

-- name: delete
DELETE FROM mcp_configs AS c WHERE c.tenant_id = :tenant_id AND c.id = :id AND c.user_id = :user_id
  AND (CAST(:if_match AS bigint[]) IS NULL OR c.revision = ANY (:if_match))
RETURNING c.id

-- name: remove_others
DELETE FROM mcp_configs AS c
WHERE c.tenant_id = :tenant_id AND c.user_id = :user_id AND NOT c.name = ANY (CAST(:names AS text[]))
RETURNING c.id

-- name: put_all
-- What is as it was stays untouched, with its revision.
INSERT INTO mcp_configs AS c (tenant_id, id, user_id, name, server_id, config, enabled)
SELECT :tenant_id, g.id, :user_id, g.name, g.server_id, COALESCE(g.config, CAST('{}' AS jsonb)),
  COALESCE(g.enabled, true)
FROM unnest(CAST(:ids AS text[]), CAST(:names AS text[]), CAST(:server_ids AS text[]), CAST(:configs AS jsonb[]),
  CAST(:enableds AS boolean[])) AS g (id, name, server_id, config, enabled)
ON CONFLICT (tenant_id, user_id, name) DO UPDATE SET
  server_id = excluded.server_id, config = excluded.config, enabled = excluded.enabled,
  revision = c.revision + 1, updated_at = clock_timestamp()
  WHERE (c.server_id, c.config, c.enabled) IS DISTINCT FROM (excluded.server_id, excluded.config, excluded.enabled)
RETURNING c.id

-- name: all
SELECT
  COALESCE((SELECT s.revision FROM mcp_config_sets AS s WHERE s.tenant_id = :tenant_id AND s.user_id = :user_id), 0)
    AS revision,
  json_build_object('user_id', CAST(:user_id AS text), 'items', COALESCE((
    SELECT json_agg({{config}} ORDER BY c.name) FROM mcp_configs AS c
    WHERE c.tenant_id = :tenant_id AND c.user_id = :user_id), '[]')) AS body
