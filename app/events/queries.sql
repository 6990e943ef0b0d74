-- name: sequence
-- The lock is tried first and held to the commit, so positions are given by one session at a time; the rows that
-- somebody else is still inserting are not seen, and get a later position. The head's row lock orders it all.
-- SKIP LOCKED: a tenant whose head somebody holds is left for later, and named, so that its events can be passed over
-- and those of the others do not wait.
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(:lock) AS held),
waiting AS MATERIALIZED (
  SELECT w.ctid AS place, w.tenant_id FROM outbox AS w, alone
  WHERE alone.held AND w.tenant_id <> ALL (CAST(:passed_over AS text[]))
  ORDER BY w.number LIMIT CAST(:limit AS bigint) FOR UPDATE OF w SKIP LOCKED
), tenant AS MATERIALIZED (
  SELECT DISTINCT tenant_id FROM waiting
), free AS MATERIALIZED (
  SELECT h.tenant_id FROM event_heads AS h WHERE h.tenant_id IN (SELECT tenant_id FROM tenant)
  ORDER BY h.tenant_id FOR NO KEY UPDATE SKIP LOCKED
), open AS MATERIALIZED (
  SELECT tenant_id FROM free
  UNION ALL
  -- What is left of a tenant that is gone gets no position: those who removed it remove this too.
  SELECT t.tenant_id FROM tenant AS t WHERE NOT EXISTS (SELECT FROM event_heads AS h WHERE h.tenant_id = t.tenant_id)
    AND EXISTS (SELECT FROM tenants AS n WHERE n.tenant_id = t.tenant_id)
), taken AS (
  DELETE FROM outbox AS o USING waiting AS w
  WHERE o.ctid = w.place AND w.tenant_id = ANY (ARRAY(SELECT tenant_id FROM open)) RETURNING o.*
), counted AS (
  SELECT tenant_id, count(*) AS events FROM taken GROUP BY tenant_id
), heads AS (
  INSERT INTO event_heads AS h (tenant_id, position)
  SELECT tenant_id, events FROM counted ORDER BY tenant_id
  ON CONFLICT (tenant_id) DO UPDATE SET position = h.position + excluded.position
  RETURNING h.tenant_id, h.position
), placed AS (
  INSERT INTO events
    (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, subject_parent_id, occurred_at, data)
  SELECT t.tenant_id, h.position - c.events + row_number() OVER (PARTITION BY t.tenant_id ORDER BY t.number), now(),
         t.id, t.type, t.subject_type, t.subject_id, t.subject_parent_id, t.occurred_at, t.data
  FROM taken AS t JOIN counted AS c USING (tenant_id) JOIN heads AS h USING (tenant_id)
)
SELECT array_agg(CAST(EXTRACT(epoch FROM clock_timestamp() - occurred_at) AS float8)) AS waited,
       (SELECT array_agg(tenant_id) FROM counted) AS tenant_ids,
       ARRAY(SELECT tenant_id FROM tenant EXCEPT SELECT tenant_id FROM open) AS held
FROM taken

-- name: read
-- One snapshot for the head and the events, so a page that is not full has truly reached the head. A page ends with its
-- number of events, or once it has so many bytes of data; the first event always fits. What does not fit is not read.
WITH head AS (
  SELECT COALESCE(max(position), 0) AS position, COALESCE(max(earliest), 1) AS earliest
  FROM event_heads WHERE tenant_id = :tenant_id
), page AS (
  SELECT *, count(*) OVER () AS candidates,
         COALESCE(sum(bytes) OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
  FROM (
    SELECT *, {{size}} AS bytes FROM events AS t
    WHERE t.tenant_id = :tenant_id
      AND t.position > GREATEST(CAST(:after AS bigint), (SELECT earliest - 1 FROM head))
      AND (CAST(:types AS text[]) IS NULL OR t.type = ANY (:types))
    ORDER BY t.position LIMIT CAST(:limit AS bigint)
  ) AS candidate
)
SELECT head.position AS head, head.earliest, e.candidates, e.position, e.subject_type, e.subject_id,
       e.subject_parent_id, CASE WHEN e.id IS NOT NULL THEN {{event}} END AS body
FROM head LEFT JOIN page AS e ON e.before < CAST(:bytes_max AS bigint) ORDER BY e.position

-- name: moved
SELECT w.place FROM unnest(CAST(:tenant_ids AS text[]), CAST(:positions AS bigint[]))
  WITH ORDINALITY AS w (tenant_id, position, place)
JOIN event_heads AS h ON h.tenant_id = w.tenant_id AND h.position > w.position

-- name: month_is_missing
SELECT to_char(month, 'YYYY_MM') AS name, month AT TIME ZONE 'UTC' AS starts_at,
       (month + interval '1 month') AT TIME ZONE 'UTC' AS ends_at
FROM generate_series(
  date_trunc('month', now() AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months',
  interval '1 month') AS month
WHERE to_regclass('events_p_' || to_char(month, 'YYYY_MM')) IS NULL
ORDER BY month LIMIT 1

-- name: past_months
-- Partitions of months before this one, the oldest first, as far as they are small enough to be looked through at once.
SELECT c.relname AS name FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = CAST('events' AS regclass) AND c.relname ~ '^events_p_[0-9]{4}_[0-9]{2}$'
  AND c.relname < 'events_p_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')
  AND pg_relation_size(c.oid) <= CAST(:bytes_max AS bigint)
ORDER BY 1 LIMIT CAST(:limit AS bigint)
