-- fragment: insert_event
INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)

-- fragment: matched
(CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))

-- fragment: reached
-- How far the tenant's events have been handed out; what comes after is missed by a webhook that is disabled now.
GREATEST(t.after_position, (SELECT h.position FROM webhook_heads AS h WHERE h.tenant_id = t.tenant_id))

-- name: create
-- The lock on the head of the tenant's events lets no event have a position before this is committed: whoever hands
-- out an event after that position sees the webhook.
WITH stored AS (
  SELECT t.* FROM webhooks AS t WHERE t.tenant_id = :tenant_id AND t.id = :id
), head AS MATERIALIZED (
  SELECT h.position FROM event_heads AS h WHERE h.tenant_id = :tenant_id AND NOT EXISTS (SELECT FROM stored) FOR UPDATE
), created AS (
  INSERT INTO webhooks AS t (tenant_id, id, url, event_types, include, description, enabled, disabled_at,
    disabled_reason, secret, headers, header_names, after_position, digest)
  SELECT :tenant_id, :id, :url, CAST(:event_types AS text[]), CAST(:include AS text[]), :description, :enabled,
    CASE WHEN NOT :enabled THEN clock_timestamp() END, CASE WHEN NOT :enabled THEN 'by_client' END, :secret, :headers,
    CAST(:header_names AS text[]), COALESCE((SELECT position FROM head), 0), (CAST(:digests AS bytea[]))[1]
  WHERE NOT EXISTS (SELECT FROM stored)
  ON CONFLICT (tenant_id, id) DO NOTHING RETURNING t.*
), handing_out AS (
  INSERT INTO webhook_heads (tenant_id, position) SELECT t.tenant_id, t.after_position FROM created AS t
  ON CONFLICT (tenant_id) DO NOTHING
), event AS (
  {{insert_event}}
  SELECT t.tenant_id, 'webhook.created', 'webhook', t.id, {{webhook}} FROM created AS t
), answer AS (
  SELECT 201 AS status, t.revision AS etag, {{with_secret}} AS body FROM created AS t
  UNION ALL
  SELECT 200, t.revision, {{with_secret}} FROM stored AS t WHERE t.digest = ANY (CAST(:digests AS bytea[]))
)

-- name: patch
-- Enabled anew, it takes up at the head, which is locked as above, and before the webhook itself: hence the count.
WITH head AS MATERIALIZED (
  SELECT h.position FROM event_heads AS h WHERE h.tenant_id = :tenant_id AND CAST(:enabled AS boolean) FOR UPDATE
), changed AS (
  UPDATE webhooks AS t SET
    url = COALESCE(:url, t.url),
    event_types = COALESCE(CAST(:event_types AS text[]), t.event_types),
    include = COALESCE(CAST(:include AS text[]), t.include),
    description = CASE WHEN :set_description THEN :description ELSE t.description END,
    headers = CASE WHEN :set_headers THEN :headers ELSE t.headers END,
    header_names = COALESCE(CAST(:header_names AS text[]), t.header_names),
    enabled = COALESCE(:enabled, t.enabled),
    disabled_at = CASE WHEN COALESCE(:enabled, t.enabled) THEN NULL ELSE COALESCE(t.disabled_at, clock_timestamp()) END,
    disabled_reason = CASE WHEN COALESCE(:enabled, t.enabled) THEN NULL
      ELSE COALESCE(t.disabled_reason, 'by_client') END,
    failing_since = CASE WHEN :enabled AND NOT t.enabled THEN NULL ELSE t.failing_since END,
    after_position = CASE WHEN :enabled AND NOT t.enabled THEN COALESCE((SELECT position FROM head), t.after_position)
      WHEN NOT :enabled AND t.enabled THEN {{reached}} ELSE t.after_position END,
    revision = t.revision + 1, updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND {{matched}} AND (SELECT count(*) FROM head) >= 0
  RETURNING t.*, old.enabled AS was_enabled, old.after_position AS was_after_position
), event AS (
  {{insert_event}}
  SELECT t.tenant_id, CASE WHEN t.enabled = t.was_enabled THEN 'webhook.updated' WHEN t.enabled THEN 'webhook.enabled'
    ELSE 'webhook.disabled' END, 'webhook', t.id, {{changed_webhook}} FROM changed AS t
), answer AS (
  SELECT 200 AS status, t.revision AS etag, {{changed_webhook}} AS body FROM changed AS t
)

-- name: enable
WITH head AS MATERIALIZED (
  SELECT h.position FROM event_heads AS h WHERE h.tenant_id = :tenant_id FOR UPDATE
), changed AS (
  UPDATE webhooks AS t SET enabled = true, disabled_at = NULL, disabled_reason = NULL, failing_since = NULL,
    after_position = COALESCE((SELECT position FROM head), t.after_position), revision = t.revision + 1,
    updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND NOT t.enabled AND {{matched}} AND (SELECT count(*) FROM head) >= 0
  RETURNING t.*, old.enabled AS was_enabled, old.after_position AS was_after_position
), event AS (
  {{insert_event}}
  SELECT t.tenant_id, 'webhook.enabled', 'webhook', t.id, {{changed_webhook}} FROM changed AS t
), answer AS (
  SELECT 200 AS status, t.revision AS etag, {{changed_webhook}} AS body FROM changed AS t
  UNION ALL
  SELECT 200, t.revision, {{webhook}} FROM webhooks AS t
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.enabled AND {{matched}} AND NOT EXISTS (SELECT FROM changed)
)

-- name: rotate
-- Both sign until the overlap ends; where one from before was still signing, it ends now.
WITH changed AS (
  UPDATE webhooks AS t SET secret = :secret, revision = t.revision + 1, updated_at = clock_timestamp(),
    previous_secret = CASE WHEN CAST(:overlap_seconds AS float8) > 0 THEN t.secret END,
    previous_secret_until = CASE WHEN CAST(:overlap_seconds AS float8) > 0
      THEN clock_timestamp() + make_interval(secs => CAST(:overlap_seconds AS float8)) END
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND {{matched}}
  RETURNING t.*
), event AS (
  {{insert_event}}
  SELECT t.tenant_id, 'webhook.secret_rotated', 'webhook', t.id, {{webhook}} FROM changed AS t
), answer AS (
  SELECT 200 AS status, t.revision AS etag, {{with_secret}} AS body FROM changed AS t
)

-- name: get
SELECT t.revision, t.digest, {{webhook}} AS body FROM webhooks AS t WHERE t.tenant_id = :tenant_id AND t.id = :id

-- name: delete
-- Its deliveries stay; those that wait are given up beside the requests.
WITH deleted AS (
  DELETE FROM webhooks AS t WHERE t.tenant_id = :tenant_id AND t.id = :id AND {{matched}} RETURNING t.tenant_id, t.id
), event AS (
  {{insert_event}}
  SELECT t.tenant_id, 'webhook.deleted', 'webhook', t.id, json_build_object('id', t.id) FROM deleted AS t
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM deleted
)
