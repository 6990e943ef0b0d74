-- fragment: lapsed
-- What Redis may carry counts as carried, unless it is known not to be: `over_at` is the end that had passed before Redis
-- was looked at, and no renewal of this token lay there. Whoever renewed since has moved that end. The instant is that of
-- the statement's begin: the same for all of its parts, and never later than now.
(l.expires_at IS NOT DISTINCT FROM CAST(:over_at AS timestamptz) OR GREATEST(l.expires_at, l.carried_until) <= statement_timestamp())

-- name: acquire
-- FOR UPDATE: what is being written under the old token is committed before it falls.
WITH chosen AS MATERIALIZED (
  SELECT l.tenant_id, l.name FROM leases AS l
  WHERE l.tenant_id = :tenant_id AND l.name = :name AND (l.holder IS NULL OR {{lapsed}})
  FOR UPDATE
), taken AS (
  UPDATE leases AS l SET holder = :holder, fencing_token = l.fencing_token + 1, lease_seconds = CAST(:lease_seconds AS integer),
    acquired_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => CAST(:lease_seconds AS integer)),
    carried_until = NULL
  FROM chosen AS c WHERE l.tenant_id = c.tenant_id AND l.name = c.name
  RETURNING l.*
), made AS (
  INSERT INTO leases AS l (tenant_id, name, holder, fencing_token, lease_seconds, expires_at)
  SELECT :tenant_id, :name, :holder, 1, CAST(:lease_seconds AS integer), clock_timestamp() + make_interval(secs => CAST(:lease_seconds AS integer))
  WHERE NOT EXISTS (SELECT FROM leases AS l WHERE l.tenant_id = :tenant_id AND l.name = :name)
  ON CONFLICT DO NOTHING RETURNING l.*
), extended AS (
  -- Who holds it already asks again: the answer of the first try may be lost, and nobody was in between.
  UPDATE leases AS l SET lease_seconds = CAST(:lease_seconds AS integer),
    expires_at = clock_timestamp() + make_interval(secs => CAST(:lease_seconds AS integer))
  WHERE l.tenant_id = :tenant_id AND l.name = :name AND l.holder = :holder AND NOT {{lapsed}}
  RETURNING l.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{lease}} AS body
  FROM (SELECT * FROM taken UNION ALL SELECT * FROM made UNION ALL SELECT * FROM extended) AS l
)

-- name: renew
-- Also where it has lapsed: as long as nobody took it, nobody was in between.
WITH changed AS (
  UPDATE leases AS l SET expires_at = clock_timestamp() + make_interval(secs => l.lease_seconds),
    carried_until = CASE WHEN :lengths > 0
      THEN clock_timestamp() + make_interval(secs => l.lease_seconds * CAST(:lengths AS integer))
      ELSE l.carried_until END
  WHERE l.tenant_id = :tenant_id AND l.name = :name AND l.holder = :holder AND l.fencing_token = :fencing_token
  RETURNING l.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{lease}} AS body FROM changed AS l
)

-- name: release
-- FOR UPDATE: what is being written under the token is committed before. Repeating it answers the same.
WITH chosen AS MATERIALIZED (
  SELECT l.tenant_id, l.name FROM leases AS l
  WHERE l.tenant_id = :tenant_id AND l.name = :name AND l.holder = :holder AND l.fencing_token = :fencing_token
  FOR UPDATE
), changed AS (
  UPDATE leases AS l SET holder = NULL, expires_at = clock_timestamp(), carried_until = NULL
  FROM chosen AS c WHERE l.tenant_id = c.tenant_id AND l.name = c.name
  RETURNING l.*
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{lease}} AS body FROM changed AS l
  UNION ALL
  SELECT 200, NULL, {{lease}} FROM leases AS l
  WHERE l.tenant_id = :tenant_id AND l.name = :name AND l.holder IS NULL AND l.fencing_token = :fencing_token
    AND NOT EXISTS (SELECT FROM changed)
)

-- name: get
SELECT l.holder, l.fencing_token, l.expires_at, {{expires_at}} AS shown_expires_at,
       l.expires_at <= statement_timestamp() AS over,
       GREATEST(l.expires_at, l.carried_until) <= statement_timestamp() AS lapsed, {{lease}} AS body
FROM leases AS l WHERE l.tenant_id = :tenant_id AND l.name = :name

-- name: free
-- Those that may be free now. One that Redis carries is tried in vain, once a second.
SELECT w.tenant_id, w.name
FROM unnest(CAST(:tenant_ids AS text[]), CAST(:names AS text[])) AS w (tenant_id, name)
LEFT JOIN leases AS l ON l.tenant_id = w.tenant_id AND l.name = w.name
WHERE l.holder IS NULL OR l.expires_at <= statement_timestamp()
