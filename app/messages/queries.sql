-- fragment: given
-- The messages as they are to be written; numbers are given in the order sent.
WITH given AS MATERIALIZED (
  SELECT CAST(:invocation_id AS text) AS invocation_id, g.id, COALESCE(g.seq, nextval('message_seq')) AS seq,
         g.from_node_id, g.to_node_id, g.origin_node_invocation_id, g.target_node_invocation_id, g.role, g.payload,
         g.digest, CAST(1 AS bigint) AS revision, clock_timestamp() AS created_at, g.place
  FROM unnest(
    CAST(:ids AS text[]), CAST(:seqs AS bigint[]), CAST(:from_node_ids AS text[]), CAST(:to_node_ids AS text[]),
    CAST(:origins AS text[]), CAST(:targets AS text[]), CAST(:roles AS text[]), CAST(:payloads AS json[]),
    CAST(:digests AS bytea[])
  ) WITH ORDINALITY AS g (id, seq, from_node_id, to_node_id, origin_node_invocation_id, target_node_invocation_id, role,
                          payload, digest, place)
)

-- fragment: insert
-- Rows are written in the order of their ids, so that two calls with the same ids cannot wait for each other.
INSERT INTO messages AS m (tenant_id, invocation_id, id, seq, from_node_id, to_node_id, origin_node_invocation_id,
                           target_node_invocation_id, role, payload, digest, revision, created_at)
  SELECT :tenant_id, g.invocation_id, g.id, g.seq, g.from_node_id, g.to_node_id, g.origin_node_invocation_id,
         g.target_node_invocation_id, g.role, g.payload, g.digest, g.revision, g.created_at
  FROM given AS g ORDER BY g.id COLLATE "C"

-- name: record_new
-- n messages or one, each of them new: an id that is there violates the primary key, and nothing has happened.
{{given}}, written AS (
  {{insert}}
), answer AS (
  SELECT 201 AS status, {{etag}} AS etag, {{body}} AS body FROM given AS m
)

-- name: record
-- n messages or one, all or none. A row that was created with the same fields is taken as it now is: the update changes
-- nothing, but it locks and returns the newest row, so no race needs a second look.
{{given}}, written AS (
  {{insert}}
  ON CONFLICT (tenant_id, invocation_id, id) DO UPDATE SET digest = excluded.digest WHERE m.digest = excluded.digest
  RETURNING {{shown}}, m.revision, old.id IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN bool_or(m.fresh) THEN 201 ELSE 200 END AS status, {{etag}} AS etag, {{body}} AS body
  FROM given AS g LEFT JOIN written AS m USING (id)
  HAVING CASE WHEN count(m.id) = count(*) THEN true
              ELSE cairn_taken(array_agg(g.id) FILTER (WHERE m.id IS NULL)) END
)

-- name: patch
WITH changed AS (
  UPDATE messages AS m SET target_node_invocation_id = :target, revision = m.revision + 1
  WHERE m.tenant_id = :tenant_id AND m.invocation_id = :invocation_id AND m.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR m.revision = ANY (:if_match))
  RETURNING *
), answer AS (
  SELECT 200 AS status, m.revision AS etag, {{message}} AS body FROM changed AS m
)
