-- fragment: window
-- How many deliveries an endpoint may have under way. One that fails gets one at a time, so that it holds up little, and
-- is not stormed once it is back.
CASE WHEN w.failing_since IS NULL THEN CAST(:concurrency AS int) ELSE 1 END

-- fragment: failing_for_long
clock_timestamp() - w.failing_since >= make_interval(secs => CAST(:disable_after_seconds AS float8))

-- fragment: open_tenant
-- What waits for a tenant that is closed goes on waiting.
EXISTS (SELECT FROM tenants AS n WHERE n.tenant_id = w.tenant_id AND n.closed_at IS NULL)

-- fragment: next_lane
-- One look into the index, however many wait in a lane.
SELECT n.tenant_id, n.webhook_id, n.due_at, l.turn + 1
FROM lane AS l CROSS JOIN LATERAL (
  SELECT d.tenant_id, d.webhook_id, d.due_at FROM webhook_deliveries AS d
  WHERE d.status = 'pending' AND (d.tenant_id, d.webhook_id) > (l.tenant_id, l.webhook_id)
  ORDER BY d.tenant_id, d.webhook_id, d.due_at LIMIT 1
) AS n

-- name: fan_out
-- SKIP LOCKED: another process hands out the events of another tenant. The order is at random, so that no tenant waits
-- for ever behind others. A head and its deliveries move in one commit: no event is skipped, none is handed out twice.
WITH head AS MATERIALIZED (
  SELECT h.tenant_id, h.position, e.position AS last
  FROM webhook_heads AS h JOIN event_heads AS e USING (tenant_id) JOIN tenants AS n USING (tenant_id)
  WHERE e.position > h.position AND n.closed_at IS NULL
  ORDER BY random() LIMIT 64 FOR UPDATE OF h SKIP LOCKED
), event AS MATERIALIZED (
  SELECT h.tenant_id, e.position, e.sequenced_at, e.id, e.type
  FROM head AS h CROSS JOIN LATERAL (
    SELECT e.position, e.sequenced_at, e.id, e.type FROM events AS e
    WHERE e.tenant_id = h.tenant_id AND e.position > h.position AND e.position <= h.last
    ORDER BY e.position LIMIT 1000
  ) AS e
), type AS MATERIALIZED (
  -- What a subscription may say to get this type: itself, or `prefix.*`.
  SELECT t.tenant_id, t.type, ARRAY(
    SELECT array_to_string(t.words[1 : n], '.') || CASE WHEN n = cardinality(t.words) THEN '' ELSE '.*' END
    FROM generate_series(1, cardinality(t.words)) AS n
  ) AS names
  FROM (SELECT DISTINCT tenant_id, type, string_to_array(type, '.') AS words FROM event) AS t
), webhook AS MATERIALIZED (
  SELECT w.* FROM head AS h CROSS JOIN LATERAL (
    SELECT w.tenant_id, w.id, w.event_types, w.after_position FROM webhooks AS w
    WHERE w.tenant_id = h.tenant_id AND w.enabled
    -- Read for these tenants alone, whatever a plan thinks of the others.
    OFFSET 0
  ) AS w
), target AS MATERIALIZED (
  SELECT t.tenant_id, t.type, w.id, w.after_position
  FROM type AS t JOIN webhook AS w
    ON w.tenant_id = t.tenant_id AND (w.event_types = '{}' OR w.event_types && t.names)
), counted AS MATERIALIZED (
  SELECT tenant_id, type, count(*) AS targets FROM target GROUP BY tenant_id, type
), taken AS MATERIALIZED (
  -- As many as fit, and one at least: the last of them is the only one that may go beyond.
  SELECT e.* FROM (
    SELECT e.*, COALESCE(c.targets, 0) AS targets,
           sum(COALESCE(c.targets, 0)) OVER (PARTITION BY e.tenant_id ORDER BY e.position) AS total
    FROM event AS e LEFT JOIN counted AS c USING (tenant_id, type)
  ) AS e
  WHERE e.total - e.targets <= CAST(:limit AS bigint) / (SELECT count(*) FROM head)
), reached AS (
  -- Events of which nothing is kept any more are passed over.
  SELECT h.tenant_id, CASE WHEN t.events < 1000 AND t.events = e.events THEN h.last ELSE t.position END AS position
  FROM head AS h
  LEFT JOIN (SELECT tenant_id, count(*) AS events FROM event GROUP BY tenant_id) AS e USING (tenant_id)
  LEFT JOIN (SELECT tenant_id, count(*) AS events, max(position) AS position FROM taken GROUP BY tenant_id) AS t
    USING (tenant_id)
), moved AS (
  UPDATE webhook_heads AS h SET position = COALESCE(r.position, f.last)
  FROM reached AS r JOIN head AS f USING (tenant_id)
  WHERE h.tenant_id = r.tenant_id RETURNING 1
), made AS (
  INSERT INTO webhook_deliveries
    (tenant_id, webhook_id, event_id, event_type, event_position, event_sequenced_at)
  SELECT t.tenant_id, g.id, t.id, t.type, t.position, t.sequenced_at
  FROM taken AS t JOIN target AS g USING (tenant_id, type)
  WHERE g.after_position < t.position
  ORDER BY t.position RETURNING 1
)
SELECT (SELECT count(*) FROM moved) AS heads, (SELECT count(*) FROM taken) AS events,
       (SELECT count(*) FROM made) AS deliveries

-- name: lanes
-- A lane is a webhook with deliveries that wait. Those that have something due and room for it are locked, SKIP LOCKED:
-- another process fills another lane, and none overfills one.
WITH RECURSIVE lane AS (
  (SELECT d.tenant_id, d.webhook_id, d.due_at, 1 AS turn FROM webhook_deliveries AS d
   WHERE d.status = 'pending' AND (d.tenant_id, d.webhook_id) > (:after_tenant, :after_webhook)
   ORDER BY d.tenant_id, d.webhook_id, d.due_at LIMIT 1)
  UNION ALL
  {{next_lane}}
  WHERE l.turn < {{lanes_max}}
), held AS MATERIALIZED (
  SELECT l.turn FROM lane AS l CROSS JOIN LATERAL (
    SELECT w.id FROM webhooks AS w
    WHERE w.tenant_id = l.tenant_id AND w.id = l.webhook_id AND w.enabled AND {{open_tenant}}
      AND (SELECT count(*) FROM (
             SELECT FROM webhook_deliveries AS u
             WHERE u.tenant_id = w.tenant_id AND u.webhook_id = w.id AND u.status IN ('queued', 'sending')
             LIMIT 100
           ) AS under_way) < {{window}}
    FOR NO KEY UPDATE OF w SKIP LOCKED
  ) AS free
  WHERE l.due_at <= statement_timestamp()
  LIMIT {{lanes_held_max}}
)
SELECT l.tenant_id, l.webhook_id, l.turn, h.turn IS NOT NULL AS held, w.id IS NULL AS unwanted
FROM lane AS l LEFT JOIN held AS h USING (turn) LEFT JOIN LATERAL (
  SELECT w.id FROM webhooks AS w WHERE w.tenant_id = l.tenant_id AND w.id = l.webhook_id AND w.enabled LIMIT 1
) AS w ON true
WHERE h.turn IS NOT NULL OR w.id IS NULL OR l.turn = {{lanes_max}}
ORDER BY l.turn

-- name: hand_out
-- The lanes are locked by this transaction, and this statement looks anew: what is under way is counted exactly.
WITH room AS MATERIALIZED (
  SELECT l.tenant_id, l.webhook_id,
         {{window}} - (
           SELECT count(*) FROM webhook_deliveries AS u
           WHERE u.tenant_id = l.tenant_id AND u.webhook_id = l.webhook_id AND u.status IN ('queued', 'sending')
         ) AS free
  FROM unnest(CAST(:tenant_ids AS text[]), CAST(:webhook_ids AS text[])) AS l (tenant_id, webhook_id)
  CROSS JOIN LATERAL (
    SELECT w.failing_since FROM webhooks AS w
    WHERE w.tenant_id = l.tenant_id AND w.id = l.webhook_id AND w.enabled LIMIT 1
  ) AS w
), chosen AS MATERIALIZED (
  SELECT d.tenant_id, d.id FROM room AS r CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT d.tenant_id, d.id FROM webhook_deliveries AS d
      WHERE d.status = 'pending' AND d.tenant_id = r.tenant_id AND d.webhook_id = r.webhook_id
        AND d.due_at <= statement_timestamp()
      ORDER BY d.due_at LIMIT GREATEST(r.free, 0)
    -- What is asked for is at most the largest concurrency; said here too, so that the plan counts on no more.
    ) AS d LIMIT 100
  ) AS d
)
UPDATE webhook_deliveries AS d
SET status = 'queued', dispatch = d.dispatch + 1,
    lapses_at = clock_timestamp() + make_interval(secs => CAST(:seconds AS float8))
FROM chosen AS c WHERE d.tenant_id = c.tenant_id AND d.id = c.id AND d.status = 'pending'
RETURNING d.tenant_id, d.id, d.dispatch

-- name: hand_back
-- Only what is still handed out in this very way.
UPDATE webhook_deliveries AS d SET status = 'pending', lapses_at = NULL
FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:dispatches AS int[])) AS g (tenant_id, id, dispatch)
WHERE d.tenant_id = g.tenant_id AND d.id = g.id AND d.dispatch = g.dispatch AND d.status = 'queued'
RETURNING 1

-- name: give_up
-- What waits for an endpoint that is gone, or disabled, waits no longer. SKIP LOCKED: two processes do it side by side.
WITH doomed AS MATERIALIZED (
  SELECT d.tenant_id, d.id, l.reason
  FROM (
    SELECT l.tenant_id, l.webhook_id,
           CASE WHEN w.enabled IS NULL THEN 'endpoint_gone' ELSE 'endpoint_disabled' END AS reason
    FROM unnest(CAST(:tenant_ids AS text[]), CAST(:webhook_ids AS text[])) AS l (tenant_id, webhook_id)
    LEFT JOIN LATERAL (
      SELECT w.enabled FROM webhooks AS w WHERE w.tenant_id = l.tenant_id AND w.id = l.webhook_id LIMIT 1
    ) AS w ON true
    WHERE w.enabled IS NOT TRUE
  ) AS l CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.id FROM webhook_deliveries AS d
    WHERE d.status = 'pending' AND d.tenant_id = l.tenant_id AND d.webhook_id = l.webhook_id
    ORDER BY d.due_at LIMIT {{given_up_max}} FOR UPDATE SKIP LOCKED
  ) AS d
  LIMIT {{given_up_max}}
), ended AS (
  UPDATE webhook_deliveries AS d
  SET status = 'dead', ended_at = clock_timestamp(), body = {{kept_body}}
  FROM doomed AS x WHERE d.tenant_id = x.tenant_id AND d.id = x.id
  RETURNING d.tenant_id, d.id, d.attempt_count, d.last_error, x.reason
)
INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, last_error)
SELECT tenant_id, 'webhook', id, reason, attempt_count, last_error FROM ended
RETURNING 1

-- name: lapse
-- Hand-outs of which nothing was heard, of a process that ended or a message that was lost, are made again.
WITH lapsed AS MATERIALIZED (
  SELECT tenant_id, id FROM webhook_deliveries
  WHERE status = 'queued' AND lapses_at <= statement_timestamp()
  ORDER BY lapses_at LIMIT {{lapsed_max}} FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries AS d SET status = 'pending', lapses_at = NULL
FROM lapsed AS l WHERE d.tenant_id = l.tenant_id AND d.id = l.id
RETURNING 1

-- name: claim
-- Whoever takes a message asks here: one that came twice, or late, finds its delivery no longer handed out in its way.
-- What waits for an endpoint that is gone or disabled goes back to wait; the relay gives it up. So does what is too much
-- beside the bodies before it; the first always fits.
WITH found AS MATERIALIZED (
  SELECT d.tenant_id, d.id, d.dispatch, w.url, w.include, w.secret, w.headers,
         w.id IS NOT NULL AND COALESCE(sum(d.bytes) OVER (
           ORDER BY g.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ), 0) < CAST(:bytes_max AS bigint) AS wanted,
         CASE WHEN w.previous_secret_until > statement_timestamp() THEN w.previous_secret END AS previous_secret
  FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:dispatches AS int[])) WITH ORDINALITY
    AS g (tenant_id, id, dispatch, place)
  CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.id, d.dispatch, d.webhook_id, CASE WHEN d.body IS NOT NULL THEN {{body_bytes}} ELSE (
      SELECT {{data_bytes}} FROM events AS e WHERE e.tenant_id = d.tenant_id AND e.position = d.event_position
        AND e.sequenced_at = d.event_sequenced_at) END AS bytes FROM webhook_deliveries AS d
    WHERE d.tenant_id = g.tenant_id AND d.id = g.id AND d.dispatch = g.dispatch AND d.status = 'queued' LIMIT 1
  ) AS d
  LEFT JOIN LATERAL (
    SELECT w.* FROM webhooks AS w
    WHERE w.tenant_id = d.tenant_id AND w.id = d.webhook_id AND w.enabled AND {{open_tenant}} LIMIT 1
  ) AS w ON true
), claimed AS (
  UPDATE webhook_deliveries AS d SET
    status = CASE WHEN f.wanted THEN 'sending' ELSE 'pending' END,
    attempt_count = d.attempt_count + CAST(f.wanted AS int),
    round_count = d.round_count + CAST(f.wanted AS int),
    lapses_at = CASE WHEN f.wanted THEN clock_timestamp() + make_interval(secs => CAST(:seconds AS float8)) END
  FROM found AS f
  WHERE d.tenant_id = f.tenant_id AND d.id = f.id AND d.dispatch = f.dispatch AND d.status = 'queued'
  RETURNING d.tenant_id, d.id, d.attempt_count, d.round_count, d.event_position, d.event_sequenced_at,
            CASE WHEN f.wanted THEN d.body END AS body, f.wanted, f.url, f.include, f.secret, f.previous_secret, f.headers
)
SELECT c.tenant_id, c.id, c.wanted, c.attempt_count AS number, c.round_count, c.url, c.include, c.secret,
       c.previous_secret, c.headers, clock_timestamp() AS started_at, e.body IS NULL AS kept,
       COALESCE(c.body, e.body) AS body, e.subject_type, e.subject_parent_id, e.subject_id
FROM claimed AS c LEFT JOIN LATERAL (
  SELECT {{body}} AS body, e.subject_type, e.subject_parent_id, e.subject_id FROM events AS e
  -- What was given up before its first attempt lacks what its webhook wants included.
  WHERE c.wanted AND (c.body IS NULL OR c.attempt_count = 1 AND c.include <> '{}')
    AND e.tenant_id = c.tenant_id AND e.position = c.event_position AND e.sequenced_at = c.event_sequenced_at LIMIT 1
) AS e ON true

-- name: unknown
SELECT count(*) AS deliveries FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[])) AS g (tenant_id, id)
WHERE NOT EXISTS (SELECT FROM webhook_deliveries AS d WHERE d.tenant_id = g.tenant_id AND d.id = g.id)

-- name: keep_bodies
-- Rendered once, and kept before it is sent: every attempt sends the same.
UPDATE webhook_deliveries AS d SET body = g.body
FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:numbers AS int[]), CAST(:bodies AS json[]))
  AS g (tenant_id, id, number, body)
WHERE d.tenant_id = g.tenant_id AND d.id = g.id AND d.attempt_count = g.number AND d.status = 'sending'
RETURNING d.tenant_id, d.id

-- name: put_back
-- Claimed, and not attempted: as if it had not been claimed. One that counts as lost has been dealt with.
UPDATE webhook_deliveries AS d
SET status = 'pending', lapses_at = NULL, attempt_count = d.attempt_count - 1, round_count = d.round_count - 1
FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:numbers AS int[])) AS g (tenant_id, id, number)
WHERE d.tenant_id = g.tenant_id AND d.id = g.id AND d.attempt_count = g.number AND d.status = 'sending'
RETURNING 1

-- name: settle
-- Only the attempt that is under way settles: one that counts as lost has been dealt with. A webhook's own row is
-- touched only where its standing changes. SKIP LOCKED: what belongs to one that somebody holds, as a batch does that
-- changes it, is left aside for later, so that it holds up nothing of others.
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(
    CAST(:tenant_ids AS text[]), CAST(:ids AS text[]), CAST(:numbers AS int[]), CAST(:statuses AS text[]),
    CAST(:pauses AS float8[]), CAST(:reasons AS text[]), CAST(:interrupted AS boolean[]), CAST(:gone AS boolean[]),
    CAST(:status_codes AS int[]), CAST(:errors AS text[]), CAST(:responses AS text[]), CAST(:durations AS int[]),
    CAST(:started_ats AS timestamptz[]), CAST(:urls AS text[])
  ) AS g (tenant_id, id, number, status, pause, reason, interrupted, gone, status_code, error, response, duration_ms,
          started_at, url)
), under_way AS MATERIALIZED (
  SELECT g.*, d.webhook_id FROM given AS g JOIN webhook_deliveries AS d
    ON d.tenant_id = g.tenant_id AND d.id = g.id AND d.attempt_count = g.number AND d.status = 'sending'
), health AS MATERIALIZED (
  SELECT tenant_id, webhook_id, url, bool_or(status = 'delivered') AS well, bool_or(gone) AS gone FROM under_way
  WHERE NOT interrupted GROUP BY tenant_id, webhook_id, url
), due_to_change AS MATERIALIZED (
  SELECT w.tenant_id, w.id, h.well, h.gone,
         CASE WHEN h.gone THEN 'gone'
              WHEN NOT h.well AND {{failing_for_long}} THEN 'failing' END AS reason
  -- An address that it has left meanwhile does not speak for it.
  FROM health AS h JOIN webhooks AS w ON w.tenant_id = h.tenant_id AND w.id = h.webhook_id AND w.url = h.url
  WHERE w.enabled AND (h.gone OR h.well = (w.failing_since IS NOT NULL) OR NOT h.well AND {{failing_for_long}})
), locked AS MATERIALIZED (
  SELECT w.tenant_id, w.id FROM due_to_change AS n JOIN webhooks AS w ON w.tenant_id = n.tenant_id AND w.id = n.id
  ORDER BY w.tenant_id, w.id FOR NO KEY UPDATE OF w SKIP LOCKED
), changing AS MATERIALIZED (
  SELECT n.* FROM due_to_change AS n JOIN locked AS l ON l.tenant_id = n.tenant_id AND l.id = n.id
), aside AS MATERIALIZED (
  SELECT n.tenant_id, n.id FROM due_to_change AS n
  WHERE NOT EXISTS (SELECT FROM locked AS l WHERE l.tenant_id = n.tenant_id AND l.id = n.id)
), settled AS (
  UPDATE webhook_deliveries AS d SET
    status = g.status, lapses_at = NULL, last_status_code = g.status_code, last_error = g.error,
    due_at = CASE WHEN g.status = 'pending' THEN clock_timestamp() + make_interval(secs => g.pause) ELSE d.due_at END,
    ended_at = CASE WHEN g.status <> 'pending' THEN clock_timestamp() END,
    round_count = d.round_count - CAST(g.interrupted AS int),
    body = CASE WHEN g.status = 'dead' THEN {{kept_body}} ELSE d.body END
  FROM under_way AS g
  WHERE d.tenant_id = g.tenant_id AND d.id = g.id AND d.attempt_count = g.number AND d.status = 'sending'
    AND NOT EXISTS (SELECT FROM aside AS a WHERE a.tenant_id = g.tenant_id AND a.id = g.webhook_id)
  RETURNING g.*
), attempts AS (
  INSERT INTO webhook_attempts
    (tenant_id, delivery_id, number, started_at, duration_ms, status_code, error, response)
  SELECT tenant_id, id, number, started_at, duration_ms, status_code, error, response FROM settled
), letters AS (
  INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, last_error)
  SELECT tenant_id, 'webhook', id, reason, number, error FROM settled WHERE status = 'dead'
), changed AS (
  UPDATE webhooks AS t SET
    failing_since = CASE WHEN NOT c.well THEN COALESCE(t.failing_since, clock_timestamp()) END,
    enabled = c.reason IS NULL,
    disabled_at = CASE WHEN c.reason IS NOT NULL THEN clock_timestamp() END,
    disabled_reason = c.reason,
    -- What has not been handed out is missed from now on.
    after_position = CASE WHEN c.reason IS NULL THEN t.after_position ELSE GREATEST(t.after_position, (
      SELECT h.position FROM webhook_heads AS h WHERE h.tenant_id = t.tenant_id)) END,
    revision = t.revision + CAST(c.reason IS NOT NULL AS int),
    updated_at = CASE WHEN c.reason IS NULL THEN t.updated_at ELSE clock_timestamp() END
  FROM changing AS c WHERE t.tenant_id = c.tenant_id AND t.id = c.id AND t.enabled
  RETURNING t.*
), told AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT t.tenant_id, 'webhook.disabled', 'webhook', t.id, {{webhook}} FROM changed AS t WHERE NOT t.enabled
)
SELECT count(*) FILTER (WHERE status = 'pending') AS pending, count(*) FILTER (WHERE status = 'dead') AS dead,
       (SELECT count(*) FROM changed WHERE NOT enabled) AS disabled,
       ARRAY(
         SELECT u.id FROM under_way AS u JOIN aside AS a ON a.tenant_id = u.tenant_id AND a.id = u.webhook_id
       ) AS aside
FROM settled

-- name: lost_attempts
SELECT d.tenant_id, d.id, d.attempt_count AS number, d.round_count,
       d.lapses_at - make_interval(secs => CAST(:seconds AS float8)) AS started_at,
       (SELECT w.url FROM webhooks AS w WHERE w.tenant_id = d.tenant_id AND w.id = d.webhook_id) AS url
FROM webhook_deliveries AS d
WHERE d.status = 'sending' AND d.lapses_at <= statement_timestamp()
ORDER BY d.lapses_at LIMIT {{lost_max}}

-- name: unannounced
SELECT l.tenant_id, l.id, {{letter}} AS letter, l.subject,
       CASE WHEN octet_length(CAST(d.body AS text)) <= CAST(:bytes AS bigint) THEN d.body END AS event
FROM dead_letters AS l LEFT JOIN webhook_deliveries AS d ON d.tenant_id = l.tenant_id AND d.id = l.subject
WHERE l.announced_at IS NULL AND l.source = 'webhook'
ORDER BY l.created_at LIMIT {{letters_max}}

-- name: announced
UPDATE dead_letters AS l SET announced_at = clock_timestamp()
FROM unnest(CAST(:tenant_ids AS text[]), CAST(:ids AS text[])) AS g (tenant_id, id)
WHERE l.tenant_id = g.tenant_id AND l.id = g.id AND l.announced_at IS NULL
RETURNING 1

-- name: depths
-- What waits, counted up to a bound; the age of what is due only for endpoints that are well, as the others hold
-- theirs up by themselves.
WITH RECURSIVE lane AS (
  (SELECT d.tenant_id, d.webhook_id, d.due_at, 1 AS turn FROM webhook_deliveries AS d
   WHERE d.status = 'pending' ORDER BY d.tenant_id, d.webhook_id, d.due_at LIMIT 1)
  UNION ALL
  {{next_lane}}
  WHERE l.turn < 10000
)
SELECT (SELECT count(*) FROM (
          -- In the order of the index, so that it is read, and nothing of what is over.
          SELECT FROM webhook_deliveries WHERE status = 'pending'
          ORDER BY tenant_id, webhook_id, due_at LIMIT 100000) AS waiting) AS pending,
       (SELECT count(*) FROM (SELECT FROM outbox LIMIT 100000) AS waiting) AS outbox,
       (SELECT CAST(EXTRACT(epoch FROM statement_timestamp() - min(l.due_at)) AS float8)
        FROM lane AS l CROSS JOIN LATERAL (
          SELECT FROM webhooks AS w WHERE w.tenant_id = l.tenant_id AND w.id = l.webhook_id AND w.enabled
            AND w.failing_since IS NULL LIMIT 1
        ) AS well WHERE l.due_at <= statement_timestamp()) AS due_seconds,
       (SELECT CAST(EXTRACT(epoch FROM statement_timestamp() - o.occurred_at) AS float8)
        FROM outbox AS o ORDER BY o.number LIMIT 1) AS outbox_seconds
