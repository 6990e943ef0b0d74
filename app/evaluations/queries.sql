-- name: record
-- A replay takes the row as it is: the update changes nothing, but it sees the row of a race that was lost.
WITH written AS (
  INSERT INTO evaluations AS e (tenant_id, invocation_id, id, evaluator_id, score, accuracy, rubric, feedback, metadata,
    digest)
  VALUES (:tenant_id, :invocation_id, :id, :evaluator_id, :score, :accuracy, CAST(:rubric AS jsonb), :feedback,
    COALESCE(CAST(:metadata AS jsonb), CAST('{}' AS jsonb)), :digest)
  ON CONFLICT (tenant_id, invocation_id, id) DO UPDATE SET digest = excluded.digest WHERE e.digest = excluded.digest
  RETURNING e.*, old.id IS NULL AS fresh
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT e.tenant_id, 'evaluation.recorded', 'evaluation', e.id, e.invocation_id, {{evaluation}} FROM written AS e
  WHERE e.fresh
), answer AS (
  SELECT CASE WHEN e.fresh THEN 201 ELSE 200 END AS status, CAST(NULL AS bigint) AS etag, {{evaluation}} AS body
  FROM written AS e
)
