-- name: put
WITH target AS MATERIALIZED (
  SELECT 1 AS target
), made AS (
  INSERT INTO pins AS p (tenant_id, kind, id) SELECT :tenant_id, :kind, :id FROM target
  ON CONFLICT DO NOTHING RETURNING p.*
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{pin}} AS body FROM made AS p
  UNION ALL
  SELECT 200, NULL, {{pin}} FROM pins AS p, target WHERE p.tenant_id = :tenant_id AND p.kind = :kind AND p.id = :id
)

-- name: get
SELECT {{pin}} AS body FROM pins AS p WHERE p.tenant_id = :tenant_id AND p.kind = :kind AND p.id = :id

-- name: delete
WITH deleted AS (
  DELETE FROM pins AS p WHERE p.tenant_id = :tenant_id AND p.kind = :kind AND p.id = :id RETURNING p.id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
