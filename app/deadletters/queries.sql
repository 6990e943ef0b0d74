-- name: get
SELECT {{letter}} AS body FROM dead_letters AS t WHERE t.tenant_id = :tenant_id AND t.id = :id

-- name: hold
-- Letters are locked before what they tell of, in one order; one that went meanwhile is not among them.
SELECT t.id, t.source, t.subject FROM dead_letters AS t
WHERE t.tenant_id = :tenant_id AND t.id = ANY (CAST(:ids AS text[])) ORDER BY t.created_at, t.id FOR UPDATE

-- name: remove
DELETE FROM dead_letters AS t WHERE t.tenant_id = :tenant_id AND t.id = ANY (CAST(:ids AS text[]))

-- name: delete
WITH deleted AS (
  DELETE FROM dead_letters AS t WHERE t.tenant_id = :tenant_id AND t.id = :id RETURNING t.id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
