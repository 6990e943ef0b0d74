-- name: begin
-- What is there is live again. What is being deleted, or gone, comes back as another object: the next generation.
-- Somebody else's upload is joined: both write the same bytes under the same name.
INSERT INTO artifacts AS a (tenant_id, hash, size_bytes, part_bytes, part_digests)
VALUES (:tenant_id, :hash, :size_bytes, :part_bytes, :part_digests)
ON CONFLICT (tenant_id, hash) DO UPDATE SET
  state = CASE WHEN a.state IN ('live', 'marked') THEN 'live' ELSE 'uploading' END,
  generation = CASE WHEN a.state IN ('deleting', 'gone') THEN a.generation + 1 ELSE a.generation END,
  size_bytes = excluded.size_bytes,
  part_bytes = CASE WHEN a.state IN ('live', 'marked') THEN a.part_bytes ELSE excluded.part_bytes END,
  part_digests = CASE WHEN a.state IN ('live', 'marked') THEN a.part_digests ELSE excluded.part_digests END,
  touched_at = clock_timestamp(),
  changed_at = CASE WHEN a.state IN ('live', 'uploading') THEN a.changed_at ELSE clock_timestamp() END,
  created_at = CASE WHEN a.state IN ('deleting', 'gone') THEN clock_timestamp() ELSE a.created_at END
RETURNING a.state, a.generation

-- name: finish
-- The object is written. Where it took so long that the upload was given up meanwhile, there is no answer row.
WITH finished AS (
  UPDATE artifacts AS a SET {{touched}}
  WHERE a.tenant_id = :tenant_id AND a.hash = :hash AND a.generation = :generation
    AND a.state IN ('uploading', 'live', 'marked')
  RETURNING a.*, old.state AS was
), answer AS (
  SELECT CASE a.was WHEN 'uploading' THEN 201 ELSE 200 END AS status, CAST(NULL AS bigint) AS etag,
    {{artifact}} AS body FROM finished AS a
)

-- name: hold
-- FOR NO KEY UPDATE, in one order: nobody collects them before the commit, and two who hold several take turns.
WITH locked AS MATERIALIZED (
  SELECT a.tenant_id, a.hash FROM artifacts AS a
  WHERE a.tenant_id = :tenant_id AND a.hash = ANY (CAST(:hashes AS bytea[])) ORDER BY a.hash FOR NO KEY UPDATE
)
UPDATE artifacts AS a SET {{touched}} FROM locked AS l
WHERE a.tenant_id = l.tenant_id AND a.hash = l.hash AND a.state IN ('live', 'marked') RETURNING a.hash

-- name: find
SELECT a.hash, a.generation, a.size_bytes, a.part_bytes, a.part_digests FROM artifacts AS a
WHERE a.tenant_id = :tenant_id AND a.hash = :hash AND a.state IN ('live', 'marked')
