-- fragment: leaving
EXISTS (SELECT FROM offboardings AS o WHERE o.tenant_id = :tenant_id AND o.state <> 'completed')

-- name: leaving
SELECT {{leaving}} AS leaving

-- name: put
WITH put AS (
  INSERT INTO tenants AS t (tenant_id, name, metadata)
  SELECT :tenant_id, :name, COALESCE(:metadata, CAST('{}' AS jsonb))
  WHERE (:may_create OR EXISTS (SELECT FROM tenants WHERE tenant_id = :tenant_id)) AND NOT {{leaving}}
  ON CONFLICT (tenant_id) DO UPDATE SET
    name = CASE WHEN :set_name THEN excluded.name ELSE t.name END,
    metadata = CASE WHEN :set_metadata THEN excluded.metadata ELSE t.metadata END,
    revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.closed_at IS NULL AND (CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.*, old.tenant_id IS NULL AS fresh
), head AS (
  INSERT INTO event_heads (tenant_id, position) SELECT tenant_id, 0 FROM put WHERE fresh
), answer AS (
  SELECT CASE WHEN fresh THEN 201 ELSE 200 END AS status, t.revision AS etag, {{tenant}} AS body FROM put AS t
)

-- name: patch
WITH changed AS (
  UPDATE tenants AS t SET
    name = CASE WHEN :set_name THEN :name ELSE t.name END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{}' AS jsonb)) ELSE t.metadata END,
    revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND (CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.*
), answer AS (
  SELECT 200 AS status, t.revision AS etag, {{tenant}} AS body FROM changed AS t
)

-- name: get
SELECT t.revision, {{tenant}} AS body FROM tenants AS t WHERE t.tenant_id = :tenant_id

-- name: limits
SELECT t.revision, t.limits AS body FROM tenants AS t WHERE t.tenant_id = :tenant_id

-- name: put_limits
WITH changed AS (
  UPDATE tenants AS t SET limits = :limits, revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND (CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.*
), answer AS (
  SELECT 200 AS status, t.revision AS etag, CAST(t.limits AS json) AS body FROM changed AS t
)

-- name: ensure
WITH made AS (
  INSERT INTO tenants (tenant_id, name) SELECT :tenant_id, :name WHERE NOT {{leaving}}
  ON CONFLICT DO NOTHING RETURNING tenant_id
)
INSERT INTO event_heads (tenant_id, position) SELECT tenant_id, 0 FROM made ON CONFLICT DO NOTHING

-- name: create_key
WITH made AS (
  INSERT INTO api_keys (tenant_id, id, name, key_hash, key_hint, scopes, expires_at)
  SELECT :tenant_id, COALESCE(:id, 'key_' || replace(CAST(uuidv7() AS text), '-', '')), :name, :key_hash, :key_hint,
         CAST(:scopes AS text[]), CAST(:expires_at AS timestamptz)
  RETURNING *
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{made_key}} AS body FROM made AS t
)

-- name: revoke_key
WITH revoked AS (
  UPDATE api_keys AS t SET revoked_at = COALESCE(t.revoked_at, clock_timestamp())
  WHERE t.tenant_id = :tenant_id AND t.id = :id RETURNING t.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{key}} AS body FROM revoked AS t
)

-- name: rotate_key
WITH rotated AS (
  UPDATE api_keys AS t SET key_hash = :key_hash, key_hint = :key_hint
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.revoked_at IS NULL RETURNING t.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{made_key}} AS body FROM rotated AS t
)

-- name: key_scopes
SELECT scopes FROM api_keys WHERE tenant_id = :tenant_id AND id = :id
