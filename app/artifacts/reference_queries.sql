-- fragment: within
-- FOR KEY SHARE, and first: whoever deletes the invocation holds it, and goes on to what it refers to.
within AS MATERIALIZED (
  SELECT i.id FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :invocation_id FOR KEY SHARE
)

-- name: put
WITH {{within}}, named AS MATERIALIZED (
  SELECT r.hash FROM artifact_references AS r
  WHERE r.tenant_id = :tenant_id AND r.invocation_id = :invocation_id AND r.name = :name
), locked AS MATERIALIZED (
  -- FOR NO KEY UPDATE, in one order: what is referred to is not collected before the commit, and two who exchange
  -- artifacts take turns. It gives each row as it is once it is locked.
  SELECT a.tenant_id, a.hash FROM artifacts AS a
  WHERE EXISTS (SELECT FROM within) AND a.tenant_id = :tenant_id
    AND a.hash = ANY (ARRAY(SELECT hash FROM named UNION ALL SELECT CAST(:hash AS bytea)))
  ORDER BY a.hash FOR NO KEY UPDATE
), touched AS MATERIALIZED (
  UPDATE artifacts AS a SET {{touched}} FROM locked AS l
  WHERE a.tenant_id = l.tenant_id AND a.hash = l.hash AND a.state IN ('live', 'marked')
  RETURNING a.hash
), written AS (
  -- The first revision is greater than that of any reference of this name before: an ETag never comes back.
  INSERT INTO artifact_references AS r
    (tenant_id, invocation_id, name, hash, content_type, metadata, node_id, revision)
  SELECT :tenant_id, :invocation_id, :name, t.hash, :content_type, COALESCE(:metadata, CAST('{}' AS jsonb)), :node_id,
    CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)
  FROM touched AS t WHERE t.hash = :hash AND (:may_create OR EXISTS (SELECT FROM named))
  ON CONFLICT (tenant_id, invocation_id, name) DO UPDATE SET
    hash = excluded.hash, content_type = excluded.content_type, metadata = excluded.metadata,
    node_id = excluded.node_id, revision = r.revision + 1, updated_at = clock_timestamp()
  WHERE (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
    AND (r.hash, r.content_type, r.metadata, r.node_id)
      IS DISTINCT FROM (excluded.hash, excluded.content_type, excluded.metadata, excluded.node_id)
  RETURNING r.*, old.name IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN r.fresh THEN 201 ELSE 200 END AS status, r.revision AS etag, {{reference}} AS body
  FROM written AS r
  UNION ALL
  -- It says the same already.
  SELECT 200, r.revision, {{reference}} FROM artifact_references AS r
  WHERE r.tenant_id = :tenant_id AND r.invocation_id = :invocation_id AND r.name = :name
    AND NOT EXISTS (SELECT FROM written)
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
    AND r.hash = :hash AND r.metadata = COALESCE(:metadata, CAST('{}' AS jsonb))
    AND (r.content_type, r.node_id) IS NOT DISTINCT FROM (CAST(:content_type AS text), CAST(:node_id AS text))
)

-- name: delete
-- The artifact's row first, as whoever refers to it does.
WITH {{within}}, named AS MATERIALIZED (
  SELECT r.hash FROM artifact_references AS r
  WHERE EXISTS (SELECT FROM within) AND r.tenant_id = :tenant_id AND r.invocation_id = :invocation_id AND r.name = :name
), touched AS MATERIALIZED (
  UPDATE artifacts AS a SET touched_at = clock_timestamp()
  WHERE a.tenant_id = :tenant_id AND a.hash = (SELECT hash FROM named) RETURNING a.hash
), deleted AS (
  DELETE FROM artifact_references AS r
  WHERE r.tenant_id = :tenant_id AND r.invocation_id = :invocation_id AND r.name = :name
    AND r.hash = (SELECT hash FROM touched)
    AND (CAST(:if_match AS bigint[]) IS NULL OR r.revision = ANY (:if_match))
  RETURNING r.name
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: get
SELECT r.revision, {{reference}} AS body FROM artifact_references AS r
WHERE r.tenant_id = :tenant_id AND r.invocation_id = :invocation_id AND r.name = :name
