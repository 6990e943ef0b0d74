-- fragment: live
(d.expires_at IS NULL OR d.expires_at > clock_timestamp())

-- fragment: first_revision
-- Greater than that of any document that was here before: an ETag stands for the same body, also after a removal.
CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)

-- name: rules
SELECT json_build_object('revision', c.revision, 'created_at', {{created_at}}, 'secret_paths', c.secret_paths) AS rules,
  CASE WHEN c.uncut THEN c.secret_paths END AS uncut
FROM document_collections AS c WHERE c.tenant_id = :tenant_id AND c.name = :collection

-- name: put
-- One statement whatever is there: the collection by the rules that the body was cut by, or made here if there is none;
-- the document made, or changed where it is as it should be; the last of its revisions. Anything else gives no row.
WITH rules AS MATERIALIZED (
  -- FOR KEY SHARE: whoever changes the rules takes the row FOR UPDATE first, and so waits for what is written by these.
  SELECT c.history FROM document_collections AS c
  WHERE c.tenant_id = :tenant_id AND c.name = :collection
    AND c.revision = CAST(:rules_revision AS bigint) AND c.created_at = CAST(:rules_created_at AS timestamptz)
  FOR KEY SHARE
), made AS (
  INSERT INTO document_collections (tenant_id, name, revision)
  SELECT :tenant_id, :collection, {{first_revision}} WHERE CAST(:rules_revision AS bigint) IS NULL AND :may_create
  ON CONFLICT DO NOTHING RETURNING history
), ruled AS MATERIALIZED (
  SELECT history FROM rules UNION ALL SELECT history FROM made
), stored AS (
  INSERT INTO documents AS d (tenant_id, collection, id, body, indexed, expires_at, revision)
  SELECT :tenant_id, :collection, :id, :body, :indexed, :expires_at, {{first_revision}} FROM ruled
  WHERE :may_create
    OR EXISTS (SELECT FROM documents WHERE tenant_id = :tenant_id AND collection = :collection AND id = :id)
  ON CONFLICT (tenant_id, collection, id) DO UPDATE SET
    body = excluded.body, indexed = excluded.indexed,
    expires_at = CASE WHEN :set_expires_at THEN excluded.expires_at ELSE d.expires_at END,
    revision = d.revision + 1, updated_at = clock_timestamp()
  WHERE NOT :only_new AND {{live}}
    AND (CAST(:if_match AS bigint[]) IS NULL OR d.revision = ANY (:if_match))
  RETURNING d.*, old.id IS NULL AS fresh, old.body AS old_body, old.revision AS old_revision,
    old.updated_at AS old_updated_at
), past AS (
  INSERT INTO document_revisions (tenant_id, collection, id, revision, body, stored_at)
  SELECT d.tenant_id, d.collection, d.id, d.old_revision, d.old_body, d.old_updated_at
  FROM stored AS d CROSS JOIN ruled WHERE NOT d.fresh AND ruled.history > 0
), dropped AS (
  DELETE FROM document_revisions AS r USING stored AS d, ruled
  WHERE r.tenant_id = :tenant_id AND r.collection = :collection AND r.id = :id AND NOT d.fresh
    AND r.revision <= d.old_revision - ruled.history
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT d.tenant_id, CASE WHEN d.fresh THEN 'document.created' ELSE 'document.updated' END, 'document', d.id,
    d.collection, {{document}} FROM stored AS d
), answer AS (
  SELECT CASE WHEN d.fresh THEN 201 ELSE 200 END AS status, d.revision AS etag, {{document}} AS body FROM stored AS d
)

-- name: standing
-- What a write finds: the rules, and the document as it is, with whether its time is over.
SELECT d.revision, d.body, {{live}} AS live,
  (SELECT json_build_object('revision', c.revision, 'created_at', {{created_at}}, 'secret_paths', c.secret_paths)
   FROM document_collections AS c WHERE c.tenant_id = :tenant_id AND c.name = :collection) AS rules
FROM (SELECT) AS one
LEFT JOIN documents AS d ON d.tenant_id = :tenant_id AND d.collection = :collection AND d.id = :id

-- name: lock
-- FOR UPDATE: writers of this document take their turns. The collection comes first, as in every write.
WITH rules AS MATERIALIZED (
  SELECT c.name FROM document_collections AS c WHERE c.tenant_id = :tenant_id AND c.name = :collection FOR KEY SHARE
)
SELECT d.id FROM documents AS d
WHERE d.tenant_id = :tenant_id AND d.collection = (SELECT name FROM rules) AND d.id = :id FOR UPDATE

-- name: get
SELECT d.revision, d.body, CASE WHEN c.uncut THEN c.secret_paths END AS uncut
FROM documents AS d JOIN document_collections AS c ON c.tenant_id = d.tenant_id AND c.name = d.collection
WHERE d.tenant_id = :tenant_id AND d.collection = :collection AND d.id = :id AND {{live}}

-- name: is_there
SELECT d.id FROM documents AS d
WHERE d.tenant_id = :tenant_id AND d.collection = :collection AND d.id = :id AND {{live}}

-- name: delete
WITH deleted AS (
  DELETE FROM documents AS d
  WHERE d.tenant_id = :tenant_id AND d.collection = :collection AND d.id = :id AND {{live}}
    AND (CAST(:if_match AS bigint[]) IS NULL OR d.revision = ANY (:if_match))
  RETURNING d.tenant_id, d.collection, d.id
), dropped AS (
  DELETE FROM document_revisions AS r USING deleted AS d
  WHERE r.tenant_id = :tenant_id AND r.collection = :collection AND r.id = d.id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT d.tenant_id, 'document.deleted', 'document', d.id, d.collection,
    json_build_object('collection', d.collection, 'id', d.id) FROM deleted AS d
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: remove_expired
-- One document whose time is over, so that another can be made under its id.
WITH deleted AS (
  DELETE FROM documents AS d
  WHERE d.tenant_id = :tenant_id AND d.collection = :collection AND d.id = :id AND NOT {{live}}
  RETURNING d.tenant_id, d.collection, d.id
), dropped AS (
  DELETE FROM document_revisions AS r USING deleted AS d
  WHERE r.tenant_id = :tenant_id AND r.collection = :collection AND r.id = d.id
)
INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
SELECT d.tenant_id, 'document.deleted', 'document', d.id, d.collection,
  json_build_object('collection', d.collection, 'id', d.id) FROM deleted AS d

-- name: purge
-- SKIP LOCKED: what somebody is writing is looked at another time.
WITH due AS MATERIALIZED (
  SELECT tenant_id, collection, id FROM documents WHERE expires_at <= clock_timestamp()
  ORDER BY expires_at LIMIT CAST(:limit AS bigint) FOR UPDATE SKIP LOCKED
), dropped AS (
  DELETE FROM document_revisions AS r USING due AS d
  WHERE (r.tenant_id, r.collection, r.id) = (d.tenant_id, d.collection, d.id)
), deleted AS (
  DELETE FROM documents AS d USING due
  WHERE (d.tenant_id, d.collection, d.id) = (due.tenant_id, due.collection, due.id)
  RETURNING d.tenant_id, d.collection, d.id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, subject_parent_id, data)
  SELECT d.tenant_id, 'document.deleted', 'document', d.id, d.collection,
    json_build_object('collection', d.collection, 'id', d.id) FROM deleted AS d
)
SELECT count(*) AS removed FROM deleted
