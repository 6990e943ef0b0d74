-- name: wanting
-- Spaces whose index may be missing, invalid, or asked for anew. Vectors take at least their own bytes, so whether a
-- partition can have so many is told by its size; only then are they counted.
SELECT s.tenant_id, s.name, s.number, s.dimensions, s.metric, i.indexrelid IS NOT NULL AS begun,
  s.reindex_requested_at AS requested_at
FROM memory_spaces AS s
JOIN pg_class AS p ON p.oid = to_regclass('memory_vectors_' || s.number)
LEFT JOIN pg_index AS i ON i.indexrelid = to_regclass('ix_memory_vectors_' || s.number || '_embedding')
WHERE s.reindex_requested_at IS NOT NULL OR NOT i.indisvalid
  OR (i.indexrelid IS NULL AND pg_table_size(p.oid) >= CAST(:rows_min AS bigint) * 4 * s.dimensions)
ORDER BY s.reindex_requested_at, s.number LIMIT 10000

-- name: served
-- Whoever asked again meanwhile is served by the next.
UPDATE memory_spaces SET reindex_requested_at = NULL WHERE tenant_id = :tenant_id AND number = :number
  AND reindex_requested_at <= CAST(:requested_at AS timestamptz)
