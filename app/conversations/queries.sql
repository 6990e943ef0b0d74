-- fragment: place
-- The conversation under the path.
p.tenant_id = :tenant_id AND p.path = :path AND s.tenant_id = :tenant_id AND s.number = p.number

-- fragment: produced
-- Only the newest claim of a producer appends; an earlier one is dead, also under the same producer id.
s.producer_id = :producer_id AND s.producer_epoch = :producer_epoch AND s.incarnation = :incarnation

-- fragment: retried
-- The batch that this producer stored under this number.
b.tenant_id = :tenant_id AND b.number = s.number AND b.producer_epoch = :producer_epoch
  AND b.producer_sequence = :producer_sequence

-- fragment: same
b.digest = :digest AND b.submission_id IS NOT DISTINCT FROM :submission_id AND b.attempt_id IS NOT DISTINCT FROM :attempt_id

-- fragment: numbered
-- The number of the path, made where it has none yet.
named AS (
  INSERT INTO stream_paths (tenant_id, path) VALUES (:tenant_id, :path) ON CONFLICT DO NOTHING RETURNING number
), numbered AS (
  SELECT number FROM named UNION ALL
  SELECT p.number FROM stream_paths AS p WHERE p.tenant_id = :tenant_id AND p.path = :path
)

-- name: create
WITH {{numbered}}, created AS (
  INSERT INTO conversation_streams (tenant_id, number, agent_name, instance_id, incarnation)
  SELECT :tenant_id, n.number, :agent_name, :instance_id, :incarnation FROM numbered AS n
  ON CONFLICT DO NOTHING RETURNING *
), shown AS (
  SELECT c.*, CAST(:path AS text) AS path FROM created AS c
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT c.tenant_id, 'conversation.created', 'conversation', c.path, {{conversation}} FROM shown AS c
), answer AS (
  SELECT 201 AS status, CAST(NULL AS bigint) AS etag, {{conversation}} AS body FROM shown AS c
  UNION ALL
  SELECT 200, NULL, {{conversation}} FROM (
    SELECT s.*, p.path FROM stream_paths AS p, conversation_streams AS s
    WHERE {{place}} AND s.agent_name = :agent_name AND s.instance_id = :instance_id
  ) AS c
)

-- name: acquire
WITH acquired AS (
  UPDATE conversation_streams AS s SET
    producer_id = :producer_id, producer_epoch = s.producer_epoch + 1, next_producer_sequence = 0,
    updated_at = clock_timestamp()
  FROM stream_paths AS p WHERE {{place}} RETURNING s.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{claim}} AS body FROM acquired AS c
)

-- name: append
-- The submission is locked first, so whoever settles or replaces the attempt waits for this to commit; to renew it does
-- not change its key, so renewals pass. Then those that are joined into it: what sends one back changes no key of it, and
-- FOR KEY SHARE would be given its row as it was. Then the conversation, whose newest row decides: of two with one
-- number the second finds that it is no longer the next.
WITH fence AS MATERIALIZED (
  SELECT u.agent, u.instance_id FROM submissions AS u
  WHERE u.tenant_id = :tenant_id AND u.id = :submission_id AND u.open_attempt_id = :attempt_id
    AND (u.status = 'running' OR (u.status = 'terminalizing'
      AND sha256(convert_to(CAST(u.settlement_record AS text), 'UTF8')) = CAST(:only_digest AS bytea)))
  FOR KEY SHARE
), joined AS MATERIALIZED (
  SELECT j.id FROM fence AS f, submissions AS j
  WHERE j.tenant_id = :tenant_id AND j.id = ANY (CAST(:joined_ids AS text[])) AND j.joined_into = :submission_id
    AND j.status IN ('joining', 'joined')
  ORDER BY j.sequence FOR SHARE OF j
), granted AS MATERIALIZED (
  SELECT f.agent, f.instance_id FROM fence AS f
  WHERE (SELECT count(*) FROM joined) = cardinality(CAST(:joined_ids AS text[]))
  UNION ALL
  SELECT NULL, NULL WHERE CAST(:submission_id AS text) IS NULL
), moved AS (
  UPDATE conversation_streams AS s SET
    next_seq = s.next_seq + 1, next_producer_sequence = s.next_producer_sequence + 1, updated_at = clock_timestamp()
  FROM stream_paths AS p, granted AS g
  WHERE CAST(:permitted AS boolean) AND {{place}} AND {{produced}} AND s.next_producer_sequence = :producer_sequence
    AND (g.agent IS NULL OR (g.agent = s.agent_name AND g.instance_id = s.instance_id))
  RETURNING s.number, old.next_seq AS seq
), written AS (
  INSERT INTO conversation_batches (tenant_id, number, seq, producer_epoch, producer_sequence, submission_id, attempt_id,
                                    digest, records, size_bytes)
  SELECT :tenant_id, m.number, m.seq, :producer_epoch, :producer_sequence, :submission_id, :attempt_id, :digest,
         CAST(:records AS json), :size_bytes
  FROM moved AS m
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{appended}} AS body FROM moved AS b
  UNION ALL
  SELECT 200, NULL, {{appended}} FROM stream_paths AS p, conversation_streams AS s, conversation_batches AS b
  WHERE NOT EXISTS (SELECT FROM moved) AND {{place}} AND {{produced}} AND {{retried}} AND {{same}}
)

-- name: standing
-- What an append, or whoever wants to know of a path, meets.
SELECT s.agent_name, s.instance_id, s.producer_id, s.producer_epoch, s.incarnation, s.next_producer_sequence,
       b.seq AS stored_seq, {{same}} AS is_same, u.status AS submission_status, u.attempt_id AS current_attempt_id,
       u.agent AS submission_agent, u.instance_id AS submission_instance_id,
       ARRAY(SELECT wanted FROM unnest(CAST(:joined_ids AS text[])) AS wanted WHERE NOT EXISTS (
         SELECT FROM submissions AS j WHERE j.tenant_id = :tenant_id AND j.id = wanted
           AND j.joined_into = :submission_id AND j.status IN ('joining', 'joined'))) AS not_joined
FROM stream_paths AS p JOIN conversation_streams AS s ON {{place}}
LEFT JOIN conversation_batches AS b ON {{retried}}
LEFT JOIN submissions AS u ON u.tenant_id = :tenant_id AND u.id = :submission_id

-- name: delete
-- The batches go with their conversation; what is told of the path elsewhere stays.
WITH deleted AS (
  DELETE FROM conversation_streams AS s USING stream_paths AS p WHERE {{place}} RETURNING s.*, p.path
), forgotten AS (
  DELETE FROM conversation_checkpoints AS k USING deleted AS c WHERE k.tenant_id = :tenant_id AND k.number = c.number
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT c.tenant_id, 'conversation.deleted', 'conversation', c.path, {{conversation}} FROM deleted AS c
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)

-- name: get
SELECT c.agent_name, c.instance_id, {{conversation}} AS body
FROM (SELECT s.*, p.path FROM stream_paths AS p, conversation_streams AS s WHERE {{place}}) AS c

-- name: forward
-- A page ends with its number of batches, or before the one that would make it too large; one batch always fits. The
-- bound in the text lets the plan be kept, see ARCHITECTURE.md. The records are looked up in the order
-- of the primary key: of a tenant that the statistics do not know yet, a join reads every batch for each one it shows.
WITH head AS MATERIALIZED (
  SELECT s.number, s.incarnation, s.next_seq FROM stream_paths AS p, conversation_streams AS s WHERE {{place}}
), found AS MATERIALIZED (
  SELECT b.number, b.seq, sum(b.size_bytes) OVER (ORDER BY b.seq) - b.size_bytes AS before_bytes, b.size_bytes
  FROM conversation_batches AS b
  WHERE b.tenant_id = :tenant_id AND b.number = (SELECT h.number FROM head AS h)
    AND b.seq > :seq ORDER BY b.seq LIMIT 1000
)
SELECT h.incarnation, h.next_seq, f.seq, (
  SELECT b.records FROM conversation_batches AS b
  WHERE b.tenant_id = :tenant_id AND b.number = f.number AND b.seq >= f.seq ORDER BY b.seq LIMIT 1
) AS records
FROM head AS h LEFT JOIN (SELECT * FROM found LIMIT CAST(:limit AS bigint)) AS f
  ON f.before_bytes = 0 OR f.before_bytes + f.size_bytes <= CAST(:page_bytes_max AS bigint)
ORDER BY f.seq

-- name: backward
-- The same, the newest first.
WITH head AS MATERIALIZED (
  SELECT s.number, s.incarnation, s.next_seq FROM stream_paths AS p, conversation_streams AS s WHERE {{place}}
), found AS MATERIALIZED (
  SELECT b.number, b.seq, sum(b.size_bytes) OVER (ORDER BY b.seq DESC) - b.size_bytes AS before_bytes, b.size_bytes
  FROM conversation_batches AS b
  WHERE b.tenant_id = :tenant_id AND b.number = (SELECT h.number FROM head AS h)
    AND b.seq < :seq ORDER BY b.seq DESC LIMIT 1000
)
SELECT h.incarnation, h.next_seq, f.seq, (
  SELECT b.records FROM conversation_batches AS b
  WHERE b.tenant_id = :tenant_id AND b.number = f.number AND b.seq >= f.seq ORDER BY b.seq LIMIT 1
) AS records
FROM head AS h LEFT JOIN (SELECT * FROM found LIMIT CAST(:limit AS bigint)) AS f
  ON f.before_bytes = 0 OR f.before_bytes + f.size_bytes <= CAST(:page_bytes_max AS bigint)
ORDER BY f.seq DESC

-- name: put_checkpoint
WITH {{numbered}}, put AS (
  INSERT INTO conversation_checkpoints AS k (tenant_id, number, seq, incarnation, format_version, data)
  SELECT :tenant_id, n.number, :seq, :incarnation, :format_version, CAST(:data AS json) FROM numbered AS n
  ON CONFLICT (tenant_id, number) DO UPDATE SET seq = excluded.seq, incarnation = excluded.incarnation,
    format_version = excluded.format_version, data = excluded.data, revision = k.revision + 1,
    updated_at = clock_timestamp()
  RETURNING {{returned}}, old.number IS NULL AS fresh
), answer AS (
  SELECT CASE WHEN c.fresh THEN 201 ELSE 200 END AS status, c.revision AS etag, {{checkpoint}} AS body
  FROM (SELECT k.*, CAST(:path AS text) AS path FROM put AS k) AS c
)

-- name: change_checkpoint
WITH put AS (
  UPDATE conversation_checkpoints AS k SET seq = :seq, incarnation = :incarnation, format_version = :format_version,
    data = CAST(:data AS json), revision = k.revision + 1, updated_at = clock_timestamp()
  FROM stream_paths AS p
  WHERE p.tenant_id = :tenant_id AND p.path = :path AND k.tenant_id = :tenant_id AND k.number = p.number
    AND (CAST(:if_match AS bigint[]) IS NULL OR k.revision = ANY (:if_match))
  RETURNING {{returned}}
), answer AS (
  SELECT 200 AS status, c.revision AS etag, {{checkpoint}} AS body
  FROM (SELECT k.*, CAST(:path AS text) AS path FROM put AS k) AS c
)

-- name: get_checkpoint
SELECT c.revision, c.seq, {{whole_checkpoint}} AS body
FROM (
  SELECT k.*, p.path FROM stream_paths AS p, conversation_checkpoints AS k
  WHERE p.tenant_id = :tenant_id AND p.path = :path AND k.tenant_id = :tenant_id AND k.number = p.number
) AS c

-- name: moved
SELECT w.place FROM unnest(
  CAST(:tenant_ids AS text[]), CAST(:paths AS text[]), CAST(:incarnations AS text[]), CAST(:seqs AS bigint[])
) WITH ORDINALITY AS w (tenant_id, path, incarnation, seq, place)
LEFT JOIN stream_paths AS p ON p.tenant_id = w.tenant_id AND p.path = w.path
LEFT JOIN conversation_streams AS s ON s.tenant_id = p.tenant_id AND s.number = p.number
WHERE s.incarnation IS DISTINCT FROM w.incarnation OR s.next_seq - 1 <> w.seq
