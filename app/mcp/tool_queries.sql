-- name: record
-- n tools or one, all or none. FOR SHARE: the version is not released between the look at its status and the commit.
-- Once it is released nothing is added, but tools that are there with the same fields are a replay all the same.
WITH version AS MATERIALIZED (
  SELECT v.status IN ('released', 'yanked') AS fixed FROM mcp_versions AS v
  WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :version_id FOR SHARE
), given AS MATERIALIZED (
  SELECT * FROM unnest(
    CAST(:names AS text[]), CAST(:titles AS text[]), CAST(:display_titles AS text[]), CAST(:descriptions AS text[]),
    CAST(:input_schemas AS jsonb[]), CAST(:output_schemas AS jsonb[]), CAST(:annotations AS jsonb[]),
    CAST(:traits AS jsonb[]), CAST(:actives AS boolean[]), CAST(:digests AS bytea[])
  ) WITH ORDINALITY AS g (name, title, display_title, description, input_schema, output_schema, annotations, traits,
    active, digest, place)
), written AS (
  INSERT INTO mcp_tools AS t (tenant_id, server_id, version_id, name, title, display_title, description, input_schema,
    output_schema, annotations, traits, active, digest)
  SELECT :tenant_id, :server_id, :version_id, g.name, g.title, g.display_title, g.description, g.input_schema,
    g.output_schema, g.annotations, COALESCE(g.traits, CAST('{}' AS jsonb)), COALESCE(g.active, true), g.digest
  FROM given AS g JOIN version AS v ON NOT v.fixed ORDER BY g.name COLLATE "C"
  ON CONFLICT (tenant_id, server_id, version_id, name) DO UPDATE SET digest = excluded.digest
    WHERE t.digest = excluded.digest
  RETURNING t.*, old.name IS NULL AS fresh
), known AS (
  SELECT * FROM written
  UNION ALL
  SELECT t.*, false FROM version AS v, given AS g JOIN mcp_tools AS t
    ON t.tenant_id = :tenant_id AND t.server_id = :server_id AND t.version_id = :version_id AND t.name = g.name
    AND t.digest = g.digest
  WHERE v.fixed
), answer AS (
  SELECT CASE WHEN bool_or(t.fresh) THEN 201 ELSE 200 END AS status, CAST(NULL AS bigint) AS etag, {{body}} AS body
  FROM given AS g LEFT JOIN known AS t USING (name)
  HAVING CASE WHEN count(t.name) = count(*) THEN true
              WHEN NOT EXISTS (SELECT FROM version WHERE NOT fixed) THEN false
              ELSE cairn_taken(array_agg(g.name) FILTER (WHERE t.name IS NULL)) END
)

-- name: get
SELECT {{tool}} AS body FROM mcp_tools AS t
WHERE t.tenant_id = :tenant_id AND t.server_id = :server_id AND t.version_id = :version_id AND t.name = :name

-- name: delete
-- FOR SHARE: as above.
WITH version AS MATERIALIZED (
  SELECT 1 AS there FROM mcp_versions AS v
  WHERE v.tenant_id = :tenant_id AND v.server_id = :server_id AND v.id = :version_id
    AND v.status NOT IN ('released', 'yanked') FOR SHARE
), deleted AS (
  DELETE FROM mcp_tools AS t USING version
  WHERE t.tenant_id = :tenant_id AND t.server_id = :server_id AND t.version_id = :version_id AND t.name = :name
  RETURNING t.name
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
