-- fragment: endpoint
-- Whether the webhook is there and enabled; where it stops being so meanwhile, what waits is given up for that.
EXISTS (SELECT FROM webhooks AS w WHERE w.tenant_id = t.tenant_id AND w.id = t.webhook_id AND w.enabled)

-- fragment: sendable
-- Whether there still is something to send: what was kept, or the event.
(t.body IS NOT NULL OR EXISTS (
  SELECT FROM events AS e
  WHERE e.tenant_id = t.tenant_id AND e.position = t.event_position AND e.sequenced_at = t.event_sequenced_at))

-- fragment: anew
-- A new round of attempts, from now on, under the same id. The hand-outs go on counting, so that none is taken for a
-- duplicate.
status = 'pending', round_count = 0, due_at = clock_timestamp(), lapses_at = NULL, ended_at = NULL

-- name: test
WITH created AS (
  INSERT INTO webhook_deliveries AS t (tenant_id, webhook_id, event_type, body)
  SELECT w.tenant_id, w.id, 'webhook.test', CAST(
    '{"type":"webhook.test","timestamp":"' || {{now}} || '","data":' || COALESCE(CAST(CAST(:data AS json) AS text),
      CAST(json_build_object('webhook_id', w.id, 'message', 'Hello from Cairn.') AS text)) || '}' AS json)
  FROM webhooks AS w WHERE w.tenant_id = :tenant_id AND w.id = :id AND w.enabled
  RETURNING t.*
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{delivery}} AS body FROM created AS t
)

-- name: redeliver
-- Its letter is locked before it, as whoever replays letters does; a second one then finds it under way.
WITH letter AS MATERIALIZED (
  SELECT l.id FROM dead_letters AS l
  WHERE l.tenant_id = :tenant_id AND l.source = 'webhook' AND l.subject = :id FOR UPDATE
), changed AS (
  UPDATE webhook_deliveries AS t SET {{anew}}
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.status IN ('delivered', 'dead')
    AND (SELECT count(*) FROM letter) >= 0 AND {{endpoint}} AND {{sendable}}
  RETURNING t.*
), taken_back AS (
  DELETE FROM dead_letters AS l USING changed AS t
  WHERE l.tenant_id = :tenant_id AND l.id IN (SELECT id FROM letter) AND l.subject = t.id
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{delivery}} AS body FROM changed AS t
)

-- name: replay
-- Who calls this holds the letters of these deliveries.
WITH changed AS (
  UPDATE webhook_deliveries AS t SET {{anew}}
  WHERE t.tenant_id = :tenant_id AND t.id = ANY (CAST(:ids AS text[])) AND t.status = 'dead'
    AND {{endpoint}} AND {{sendable}}
  RETURNING t.id
)
SELECT t.id FROM changed AS t

-- name: standing
SELECT t.id, t.status, w.id IS NOT NULL AS has_endpoint, COALESCE(w.enabled, false) AS enabled, t.webhook_id,
  {{sendable}} AS sendable
FROM webhook_deliveries AS t LEFT JOIN webhooks AS w ON w.tenant_id = t.tenant_id AND w.id = t.webhook_id
WHERE t.tenant_id = :tenant_id AND t.id = ANY (CAST(:ids AS text[]))
