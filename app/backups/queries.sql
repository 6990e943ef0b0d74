-- name: create
WITH job AS (
  INSERT INTO jobs (tenant_id, id, kind, arguments)
  SELECT :tenant_id, :job_id, :kind, jsonb_build_object('backup_id', CAST(:id AS text))
  RETURNING *
), made AS (
  INSERT INTO backups (tenant_id, id, label, sections, artifacts, recipients, job_id)
  SELECT :tenant_id, :id, :label, CAST(:sections AS text[]), :artifacts, CAST(:recipients AS text[]), job.id FROM job
  RETURNING *
), answer AS (
  SELECT 202 AS status, CAST(NULL AS bigint) AS etag, {{backup}} AS body
  FROM (SELECT b.*, {{standing}} FROM made AS b CROSS JOIN job AS j) AS t
)

-- name: get
SELECT t.state, t.job_id, t.manifest IS NOT NULL AS ready, t.manifest AS text, t.recipients IS NOT NULL AS encrypted, t.size_bytes,
  encode(t.digest, 'hex') AS digest, {{whole}} AS body
FROM {{source}} WHERE t.tenant_id = :tenant_id AND t.id = :id

-- name: plan
SELECT b.sections, b.artifacts, b.recipients FROM backups AS b WHERE b.tenant_id = :tenant_id AND b.id = :id

-- name: complete
-- No row where the backup was deleted meanwhile. The event comes after the snapshot, so it is in no file of it.
WITH done AS (
  UPDATE backups AS b SET manifest = :manifest, size_bytes = :size_bytes, digest = :digest,
    completed_at = clock_timestamp()
  WHERE b.tenant_id = :tenant_id AND b.id = :id RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT t.tenant_id, 'backup.completed', 'backup', t.id, {{backup}}
  FROM (SELECT b.*, {{standing}} FROM done AS b LEFT JOIN jobs AS j ON j.tenant_id = b.tenant_id AND j.id = b.job_id) AS t
)
SELECT id FROM done

-- name: verified
UPDATE backups AS b SET verified_at = clock_timestamp() WHERE b.tenant_id = :tenant_id AND b.id = :id RETURNING b.id

-- name: delete
-- Its job ends at once where it waits, and before its next look where it runs. The job is locked before the backup, as
-- by the end of that job.
WITH held AS MATERIALIZED (
  SELECT j.id FROM backups AS b JOIN jobs AS j ON j.tenant_id = b.tenant_id AND j.id = b.job_id
  WHERE b.tenant_id = :tenant_id AND b.id = :id FOR NO KEY UPDATE OF j
), gone AS (
  DELETE FROM backups WHERE tenant_id = :tenant_id AND id = :id AND (SELECT count(*) FROM held) >= 0
  RETURNING job_id, recipients IS NOT NULL AS encrypted
), cancelled AS (
  UPDATE jobs AS j SET
    cancel_requested_at = COALESCE(j.cancel_requested_at, clock_timestamp()),
    state = CASE WHEN j.state = 'queued' THEN 'cancelled' ELSE j.state END,
    ended_at = CASE WHEN j.state = 'queued' THEN clock_timestamp() END,
    lease_expires_at = CASE WHEN j.runner_id IS NULL THEN LEAST(j.lease_expires_at, clock_timestamp())
                       ELSE j.lease_expires_at END
  FROM gone WHERE j.tenant_id = :tenant_id AND j.id = gone.job_id AND j.state IN ('queued', 'running')
)
, answer AS (SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM gone)

-- name: left_over
-- Files of no backup: of one that was deleted, or whose job ended without it; and what was sent to be restored by a job
-- that has ended.
SELECT g.place
FROM unnest(CAST(:places AS integer[]), CAST(:tenant_ids AS text[]), CAST(:kinds AS text[]), CAST(:ids AS text[]))
  AS g (place, tenant_id, kind, id)
LEFT JOIN backups AS b ON g.kind = 'backup' AND b.tenant_id = g.tenant_id AND b.id = g.id
LEFT JOIN jobs AS j ON j.tenant_id = g.tenant_id AND j.id = CASE g.kind WHEN 'backup' THEN b.job_id ELSE g.id END
WHERE b.manifest IS NULL AND COALESCE(j.state NOT IN ('queued', 'running'), true)
