-- name: lock_run
-- FOR NO KEY UPDATE: who opens generations of one run takes turns, so "the next number" is one; what only refers to
-- the run passes.
SELECT r.status FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :run_id FOR NO KEY UPDATE

-- name: create
-- A generation is the same where the id and the number that are given are its own, and its other fields were.
WITH stored AS (
  SELECT g.* FROM generations AS g
  WHERE g.tenant_id = :tenant_id AND g.run_id = :run_id AND g.digest = :digest
    AND (CAST(:given_id AS text) IS NOT NULL OR CAST(:number AS bigint) IS NOT NULL)
    AND (CAST(:given_id AS text) IS NULL OR g.id = :given_id)
    AND (CAST(:number AS bigint) IS NULL OR g.number = :number)
), next AS (
  SELECT COALESCE(CAST(:number AS bigint), (SELECT max(number) + 1 FROM generations
    WHERE tenant_id = :tenant_id AND run_id = :run_id), 0) AS number
), created AS (
  INSERT INTO generations (tenant_id, id, run_id, number, started_at, comment, feedback, digest)
  SELECT :tenant_id, :id, :run_id, n.number, COALESCE(:started_at, clock_timestamp()), :comment, :feedback, :digest
  FROM next AS n WHERE n.number <= :number_max AND :may_open AND NOT EXISTS (SELECT FROM stored)
  ON CONFLICT DO NOTHING RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.started', 'generation', g.id, {{generation}} FROM created AS g
), answer AS (
  SELECT 201 AS status, g.revision AS etag, {{generation}} AS body FROM created AS g
  UNION ALL
  SELECT 200, g.revision, {{generation}} FROM stored AS g
)

-- name: taken
-- Whose id or number it is that a create asked for.
SELECT g.id, g.number FROM generations AS g
WHERE g.tenant_id = :tenant_id AND (g.id = :id OR g.run_id = :run_id AND g.number = :number) ORDER BY g.id LIMIT 1

-- name: last_number
SELECT max(g.number) AS number FROM generations AS g WHERE g.tenant_id = :tenant_id AND g.run_id = :run_id

-- name: unchanged
-- What a change without members answers.
WITH answer AS (
  SELECT 200 AS status, g.revision AS etag, {{generation}} AS body FROM generations AS g
  WHERE g.tenant_id = :tenant_id AND g.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR g.revision = ANY (:if_match))
)

-- name: patch
WITH changed AS (
  UPDATE generations AS g SET
    comment = CASE WHEN :set_comment THEN :comment ELSE g.comment END,
    feedback = CASE WHEN :set_feedback THEN :feedback ELSE g.feedback END,
    revision = g.revision + 1
  WHERE g.tenant_id = :tenant_id AND g.id = :id
    AND (CAST(:if_match AS bigint[]) IS NULL OR g.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.updated', 'generation', g.id, {{generation}} FROM changed AS g
), answer AS (
  SELECT 200 AS status, g.revision AS etag, {{generation}} AS body FROM changed AS g
)

-- name: complete
-- The first completion stays; repeating it exactly gives the row again. Versions, the best one too, are only referred to.
WITH changed AS (
  UPDATE generations AS g SET
    ended_at = COALESCE(:ended_at, GREATEST(clock_timestamp(), g.started_at)), interrupted_at = NULL,
    end_digest = :digest,
    best_version_id = :best_version_id,
    comment = CASE WHEN :set_comment THEN :comment ELSE g.comment END,
    feedback = CASE WHEN :set_feedback THEN :feedback ELSE g.feedback END,
    best_fitness = :best_fitness, worst_fitness = :worst_fitness, avg_fitness = :avg_fitness,
    fitness_std_dev = :fitness_std_dev, evaluation_cost = :evaluation_cost,
    evaluations_per_hour = :evaluations_per_hour, improvement_rate = :improvement_rate, revision = g.revision + 1
  WHERE g.tenant_id = :tenant_id AND g.id = :id AND g.ended_at IS NULL
    AND (CAST(:ended_at AS timestamptz) IS NULL OR :ended_at >= g.started_at)
    AND (CAST(:if_match AS bigint[]) IS NULL OR g.revision = ANY (:if_match))
  RETURNING *
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.completed', 'generation', g.id, {{generation}} FROM changed AS g
), answer AS (
  SELECT 200 AS status, g.revision AS etag, {{generation}} AS body FROM changed AS g
  UNION ALL
  SELECT 200, g.revision, {{generation}} FROM generations AS g
  WHERE g.tenant_id = :tenant_id AND g.id = :id AND g.end_digest = :digest
)

-- name: standing
SELECT g.started_at, g.ended_at, g.revision, g.end_digest FROM generations AS g
WHERE g.tenant_id = :tenant_id AND g.id = :id

-- name: lock
-- FOR NO KEY UPDATE: two who replace the members take turns, so the members are those of one of them.
SELECT g.revision FROM generations AS g WHERE g.tenant_id = :tenant_id AND g.id = :id FOR NO KEY UPDATE

-- name: missing_versions
SELECT t.id FROM unnest(CAST(:ids AS text[])) AS t (id)
WHERE NOT EXISTS (SELECT FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.id = t.id COLLATE "C")
ORDER BY t.id LIMIT 100

-- name: put_members
-- The members that it has already change nothing. Scores are compared as they are shown: 0 and -0 are two texts.
WITH given AS MATERIALIZED (
  SELECT m.version_id COLLATE "C" AS version_id, m.rank, m.fitness
  FROM unnest(CAST(:ids AS text[]), CAST(:ranks AS bigint[]), CAST(:fitnesses AS float8[]))
    AS m (version_id, rank, fitness)
), wanted AS MATERIALIZED (
  SELECT m.version_id, m.rank, CAST(m.fitness AS text) FROM given AS m
), had AS MATERIALIZED (
  SELECT m.version_id, m.rank, CAST(m.fitness AS text) FROM generation_members AS m
  WHERE m.tenant_id = :tenant_id AND m.generation_id = :id
), changed AS (
  UPDATE generations AS g SET revision = g.revision + 1
  WHERE g.tenant_id = :tenant_id AND g.id = :id
    AND EXISTS ((TABLE wanted EXCEPT TABLE had) UNION ALL (TABLE had EXCEPT TABLE wanted))
  RETURNING *
), removed AS (
  DELETE FROM generation_members AS m USING changed AS g
  WHERE m.tenant_id = g.tenant_id AND m.generation_id = g.id AND m.version_id <> ALL (CAST(:ids AS text[]))
), written AS (
  INSERT INTO generation_members AS m (tenant_id, generation_id, version_id, rank, fitness)
  SELECT g.tenant_id, g.id, m.version_id, m.rank, m.fitness FROM changed AS g, given AS m
  ON CONFLICT (tenant_id, generation_id, version_id) DO UPDATE SET rank = excluded.rank, fitness = excluded.fitness
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.updated', 'generation', g.id, {{generation}} FROM changed AS g
), answer AS (
  SELECT 200 AS status, g.revision AS etag, json_build_object('items', COALESCE(
    (SELECT json_agg({{member}} ORDER BY m.rank, m.fitness DESC NULLS LAST, m.version_id) FROM given AS m), '[]')) AS body
  FROM (
    SELECT c.revision FROM changed AS c
    UNION ALL
    SELECT g.revision FROM generations AS g
    WHERE g.tenant_id = :tenant_id AND g.id = :id AND NOT EXISTS (SELECT FROM changed)
  ) AS g
)

-- fragment: all_members
COALESCE((SELECT json_agg({{member}} ORDER BY m.rank, m.fitness DESC NULLS LAST, m.version_id)
  FROM generation_members AS m WHERE m.tenant_id = g.tenant_id AND m.generation_id = g.id), '[]')

-- name: members
SELECT g.revision, json_build_object('items', {{all_members}}) AS body
FROM generations AS g WHERE g.tenant_id = :tenant_id AND g.id = :id

-- name: get
SELECT g.revision, {{generation_seen}} AS body FROM generations AS g WHERE g.tenant_id = :tenant_id AND g.id = :id

-- name: get_by_number
SELECT g.revision, {{generation_seen}} AS body FROM generations AS g
WHERE g.tenant_id = :tenant_id AND g.run_id = :run_id AND g.number = :number

-- name: last_completed
SELECT g.revision, {{generation_seen}} AS body,
  {{all_members}} AS members,
  CASE WHEN :checkpoint THEN (SELECT c.state FROM run_checkpoints AS c
   WHERE c.tenant_id = g.tenant_id AND c.run_id = g.run_id) END AS checkpoint
FROM generations AS g
WHERE g.tenant_id = :tenant_id AND g.run_id = :run_id AND g.ended_at IS NOT NULL
ORDER BY g.number DESC LIMIT 1

-- name: run_exists
SELECT r.id FROM evolution_runs AS r WHERE r.tenant_id = :tenant_id AND r.id = :run_id
