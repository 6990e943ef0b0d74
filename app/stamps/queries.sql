-- fragment: standing
-- The stamp itself, the older ones that the caller names, and whether it can read the value of each.
stamp AS MATERIALIZED (
  SELECT s.* FROM format_stamps AS s WHERE s.tenant_id = :tenant_id AND s.name = :name
), older AS MATERIALIZED (
  SELECT s.name, s.value, (s.name, s.value) IN (
    SELECT * FROM unnest(CAST(:names AS text[]), CAST(:values AS text[]))
  ) AS readable
  FROM format_stamps AS s
  WHERE s.tenant_id = :tenant_id AND s.name = ANY (CAST(:adopt AS text[])) AND s.name <> :name
), unstamped AS MATERIALIZED (
  SELECT EXISTS (SELECT FROM submissions WHERE tenant_id = :tenant_id)
    OR EXISTS (SELECT FROM conversation_streams WHERE tenant_id = :tenant_id)
    OR EXISTS (SELECT FROM attachments WHERE tenant_id = :tenant_id) AS holds_data
  WHERE NOT EXISTS (SELECT FROM stamp) AND NOT EXISTS (SELECT FROM older)
)

-- name: open
WITH {{standing}}, adopted AS (
  DELETE FROM format_stamps AS s USING unnest(CAST(:names AS text[]), CAST(:values AS text[])) AS g (name, value)
  WHERE s.tenant_id = :tenant_id AND (s.name, s.value) = (g.name, g.value) AND s.name <> :name
    AND NOT EXISTS (SELECT FROM stamp) AND NOT EXISTS (SELECT FROM older WHERE NOT readable)
  RETURNING s.name
), made AS (
  INSERT INTO format_stamps AS s (tenant_id, name, value)
  SELECT :tenant_id, :name, :value
  WHERE EXISTS (SELECT FROM adopted) OR EXISTS (SELECT FROM unstamped WHERE NOT holds_data)
  ON CONFLICT DO NOTHING RETURNING *
), whole AS (
  -- Whoever adopted must have stamped too: overtaken in between, it is undone and tried again.
  SELECT cairn_whole((SELECT count(*) FROM made), 1) AS is_whole WHERE EXISTS (SELECT FROM adopted)
), answer AS (
  SELECT 201 AS status, s.revision AS etag, {{stamp}} AS body FROM made AS s
  UNION ALL
  SELECT 200, s.revision, {{stamp}} FROM stamp AS s WHERE s.value = :value
  UNION ALL
  SELECT NULL, NULL, NULL FROM whole WHERE NOT is_whole
)

-- name: why
WITH {{standing}}, other AS (
  SELECT s.name, s.value FROM stamp AS s WHERE s.value <> :value
  UNION ALL
  (SELECT o.name, o.value FROM older AS o WHERE NOT o.readable AND NOT EXISTS (SELECT FROM stamp) ORDER BY o.name)
)
SELECT other.name, other.value, unstamped.holds_data
FROM (SELECT 1) AS always LEFT JOIN (SELECT * FROM other LIMIT 1) AS other ON true LEFT JOIN unstamped ON true

-- name: put
WITH ensured AS (
  INSERT INTO format_stamps AS s (tenant_id, name, value)
  SELECT :tenant_id, :name, :value
  WHERE :may_create OR EXISTS (SELECT FROM format_stamps WHERE tenant_id = :tenant_id AND name = :name)
  ON CONFLICT (tenant_id, name) DO UPDATE SET
    value = excluded.value, revision = s.revision + 1, updated_at = clock_timestamp()
  WHERE s.value <> excluded.value AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING s.*, old.name IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN s.fresh THEN 201 ELSE 200 END AS status, s.revision AS etag, {{stamp}} AS body FROM ensured AS s
  UNION ALL
  SELECT 200, s.revision, {{stamp}} FROM format_stamps AS s
  WHERE s.tenant_id = :tenant_id AND s.name = :name AND s.value = :value AND NOT EXISTS (SELECT FROM ensured)
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
)

-- name: delete
WITH deleted AS (
  DELETE FROM format_stamps AS s WHERE s.tenant_id = :tenant_id AND s.name = :name
    AND (CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))
  RETURNING s.name
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: get
SELECT s.revision, {{stamp}} AS body FROM format_stamps AS s WHERE s.tenant_id = :tenant_id AND s.name = :name
