-- name: record
-- n records or one, all or none. A row that was created with the same fields, in the same dataset, is taken as it is:
-- the update changes nothing, but it locks and returns the row. Rows are written in the order of their ids, so that two
-- calls with the same ids cannot wait for each other; a microsecond apart, they are listed in the order sent.
WITH given AS MATERIALIZED (
  SELECT g.id, g.dataset_version_id, g.workflow_input, g.ground_truth, g.output_schema, g.rubric, g.digest, g.place
  FROM unnest(
    CAST(:ids AS text[]), CAST(:version_ids AS text[]), CAST(:inputs AS json[]), CAST(:truths AS json[]),
    CAST(:schemas AS jsonb[]), CAST(:rubrics AS jsonb[]), CAST(:digests AS bytea[])
  ) WITH ORDINALITY
    AS g (id, dataset_version_id, workflow_input, ground_truth, output_schema, rubric, digest, place)
), written AS (
  INSERT INTO dataset_records AS r (tenant_id, dataset_id, id, dataset_version_id, workflow_input, ground_truth,
    output_schema, rubric, digest, created_at)
  SELECT :tenant_id, :dataset_id, g.id, g.dataset_version_id, g.workflow_input, g.ground_truth, g.output_schema,
    g.rubric, g.digest, (SELECT clock_timestamp()) + (g.place - 1) * interval '1 microsecond'
  FROM given AS g ORDER BY g.id COLLATE "C"
  ON CONFLICT (tenant_id, id) DO UPDATE SET digest = excluded.digest
    WHERE r.digest = excluded.digest AND r.dataset_id = excluded.dataset_id
  RETURNING {{shown}}, old.id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN bool_or(r.fresh) THEN 201 ELSE 200 END AS status, CAST(NULL AS bigint) AS etag, {{body}} AS body
  FROM given AS g LEFT JOIN written AS r USING (id)
  HAVING CASE WHEN count(r.id) = count(*) THEN true
              ELSE cairn_taken(array_agg(g.id) FILTER (WHERE r.id IS NULL)) END
)

-- name: delete
WITH deleted AS (
  DELETE FROM dataset_records WHERE tenant_id = :tenant_id AND id = :id RETURNING id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
