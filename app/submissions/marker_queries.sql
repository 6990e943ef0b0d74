-- name: mark
-- The first instant stays.
WITH made AS (
  INSERT INTO attempt_markers AS m (tenant_id, submission_id, attempt_id)
  VALUES (:tenant_id, :submission_id, :attempt_id) ON CONFLICT DO NOTHING RETURNING *
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{marker}} AS body FROM made AS m
  UNION ALL
  SELECT 200, NULL, {{marker}} FROM attempt_markers AS m
  WHERE m.tenant_id = :tenant_id AND m.submission_id = :submission_id AND m.attempt_id = :attempt_id
)

-- name: unmark
WITH gone AS (
  DELETE FROM attempt_markers
  WHERE tenant_id = :tenant_id AND submission_id = :submission_id AND attempt_id = :attempt_id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body
)
