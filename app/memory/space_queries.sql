-- name: all
SELECT s.name, s.number, s.model, s.dimensions, s.metric, s.language, s.active, s.filling, s.revision
FROM memory_spaces AS s WHERE s.tenant_id = :tenant_id ORDER BY s.number LIMIT 1000

-- name: one
SELECT s.name, s.number, s.model, s.dimensions, s.metric, s.language, s.active, s.filling, s.revision
FROM memory_spaces AS s
WHERE s.tenant_id = :tenant_id AND CASE WHEN CAST(:name AS text) IS NULL THEN s.active ELSE s.name = :name END

-- name: get
SELECT s.number, s.revision, s.digest, s.active, {{space}} AS body FROM memory_spaces AS s
WHERE s.tenant_id = :tenant_id AND s.name = :name

-- name: change
-- Until the commit nobody writes to memory of this tenant, and nobody else changes its spaces.
SELECT cairn_change_spaces(:tenant_id) AS held

-- name: languages
SELECT DISTINCT cfgname FROM pg_ts_config WHERE pg_ts_config_is_visible(oid) ORDER BY cfgname

-- name: create
WITH created AS (
  INSERT INTO memory_spaces (tenant_id, name, model, dimensions, metric, language, digest, active, activated_at)
  SELECT :tenant_id, :name, :model, :dimensions, :metric, :language, :digest, f.first,
         CASE WHEN f.first THEN clock_timestamp() END
  FROM (SELECT NOT EXISTS (SELECT FROM memory_spaces WHERE tenant_id = :tenant_id) AS first) AS f
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'memory_space.created', 'memory_space', s.name, {{event}} FROM created AS s
)
SELECT s.number, s.revision, {{space}} AS body FROM created AS s

-- name: rest
-- What was active goes on being written to, so that it can be activated again.
UPDATE memory_spaces SET active = false, filling = true, revision = revision + 1, updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND active

-- name: activate
WITH activated AS (
  UPDATE memory_spaces SET active = true, filling = false, revision = revision + 1, updated_at = clock_timestamp(),
    activated_at = clock_timestamp()
  WHERE tenant_id = :tenant_id AND name = :name RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'memory_space.activated', 'memory_space', s.name, {{event}} FROM activated AS s
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{space}} AS body FROM activated AS s
)

-- name: reindex
-- Whoever builds indexes looks for it. No other change of the space, so its revision stays.
WITH asked AS (
  UPDATE memory_spaces SET reindex_requested_at = clock_timestamp()
  WHERE tenant_id = :tenant_id AND name = :name AND (CAST(:if_match AS bigint[]) IS NULL OR revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, s.revision AS etag, {{space}} AS body FROM asked AS s
)

-- name: delete
WITH deleted AS (
  DELETE FROM memory_spaces WHERE tenant_id = :tenant_id AND name = :name AND NOT active RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'memory_space.deleted', 'memory_space', s.name, {{event}} FROM deleted AS s
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
