-- name: record
-- n actions or one, all or none, in the way that messages are recorded.
WITH given AS MATERIALIZED (
  SELECT g.*, nextval('actions_position_seq') AS position FROM unnest(
    CAST(:ids AS text[]), CAST(:tools AS text[]), CAST(:inputs AS json[]), CAST(:outputs AS json[]),
    CAST(:statuses AS text[]), CAST(:started_ats AS timestamptz[]), CAST(:durations AS numeric[]),
    CAST(:exit_codes AS bigint[]), CAST(:errors AS jsonb[]), CAST(:digests AS bytea[])
  ) WITH ORDINALITY
    AS g (id, tool, input, output, status, started_at, duration_ms, exit_code, error, digest, place)
), written AS (
  INSERT INTO actions AS a (tenant_id, invocation_id, node_invocation_id, id, position, tool, input, output, status,
    started_at, duration_ms, exit_code, error, digest)
  OVERRIDING SYSTEM VALUE
  SELECT :tenant_id, :invocation_id, :node_invocation_id, g.id, g.position, g.tool, g.input, g.output, g.status,
    g.started_at, g.duration_ms, g.exit_code, g.error, g.digest
  FROM given AS g ORDER BY g.id COLLATE "C"
  ON CONFLICT (tenant_id, invocation_id, node_invocation_id, id)
    DO UPDATE SET digest = excluded.digest WHERE a.digest = excluded.digest
  RETURNING a.*, old.id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN bool_or(a.fresh) THEN 201 ELSE 200 END AS status, CAST(NULL AS bigint) AS etag, {{body}} AS body
  FROM given AS g LEFT JOIN written AS a USING (id)
  HAVING CASE WHEN count(a.id) = count(*) THEN true
              ELSE cairn_taken(array_agg(g.id) FILTER (WHERE a.id IS NULL)) END
)
