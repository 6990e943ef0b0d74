-- name: find
SELECT t.content_number, t.content_digest, t.content_bytes, t.chunk_bytes, t.id, t.conversation_id, t.mime_type,
  t.filename, {{attachment}} AS body,
  -- What fits one chunk comes along: one statement reads it.
  CASE WHEN :with_bytes AND t.content_bytes <= t.chunk_bytes THEN (
    SELECT c.bytes FROM content_chunks AS c
    WHERE c.tenant_id = t.tenant_id AND c.content_number = t.content_number AND c.position = 0
  ) END AS bytes
FROM {{source}}
WHERE t.tenant_id = :tenant_id AND t.path = :path AND t.id = :id
  AND (CAST(:conversation_id AS text) IS NULL OR t.conversation_id = :conversation_id)

-- name: insert
-- The path is entered here and not before the bytes are written: others who enter it wait for us as short as can be.
WITH entered AS (
  INSERT INTO stream_paths (tenant_id, path) VALUES (:tenant_id, :path) ON CONFLICT DO NOTHING RETURNING number
)
INSERT INTO attachments
  (tenant_id, path_number, id, content_number, conversation_id, mime_type, filename, created_at)
SELECT :tenant_id, p.number, :id, :content_number, :conversation_id, :mime_type, :filename, :created_at
FROM (
  SELECT number FROM entered
  UNION ALL SELECT number FROM stream_paths WHERE tenant_id = :tenant_id AND path = :path
) AS p
ON CONFLICT DO NOTHING RETURNING id

-- name: touch
-- Bytes are put again by who is about to append the record that names them: the conversation is not old then. Whoever
-- removes it at this moment is waited for.
UPDATE conversation_streams AS s SET updated_at = clock_timestamp()
FROM stream_paths AS p WHERE p.tenant_id = :tenant_id AND p.path = :path AND s.tenant_id = p.tenant_id
  AND s.number = p.number AND s.updated_at < clock_timestamp() - interval '1 hour'
RETURNING s.number

-- name: remove
DELETE FROM attachments AS a USING (
  -- Whoever removes the same path meanwhile waits for these rows, and then finds them gone.
  SELECT a.tenant_id, a.path_number, a.id FROM attachments AS a
  JOIN stream_paths AS p ON p.tenant_id = a.tenant_id AND p.number = a.path_number
  WHERE a.tenant_id = :tenant_id AND p.path = :path LIMIT :limit FOR UPDATE OF a
) AS piece
WHERE (a.tenant_id, a.path_number, a.id) = (piece.tenant_id, piece.path_number, piece.id)
RETURNING a.content_number
