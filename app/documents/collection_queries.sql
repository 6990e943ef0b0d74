-- name: make
-- Its first revision is greater than that of any collection of this name before.
INSERT INTO document_collections (tenant_id, name, secret_paths, history, revision)
VALUES (:tenant_id, :name, :secret_paths, :history, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint))
ON CONFLICT DO NOTHING RETURNING name

-- name: lock
-- FOR UPDATE: whoever writes by the rules as they were is waited for, and whoever comes reads them again.
SELECT c.revision, c.secret_paths, c.uncut, {{created_at}} AS created_at FROM document_collections AS c
WHERE c.tenant_id = :tenant_id AND c.name = :name FOR UPDATE

-- name: get
SELECT t.revision, {{collection}} AS body FROM document_collections AS t
WHERE t.tenant_id = :tenant_id AND t.name = :name

-- name: change
UPDATE document_collections AS c SET
  secret_paths = CASE WHEN :set_secret_paths THEN CAST(:secret_paths AS text[]) ELSE c.secret_paths END,
  history = CASE WHEN :set_history THEN CAST(:history AS integer) ELSE c.history END,
  uncut = c.uncut OR :uncut, revision = c.revision + 1, updated_at = clock_timestamp()
WHERE c.tenant_id = :tenant_id AND c.name = :name
  AND (:set_secret_paths AND c.secret_paths <> CAST(:secret_paths AS text[])
    OR :set_history AND c.history <> CAST(:history AS integer) OR :uncut AND NOT c.uncut)
RETURNING c.revision

-- name: settle
-- Where another path was named meanwhile, whoever cuts by that one settles it.
UPDATE document_collections AS c SET uncut = false
WHERE c.tenant_id = :tenant_id AND c.name = :name AND c.secret_paths <@ CAST(:secret_paths AS text[]) RETURNING c.name

-- name: is_there
-- The collection itself, not one of its name after it.
SELECT c.name FROM document_collections AS c
WHERE c.tenant_id = :tenant_id AND c.name = :name AND {{created_at}} = CAST(:created_at AS text)

-- name: documents_after
-- FOR NO KEY UPDATE: nobody changes these between their cut and the commit. The first always fits.
WITH piece AS (
  SELECT position, sum({{size}}) OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (
    SELECT t.position, t.body FROM documents AS t
    WHERE t.tenant_id = :tenant_id AND t.collection = :name AND t.position > :after
    ORDER BY t.position LIMIT CAST(:limit AS bigint)
  ) AS t
)
SELECT d.id, d.position, d.body FROM documents AS d
WHERE d.tenant_id = :tenant_id AND d.collection = :name
  AND d.position IN (SELECT position FROM piece WHERE COALESCE(before, 0) < CAST(:bytes_max AS bigint))
ORDER BY d.position FOR NO KEY UPDATE OF d

-- name: cut_document
UPDATE documents AS d SET body = :body, indexed = :indexed
WHERE d.tenant_id = :tenant_id AND d.collection = :name AND d.id = :id

-- name: revisions_after
WITH piece AS (
  SELECT id, revision,
    sum({{size}}) OVER (ORDER BY id, revision ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (
    SELECT t.id, t.revision, t.body FROM document_revisions AS t
    WHERE t.tenant_id = :tenant_id AND t.collection = :name AND (t.id, t.revision) > (:after_id, :after_revision)
    ORDER BY t.id, t.revision LIMIT CAST(:limit AS bigint)
  ) AS t
)
SELECT r.id, r.revision, r.body FROM document_revisions AS r
WHERE r.tenant_id = :tenant_id AND r.collection = :name
  AND (r.id, r.revision) IN (SELECT id, revision FROM piece WHERE COALESCE(before, 0) < CAST(:bytes_max AS bigint))
ORDER BY r.id, r.revision

-- name: cut_revision
UPDATE document_revisions AS r SET body = :body
WHERE r.tenant_id = :tenant_id AND r.collection = :name AND r.id = :id AND r.revision = :revision

-- name: deliveries_after
-- All deliveries of the tenant, the body of those that show a document: what was put together once is sent again.
WITH looked AS MATERIALIZED (
  SELECT t.id, CASE WHEN t.event_type LIKE 'document.%' THEN {{size}} END AS bytes FROM webhook_deliveries AS t
  WHERE t.tenant_id = :tenant_id AND t.id > :after_delivery ORDER BY t.id LIMIT CAST(:limit AS bigint)
), piece AS (
  SELECT id, bytes, sum(bytes) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM looked
)
SELECT p.id, d.body FROM piece AS p LEFT JOIN webhook_deliveries AS d
  ON d.tenant_id = :tenant_id AND d.id = p.id AND p.bytes IS NOT NULL
WHERE COALESCE(p.before, 0) < CAST(:bytes_max AS bigint) ORDER BY p.id

-- name: cut_delivery
UPDATE webhook_deliveries AS d SET body = :body WHERE d.tenant_id = :tenant_id AND d.id = :id

-- name: remove
-- The collection is locked, so nobody adds to it.
WITH piece AS MATERIALIZED (
  SELECT id FROM documents WHERE tenant_id = :tenant_id AND collection = :name
  LIMIT CAST(:limit AS bigint) FOR UPDATE
), dropped AS (
  DELETE FROM document_revisions AS r USING piece AS d
  WHERE r.tenant_id = :tenant_id AND r.collection = :name AND r.id = d.id
), deleted AS (
  DELETE FROM documents AS d USING piece
  WHERE d.tenant_id = :tenant_id AND d.collection = :name AND d.id = piece.id
  RETURNING d.tenant_id, d.collection, d.id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT d.tenant_id, 'document.deleted', 'document', d.id, d.collection,
    json_build_object('collection', d.collection, 'id', d.id) FROM deleted AS d
)
SELECT count(*) AS removed FROM deleted

-- name: remove_collection
DELETE FROM document_collections AS c WHERE c.tenant_id = :tenant_id AND c.name = :name RETURNING c.name
