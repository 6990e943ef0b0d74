-- name: add
INSERT INTO contents (tenant_id, size_bytes, digest, chunk_bytes)
VALUES (:tenant_id, :size_bytes, :digest, :chunk_bytes) RETURNING number, created_at

-- name: add_chunks
INSERT INTO content_chunks (tenant_id, content_number, position, digest, bytes)
SELECT :tenant_id, :number, g.position, g.digest, g.bytes
FROM unnest(CAST(:positions AS integer[]), CAST(:digests AS bytea[]), CAST(:chunks AS bytea[]))
  AS g (position, digest, bytes)

-- name: chunk
SELECT c.digest, c.bytes FROM content_chunks AS c
WHERE c.tenant_id = :tenant_id AND c.content_number = :number AND c.position = :position

-- name: examine
-- The lengths of all, which reads none of their bytes; of the first so many the bytes too.
SELECT count(*) AS chunks, COALESCE(sum(octet_length(c.bytes)), 0) AS size_bytes,
  COALESCE(bool_and(sha256(c.bytes) = c.digest) FILTER (WHERE c.position < :until), true) AS true_to_digest
FROM content_chunks AS c
WHERE c.tenant_id = :tenant_id AND c.content_number = :number AND c.position BETWEEN :first AND :last

-- name: remove_chunks
DELETE FROM content_chunks AS c USING (
  SELECT tenant_id, content_number, position FROM content_chunks
  WHERE tenant_id = :tenant_id AND content_number = ANY (CAST(:numbers AS bigint[])) LIMIT :limit
) AS piece
WHERE (c.tenant_id, c.content_number, c.position) = (piece.tenant_id, piece.content_number, piece.position)
RETURNING c.position

-- name: remove
DELETE FROM contents WHERE tenant_id = :tenant_id AND number = ANY (CAST(:numbers AS bigint[]))
