-- name: claim_next
-- Heads in the order of their index; what others claim or settle at the moment is passed over. The limit is part of the
-- text: with one that is a parameter PostgreSQL would take a tenth of the queue for asked, and plan anew each time.
WITH chosen AS MATERIALIZED (
  SELECT s.tenant_id, s.id{{weighed}} FROM submissions AS s
  WHERE s.tenant_id = :tenant_id{{of_agent}} AND {{runnable}}
  ORDER BY s.priority DESC, s.sequence LIMIT {{limit}} FOR UPDATE SKIP LOCKED
), changed AS (
  UPDATE submissions AS s SET {{claimed}}, attempt_id = 'att_' || replace(CAST(uuidv7() AS text), '-', '')
  FROM {{fitting}} AS c WHERE s.tenant_id = c.tenant_id AND s.id = c.id
  RETURNING s.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.claimed', 'submission', s.id, {{submission}} FROM changed AS s
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{items}} AS body, {{items_with_input}} AS answered
  FROM changed AS s HAVING count(*) > 0 OR :last
)
