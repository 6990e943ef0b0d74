-- name: create
WITH created AS (
  INSERT INTO sessions (tenant_id, id, owner_id, status, metadata, expires_at, digest)
  SELECT :tenant_id, :id, :owner_id, :status, COALESCE(:metadata, CAST('{}' AS jsonb)), :expires_at, :digest
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'session.started', 'session', s.id, {{session}} FROM created AS s
  WHERE s.status IN ('active', 'suspended')
), answer AS (
  SELECT 201 AS status, s.revision AS etag, {{session}} AS body FROM created AS s
  UNION ALL
  SELECT 200, s.revision, {{session}} FROM sessions AS s
  WHERE s.tenant_id = :tenant_id AND s.id = :id AND s.digest = :digest
)

-- name: patch
-- What has ended stays ended: it is archived, or its status stays as it is, and its time to live changes no more.
WITH changed AS (
  UPDATE sessions AS s SET
    owner_id = CASE WHEN :set_owner_id THEN :owner_id ELSE s.owner_id END,
    status = CASE WHEN :set_status AND :status <> {{standing}} THEN :status ELSE s.status END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{}' AS jsonb)) ELSE s.metadata END,
    expires_at = CASE WHEN :set_expires_at THEN :expires_at ELSE s.expires_at END,
    revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.tenant_id = :tenant_id AND s.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
    AND (NOT :set_status OR :status IN ({{standing}}, 'archived') OR {{standing}} IN ('active', 'suspended'))
    AND (NOT :set_expires_at OR {{standing}} IN ('active', 'suspended'))
  RETURNING s.*, old.status AS was
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'session.ended', 'session', s.id, {{session}} FROM changed AS s
  WHERE s.was IN ('active', 'suspended') AND s.status NOT IN ('active', 'suspended')
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{session}} AS body FROM changed AS s
)

-- name: delete
WITH deleted AS (
  DELETE FROM sessions AS s WHERE s.tenant_id = :tenant_id AND s.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: get
SELECT s.revision, s.digest, {{standing}} AS status, {{session}} AS body FROM sessions AS s
WHERE s.tenant_id = :tenant_id AND s.id = :id
