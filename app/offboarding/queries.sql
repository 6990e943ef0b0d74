-- name: begin
-- Whoever comes second waits for the tenant's row, finds nothing to make, and looks again. The work begins once every
-- process must have heard of it.
WITH closed AS (
  UPDATE tenants AS t SET closed_at = COALESCE(t.closed_at, clock_timestamp()),
    revision = t.revision + CAST(t.closed_at IS NULL AS int), updated_at = clock_timestamp()
  WHERE t.tenant_id = :tenant_id
    AND (t.closed_at IS NOT NULL OR CAST(:if_match AS bigint[]) IS NULL OR t.revision = ANY (:if_match))
  RETURNING t.tenant_id
), made AS (
  INSERT INTO offboardings (tenant_id, id, state, lease_expires_at)
  SELECT tenant_id, :id, :state, clock_timestamp() + make_interval(secs => CAST(:seconds AS float8)) FROM closed
  ON CONFLICT (tenant_id) WHERE state <> 'completed' DO NOTHING RETURNING *
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{offboarding}} AS body FROM (
    SELECT * FROM made
    UNION ALL
    SELECT * FROM offboardings WHERE tenant_id = :tenant_id AND state <> 'completed'
  ) AS o LIMIT 1
)

-- name: is_there
SELECT closed_at, revision FROM tenants WHERE tenant_id = :tenant_id

-- name: get
SELECT o.tenant_id, o.backup_id, o.state, o.receipt, {{offboarding}} AS body FROM offboardings AS o WHERE o.id = :id

-- name: open
SELECT {{offboarding}} AS body FROM offboardings AS o WHERE o.tenant_id = :tenant_id AND o.state <> 'completed'

-- name: lacks_export
-- Locked: of two who ask at once one has the backup made.
SELECT 1 AS found FROM offboardings WHERE tenant_id = :tenant_id AND state = 'exporting' AND backup_id IS NULL FOR UPDATE

-- name: set_export
-- It is made of all that was written, so it begins no earlier than the removal would.
WITH exporting AS (
  UPDATE offboardings SET backup_id = :backup_id WHERE tenant_id = :tenant_id AND state = 'exporting'
  RETURNING tenant_id, backup_id, lease_expires_at
)
UPDATE jobs AS j SET lease_expires_at = o.lease_expires_at
FROM exporting AS o JOIN backups AS b ON b.tenant_id = o.tenant_id AND b.id = o.backup_id
WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id RETURNING j.id

-- name: confirm
WITH confirmed AS (
  UPDATE offboardings AS o SET state = 'closed', lease_expires_at = clock_timestamp()
  WHERE o.id = :id AND o.state = 'exporting' AND EXISTS (
    SELECT FROM backups AS b WHERE b.tenant_id = o.tenant_id AND b.id = o.backup_id AND b.manifest IS NOT NULL)
  RETURNING *
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{offboarding}} AS body FROM (
    SELECT * FROM confirmed
    UNION ALL
    SELECT * FROM offboardings WHERE id = :id AND state <> 'exporting'
  ) AS o
)

-- name: cancel
WITH gone AS (
  DELETE FROM offboardings WHERE id = :id AND state = 'exporting' RETURNING tenant_id
), opened AS (
  UPDATE tenants AS t SET closed_at = NULL, revision = t.revision + 1, updated_at = clock_timestamp()
  FROM gone WHERE t.tenant_id = gone.tenant_id
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body, ARRAY[tenant_id] AS moved FROM gone
)

-- name: claim
-- SKIP LOCKED: two processes take two of them. Whoever is silent for longer than its lease has lost it.
WITH free AS (
  SELECT tenant_id, id FROM offboardings
  WHERE state IN ('closed', 'deleting', 'verifying')
    AND (lease_expires_at IS NULL OR lease_expires_at <= clock_timestamp())
  ORDER BY COALESCE(lease_expires_at, created_at), id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE offboardings AS o SET
  runner_id = :runner_id, attempt_count = o.attempt_count + 1,
  state = CASE WHEN o.state = 'closed' THEN 'deleting' ELSE o.state END,
  lease_expires_at = clock_timestamp() + make_interval(secs => CAST(:lease_seconds AS float8))
FROM free WHERE o.tenant_id = free.tenant_id AND o.id = free.id
RETURNING o.tenant_id, o.id, o.state, o.attempt_count

-- name: advance
-- In the transaction of what is counted: both or neither. No row where another process has taken it.
UPDATE offboardings AS o SET
  counts = (SELECT COALESCE(jsonb_object_agg(key, total), '{}') FROM (
    SELECT key, sum(CAST(value AS numeric)) AS total
    FROM (SELECT * FROM jsonb_each(o.counts) UNION ALL SELECT * FROM jsonb_each(CAST(:counts AS jsonb))) AS both_counts
    GROUP BY key) AS added),
  attempt_count = 1, error = NULL,
  lease_expires_at = clock_timestamp() + make_interval(secs => CAST(:lease_seconds AS float8))
WHERE o.tenant_id = :tenant_id AND o.id = :id AND o.runner_id = :runner_id AND o.state <> 'completed'
RETURNING o.id

-- name: wait
-- Nobody goes on with it before so long; `state` says with what.
UPDATE offboardings AS o SET
  state = COALESCE(CAST(:state AS text), o.state), error = CAST(:error AS jsonb), runner_id = NULL,
  lease_expires_at = clock_timestamp() + make_interval(secs => CAST(:seconds AS float8))
WHERE o.tenant_id = :tenant_id AND o.id = :id AND o.runner_id = :runner_id AND o.state <> 'completed'
RETURNING o.id

-- name: release_all
UPDATE offboardings AS o SET runner_id = NULL, lease_expires_at = clock_timestamp()
WHERE o.runner_id = :runner_id AND o.state <> 'completed'
RETURNING o.id

-- name: oldest
-- What waits for the operator is not counted.
SELECT CAST(EXTRACT(epoch FROM clock_timestamp() - min(created_at)) AS float8) AS seconds
FROM offboardings WHERE state IN ('closed', 'deleting', 'verifying')

-- name: now
SELECT o.counts, {{created_at}} AS started_at, {{ended_at}} AS ended_at
FROM (SELECT *, clock_timestamp() AS at FROM offboardings) AS o WHERE o.tenant_id = :tenant_id AND o.id = :id

-- name: complete
UPDATE offboardings AS o SET
  tenant_id = 'sha256:' || CAST(:tenant_sha256 AS text), state = 'completed', receipt = :receipt, error = NULL,
  backup_id = NULL, runner_id = NULL, lease_expires_at = NULL, ended_at = CAST(CAST(:ended_at AS text) AS timestamptz)
WHERE o.tenant_id = :tenant_id AND o.id = :id AND o.runner_id = :runner_id AND o.state = 'verifying'
RETURNING o.id
