-- name: create
WITH made AS (
  INSERT INTO jobs (tenant_id, id, kind, arguments) SELECT :tenant_id, :id, :kind, CAST(:arguments AS jsonb)
  RETURNING *
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{job}} AS body FROM made AS t
)

-- name: under_way
WITH found AS (
  SELECT * FROM jobs WHERE tenant_id = :tenant_id AND kind = :kind AND state IN ('queued', 'running')
    AND arguments = CAST(:arguments AS jsonb) AND cancel_requested_at IS NULL
  ORDER BY created_at, id LIMIT 1
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{job}} AS body FROM found AS t
)

-- name: get
SELECT {{job}} AS body, t.state FROM jobs AS t WHERE t.tenant_id = :tenant_id AND t.id = :id

-- name: cancel
-- What waits ends at once; what runs is asked to stop, which its runner sees before its next step. One that waits for
-- something that is away is taken up at once.
WITH changed AS (
  UPDATE jobs AS t SET
    cancel_requested_at = COALESCE(t.cancel_requested_at, clock_timestamp()),
    state = CASE WHEN t.state = 'queued' THEN 'cancelled' ELSE t.state END,
    ended_at = CASE WHEN t.state = 'queued' THEN clock_timestamp() END,
    lease_expires_at = CASE WHEN t.runner_id IS NULL THEN LEAST(t.lease_expires_at, clock_timestamp())
                       ELSE t.lease_expires_at END
  WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.state IN ('queued', 'running')
  RETURNING *
), answer AS (
  SELECT 200 AS status, CAST(NULL AS bigint) AS etag, {{job}} AS body FROM changed AS t
  UNION ALL
  SELECT 200, NULL, {{job}} FROM jobs AS t WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.state = 'cancelled'
    AND NOT EXISTS (SELECT FROM changed)
)

-- name: claim
-- SKIP LOCKED: runners pass each other. A runner that was silent beyond its lease, by the database's clock, has lost
-- the job; that counts as an attempt, so a job that kills its runners ends too. Those of a tenant that is closed wait,
-- but for the backup that is made before it leaves, and for the secrets that are cut before a backup is made.
WITH free AS (
  SELECT tenant_id, id FROM jobs AS j
  WHERE state IN ('queued', 'running') AND (lease_expires_at IS NULL OR lease_expires_at <= clock_timestamp())
    AND (kind = ANY (CAST(:kinds AS text[]))) <> CAST(:but AS boolean)
    AND (kind IN ('backup.create', 'documents.cut') OR EXISTS (
      SELECT FROM tenants AS n WHERE n.tenant_id = j.tenant_id AND n.closed_at IS NULL))
  ORDER BY COALESCE(lease_expires_at, created_at), id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE jobs AS t SET
  state = 'running', runner_id = :runner_id, started_at = COALESCE(t.started_at, clock_timestamp()),
  lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds),
  attempt_count = t.attempt_count + CASE WHEN t.state = 'queued' OR t.runner_id IS NOT NULL THEN 1 ELSE 0 END
FROM free WHERE t.tenant_id = free.tenant_id AND t.id = free.id
RETURNING t.tenant_id, t.id, t.kind, t.arguments, t.attempt_count

-- name: current
SELECT arguments, resume_from, cancel_requested_at FROM jobs
WHERE tenant_id = :tenant_id AND id = :id AND runner_id = :runner_id AND state = 'running'

-- name: advance
-- In the transaction of the step's effect: both or neither. No row when another runner has taken the job. Attempts are
-- counted from the last progress, and so is what was away meanwhile.
UPDATE jobs AS t SET
  resume_from = CAST(:resume_from AS jsonb), progress_done = t.progress_done + :done,
  progress_total = COALESCE(CAST(:total AS bigint), t.progress_total),
  counts = (SELECT COALESCE(jsonb_object_agg(key, total), '{}') FROM (
    SELECT key, sum(CAST(value AS numeric)) AS total
    FROM (SELECT * FROM jsonb_each(t.counts) UNION ALL SELECT * FROM jsonb_each(CAST(:counts AS jsonb))) AS both_counts
    GROUP BY key) AS added),
  report = COALESCE(CAST(:report AS jsonb), t.report), attempt_count = 1, error = NULL,
  state = CASE WHEN :finished THEN 'completed' ELSE 'running' END,
  ended_at = CASE WHEN :finished THEN clock_timestamp() END,
  runner_id = CASE WHEN :finished THEN NULL ELSE t.runner_id END,
  lease_expires_at = CASE WHEN :finished THEN NULL
                     ELSE clock_timestamp() + make_interval(secs => :lease_seconds) END
WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.id

-- name: tell
-- Of a job that is carried out as a whole: what stands here is how far its last runner is, so it is no sum, and a runner
-- that is killed every time makes no progress by it.
UPDATE jobs AS t SET progress_done = :done, progress_total = COALESCE(CAST(:total AS bigint), t.progress_total),
  counts = CAST(:counts AS jsonb)
WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.id

-- name: finish
UPDATE jobs AS t SET
  state = :state, error = CAST(:error AS jsonb), ended_at = clock_timestamp(), runner_id = NULL, lease_expires_at = NULL
WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.id

-- name: release
-- Another runner, or this one later, goes on where the job stands.
UPDATE jobs AS t SET runner_id = NULL, lease_expires_at = clock_timestamp()
WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.id

-- name: release_all
UPDATE jobs AS t SET runner_id = NULL, lease_expires_at = clock_timestamp()
WHERE t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.id

-- name: renew
UPDATE jobs AS t SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease_seconds)
WHERE t.tenant_id = :tenant_id AND t.id = :id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.arguments, t.resume_from, t.cancel_requested_at

-- name: put_off
-- What is away is no fault of the job: its attempts are not counted, but the time since the first of them in a row. The
-- pause doubles with each, up to the longest.
WITH told AS (
  SELECT j.tenant_id, j.id, COALESCE(CAST(j.error ->> 'since' AS timestamptz), clock_timestamp()) AS since,
    COALESCE(CAST(j.error ->> 'tries' AS int), 0) + 1 AS tries
  FROM jobs AS j WHERE j.tenant_id = :tenant_id AND j.id = :id AND j.runner_id = :runner_id AND j.state = 'running'
), judged AS (
  SELECT told.*, clock_timestamp() - since > make_interval(secs => :patience_seconds) AS over,
    LEAST(:pause_seconds_max, :pause_seconds * power(2, LEAST(tries, 30) - 1)) AS pause FROM told
)
UPDATE jobs AS t SET
  state = CASE WHEN j.over THEN 'failed' ELSE 'running' END,
  ended_at = CASE WHEN j.over THEN clock_timestamp() END,
  error = CAST(:error AS jsonb)
    || jsonb_build_object('since', {{since}}, 'tries', j.tries),
  runner_id = NULL,
  lease_expires_at = CASE WHEN NOT j.over THEN clock_timestamp() + make_interval(secs => j.pause) END
FROM judged AS j WHERE t.tenant_id = j.tenant_id AND t.id = j.id AND t.runner_id = :runner_id AND t.state = 'running'
RETURNING t.state
