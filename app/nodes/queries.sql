-- name: start
-- Set-based: n node invocations of any invocations, n = 1 the same statement. Each is linked to the newest revision of
-- its node in the invocation's version; without one, or where the id is taken by another digest, there is no answer
-- row. A replay takes the row as it now is: the update changes nothing, but it locks and returns the newest row.
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(
    CAST(:tenant_ids AS text[]), CAST(:invocation_ids AS text[]), CAST(:ids AS text[]), CAST(:node_ids AS text[]),
    CAST(:attempt_nos AS bigint[]), CAST(:statuses AS text[]), CAST(:started_ats AS timestamptz[]),
    CAST(:ended_ats AS timestamptz[]), CAST(:models AS text[]), CAST(:outputs AS json[]), CAST(:summaries AS text[]),
    CAST(:large_summaries AS text[]), CAST(:usd_costs AS numeric[]), CAST(:input_counts AS bigint[]),
    CAST(:output_counts AS bigint[]), CAST(:file_lists AS jsonb[]), CAST(:errors AS jsonb[]),
    CAST(:metadatas AS jsonb[]), CAST(:extrases AS jsonb[]), CAST(:digests AS bytea[])
  ) WITH ORDINALITY AS g (tenant_id, invocation_id, id, node_id, attempt_no, status, started_at, ended_at, model,
    output, summary, large_summary, usd_cost, input_tokens, output_tokens, files, error, metadata, extras, digest,
    place)
), linked AS (
  SELECT g.*, (SELECT v.id FROM node_versions AS v
    WHERE v.tenant_id = i.tenant_id AND v.version_id = i.version_id AND v.node_id = g.node_id
    ORDER BY v.revision DESC LIMIT 1) AS node_version_id
  FROM given AS g JOIN invocations AS i ON i.tenant_id = g.tenant_id AND i.id = g.invocation_id
), written AS (
  INSERT INTO node_invocations AS n (tenant_id, invocation_id, id, node_id, node_version_id, attempt_no, status,
    started_at, ended_at, model, output, summary, large_summary, usd_cost, input_tokens, output_tokens, files, error,
    metadata, extras, digest)
  SELECT l.tenant_id, l.invocation_id, l.id, l.node_id, l.node_version_id, l.attempt_no, l.status,
    COALESCE(l.started_at, LEAST(clock_timestamp(), l.ended_at)),
    CASE WHEN l.status <> 'running' THEN COALESCE(l.ended_at, GREATEST(clock_timestamp(), l.started_at)) END,
    l.model, l.output, l.summary, l.large_summary, l.usd_cost, l.input_tokens, l.output_tokens,
    ARRAY(SELECT jsonb_array_elements_text(l.files)), l.error, COALESCE(l.metadata, CAST('{}' AS jsonb)),
    COALESCE(l.extras, CAST('{}' AS jsonb)), l.digest
  FROM linked AS l WHERE l.node_version_id IS NOT NULL
  ORDER BY l.tenant_id, l.invocation_id, l.id
  ON CONFLICT (tenant_id, invocation_id, id) DO UPDATE SET digest = excluded.digest WHERE n.digest = excluded.digest
  RETURNING n.*, old.id IS NULL AS fresh
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT n.tenant_id, CASE n.status WHEN 'running' THEN 'node_invocation.started' ELSE 'node_invocation.ended' END,
    'node_invocation', n.id, n.invocation_id, {{node}} FROM written AS n WHERE n.fresh
), answer AS (
  SELECT CASE WHEN n.fresh THEN 201 ELSE 200 END AS status, n.revision AS etag, {{node}} AS body FROM written AS n
)

-- name: end
-- The first terminal state wins: only a running row changes. An exact repeat answers with the row as it now is.
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(
    CAST(:tenant_ids AS text[]), CAST(:invocation_ids AS text[]), CAST(:ids AS text[]), CAST(:statuses AS text[]),
    CAST(:ended_ats AS timestamptz[]), CAST(:models AS text[]), CAST(:outputs AS json[]), CAST(:summaries AS text[]),
    CAST(:large_summaries AS text[]), CAST(:usd_costs AS numeric[]), CAST(:input_counts AS bigint[]),
    CAST(:output_counts AS bigint[]), CAST(:file_lists AS jsonb[]), CAST(:errors AS jsonb[]),
    CAST(:metadatas AS jsonb[]), CAST(:extrases AS jsonb[]), CAST(:cleared AS text[]), CAST(:digests AS bytea[])
  ) WITH ORDINALITY AS g (tenant_id, invocation_id, id, status, ended_at, model, output, summary, large_summary,
    usd_cost, input_tokens, output_tokens, files, error, metadata, extras, cleared, digest, place)
), ended AS (
  UPDATE node_invocations AS n SET
    status = g.status, ended_at = COALESCE(g.ended_at, GREATEST(clock_timestamp(), n.started_at)),
    {{assignments}},
    files = CASE WHEN g.files IS NULL THEN n.files ELSE ARRAY(SELECT jsonb_array_elements_text(g.files)) END,
    end_digest = g.digest, revision = n.revision + 1
  FROM given AS g
  WHERE n.tenant_id = g.tenant_id AND n.invocation_id = g.invocation_id AND n.id = g.id AND n.status = 'running'
    AND (CAST(:if_match AS bigint[]) IS NULL OR n.revision = ANY (:if_match))
  RETURNING n.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT n.tenant_id, 'node_invocation.ended', 'node_invocation', n.id, n.invocation_id, {{node}} FROM ended AS n
), answer AS (
  SELECT 200 AS status, n.revision AS etag, {{node}} AS body FROM ended AS n
  UNION ALL
  SELECT 200, n.revision, {{node}}
  FROM given AS g JOIN node_invocations AS n
    ON n.tenant_id = g.tenant_id AND n.invocation_id = g.invocation_id AND n.id = g.id
  WHERE n.status <> 'running' AND n.end_digest = g.digest
)

-- name: standing
SELECT n.status, n.revision, n.digest, n.end_digest FROM node_invocations AS n
WHERE n.tenant_id = :tenant_id AND n.invocation_id = :invocation_id AND n.id = :id
