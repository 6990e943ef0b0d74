-- fragment: policy
-- Every kind, in their order; `standing` are the rules as they are.
json_build_object('kinds', (
  SELECT json_object_agg(k.kind, json_build_object(
    'rule', CASE WHEN r.kind IS NOT NULL THEN {{rule}} END,
    'last_success_at', {{last_success_at}}, 'last_counts', r.last_counts, 'last_error', r.last_error) ORDER BY k.place)
  FROM unnest(CAST(:all_kinds AS text[])) WITH ORDINALITY AS k (kind, place)
  LEFT JOIN standing AS r ON r.kind = k.kind), 'would_leave', CAST(:would_leave AS json))

-- name: put
-- Who has no rules yet stands at revision 0.
WITH policy AS (
  INSERT INTO retention_policies AS p (tenant_id)
  SELECT :tenant_id WHERE CAST(:if_match AS bigint[]) IS NULL OR 0 = ANY (:if_match)
    OR EXISTS (SELECT FROM retention_policies WHERE tenant_id = :tenant_id)
  ON CONFLICT (tenant_id) DO UPDATE SET revision = p.revision + 1, updated_at = clock_timestamp()
  WHERE CAST(:if_match AS bigint[]) IS NULL OR p.revision = ANY (:if_match)
  RETURNING p.revision
), removed AS (
  DELETE FROM retention_rules AS r USING policy
  WHERE r.tenant_id = :tenant_id AND r.kind = ANY (CAST(:removed AS text[]))
), put AS (
  INSERT INTO retention_rules AS r
    (tenant_id, kind, max_age_days, keep_latest, keep_pinned, keep_best, keep_failed)
  SELECT :tenant_id, g.kind, g.max_age_days, g.keep_latest, g.keep_pinned, g.keep_best, g.keep_failed
  FROM policy, unnest(CAST(:kinds AS text[]), CAST(:max_age_days AS bigint[]), CAST(:keep_latest AS bigint[]),
    CAST(:keep_pinned AS boolean[]), CAST(:keep_best AS boolean[]), CAST(:keep_failed AS boolean[]))
    AS g (kind, max_age_days, keep_latest, keep_pinned, keep_best, keep_failed)
  ON CONFLICT (tenant_id, kind) DO UPDATE SET max_age_days = excluded.max_age_days,
    keep_latest = excluded.keep_latest, keep_pinned = excluded.keep_pinned, keep_best = excluded.keep_best,
    keep_failed = excluded.keep_failed, revision = r.revision + 1, updated_at = clock_timestamp()
  RETURNING r.*
), standing AS (
  SELECT * FROM put UNION ALL
  SELECT r.* FROM retention_rules AS r WHERE r.tenant_id = :tenant_id
    AND r.kind <> ALL (COALESCE(CAST(:kinds AS text[]), '{}'))
    AND r.kind <> ALL (COALESCE(CAST(:removed AS text[]), '{}'))
), answer AS (
  SELECT 200 AS status, p.revision AS etag, {{policy}} AS body FROM policy AS p
)

-- name: get
WITH standing AS (
  SELECT * FROM retention_rules WHERE tenant_id = :tenant_id
), policy AS (
  SELECT COALESCE(max(revision), 0) AS revision FROM retention_policies WHERE tenant_id = :tenant_id
), answer AS (
  SELECT 200 AS status, p.revision AS etag, {{policy}} AS body FROM policy AS p
  WHERE CAST(:if_match AS bigint[]) IS NULL OR p.revision = ANY (:if_match)
)

-- name: rules
SELECT kind, max_age_days, keep_latest, keep_pinned, keep_best, keep_failed FROM retention_rules
WHERE tenant_id = :tenant_id ORDER BY kind

-- name: revision
SELECT COALESCE(max(revision), 0) AS revision FROM retention_policies WHERE tenant_id = :tenant_id

-- name: succeeded
UPDATE retention_rules SET last_success_at = clock_timestamp(), last_counts = CAST(:counts AS jsonb), last_error = NULL
WHERE tenant_id = :tenant_id AND kind = :kind RETURNING kind

-- name: failed
UPDATE retention_rules SET last_error = :error WHERE tenant_id = :tenant_id AND kind = :kind RETURNING kind

-- name: begin_runs
-- One at a time for each tenant, and not again within half the time of a look, whichever process looks.
INSERT INTO jobs (tenant_id, id, kind, arguments)
SELECT t.tenant_id, 'job_' || replace(CAST(uuidv7() AS text), '-', ''), 'retention.run',
  jsonb_build_object('scheduled', true, 'dry_run', false, 'kinds', r.kinds)
FROM (
  SELECT tenant_id, array_agg(kind ORDER BY kind) AS kinds FROM retention_rules WHERE max_age_days IS NOT NULL
  GROUP BY tenant_id
) AS r JOIN tenants AS t ON t.tenant_id = r.tenant_id
WHERE t.closed_at IS NULL AND NOT EXISTS (
  SELECT FROM jobs AS j WHERE j.tenant_id = t.tenant_id AND j.kind = 'retention.run'
    AND j.arguments ->> 'dry_run' = 'false'
    AND (j.state IN ('queued', 'running')
      OR j.created_at > clock_timestamp() - make_interval(secs => CAST(:pause_seconds AS float8))))
ORDER BY t.tenant_id LIMIT CAST(:limit AS bigint)
RETURNING id

-- name: forget_runs
-- Of those that the timetable began the last one stays, and what failed.
DELETE FROM jobs WHERE tenant_id = :tenant_id AND kind = 'retention.run' AND state = 'completed'
  AND arguments ->> 'scheduled' = 'true' AND id <> :id
RETURNING id

-- name: followed_at
-- When the rules of all tenants were last followed to their end.
SELECT CAST(EXTRACT(epoch FROM min(COALESCE(r.last_success_at, r.created_at))) AS float8) AS at
FROM retention_rules AS r JOIN tenants AS t ON t.tenant_id = r.tenant_id
WHERE r.max_age_days IS NOT NULL AND t.closed_at IS NULL
