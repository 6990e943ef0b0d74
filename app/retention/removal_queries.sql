-- name: weigh_invocations
-- How many rows are below each, counted no further than matters.
SELECT g.key, (
    SELECT count(*) FROM (
      SELECT FROM artifact_references WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM contexts WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM checkpoints WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM messages WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM evaluations WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM actions WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM node_invocations WHERE tenant_id = :tenant_id AND invocation_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  AS weight
FROM unnest(CAST(:keys AS text[])) WITH ORDINALITY AS g (key, place) ORDER BY g.place

-- name: weigh_conversations
SELECT g.key, (
    SELECT count(*) FROM (
      SELECT FROM conversation_batches WHERE tenant_id = :tenant_id AND number = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM attachments AS a JOIN content_chunks AS c ON c.tenant_id = a.tenant_id
        AND c.content_number = a.content_number
      WHERE a.tenant_id = :tenant_id AND a.path_number = g.key LIMIT CAST(:most AS bigint)) AS below)
  AS weight
FROM unnest(CAST(:keys AS bigint[])) WITH ORDINALITY AS g (key, place) ORDER BY g.place

-- name: weigh_versions
SELECT g.key, (
    SELECT count(*) FROM (
      SELECT FROM node_memories WHERE tenant_id = :tenant_id AND version_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM node_versions WHERE tenant_id = :tenant_id AND version_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM generation_members WHERE tenant_id = :tenant_id AND version_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  AS weight
FROM unnest(CAST(:keys AS text[])) WITH ORDINALITY AS g (key, place) ORDER BY g.place

-- name: weigh_evolution_runs
SELECT g.key, (
    SELECT count(*) FROM (
      SELECT FROM generations AS n JOIN generation_members AS m
        ON m.tenant_id = n.tenant_id AND m.generation_id = n.id
      WHERE n.tenant_id = :tenant_id AND n.run_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  + (SELECT count(*) FROM (
      SELECT FROM generations WHERE tenant_id = :tenant_id AND run_id = g.key LIMIT CAST(:most AS bigint)) AS below)
  AS weight
FROM unnest(CAST(:keys AS text[])) WITH ORDINALITY AS g (key, place) ORDER BY g.place

-- name: delete_generation_members
WITH gone AS (
  DELETE FROM generation_members AS t USING (
    SELECT m.ctid AS place FROM generations AS n JOIN generation_members AS m
      ON m.tenant_id = n.tenant_id AND m.generation_id = n.id
    WHERE n.tenant_id = :tenant_id AND n.run_id = ANY (CAST(:keys AS text[])) LIMIT CAST(:most AS bigint)
  ) AS piece
  WHERE t.ctid = piece.place RETURNING 1
)
SELECT count(*) AS n FROM gone

-- name: delete_generations
-- Without their members, so that little goes with each.
WITH gone AS (
  DELETE FROM generations AS t USING (
    SELECT tenant_id, id FROM generations
    WHERE tenant_id = :tenant_id AND run_id = ANY (CAST(:keys AS text[])) ORDER BY id LIMIT CAST(:most AS bigint)
  ) AS piece
  WHERE (t.tenant_id, t.id) = (piece.tenant_id, piece.id) RETURNING 1
)
SELECT count(*) AS n FROM gone

-- name: delete_evolution_runs
WITH state AS (
  DELETE FROM run_checkpoints WHERE tenant_id = :tenant_id AND run_id = ANY (CAST(:keys AS text[])) RETURNING 1
), gone AS (
  DELETE FROM evolution_runs WHERE tenant_id = :tenant_id AND id = ANY (CAST(:keys AS text[])) RETURNING tenant_id, id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT tenant_id, 'evolution_run.deleted', 'evolution_run', id, json_build_object('id', id) FROM gone
)
SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM state) AS checkpoints

-- name: generations_of_best
-- SKIP LOCKED: whoever completes a generation locks it, and then the version that it names, which is locked already.
SELECT g.id FROM generations AS g
WHERE g.tenant_id = :tenant_id AND g.best_version_id = ANY (CAST(:keys AS text[]))
ORDER BY g.id FOR NO KEY UPDATE SKIP LOCKED

-- name: forget_best
WITH changed AS (
  UPDATE generations AS g SET best_version_id = NULL, revision = g.revision + 1
  WHERE g.tenant_id = :tenant_id AND g.id = ANY (CAST(:ids AS text[]))
  RETURNING g.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.updated', 'generation', g.id, {{generation}} FROM changed AS g
)
SELECT count(*) AS n FROM changed

-- name: unnamed_versions
SELECT k.id FROM unnest(CAST(:keys AS text[])) AS k (id)
WHERE NOT EXISTS (SELECT FROM generations AS g WHERE g.tenant_id = :tenant_id AND g.best_version_id = k.id)
ORDER BY k.id

-- name: childless_versions
SELECT t.id FROM versions AS t
WHERE t.tenant_id = :tenant_id AND t.id = ANY (CAST(:keys AS text[])) AND NOT {{descended}}
ORDER BY t.id

-- name: prune_versions
WITH pruned AS (
  UPDATE versions AS v SET dsl = NULL, pruned_at = clock_timestamp()
  WHERE v.tenant_id = :tenant_id AND v.id = ANY (CAST(:keys AS text[])) AND v.pruned_at IS NULL
  RETURNING v.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT v.tenant_id, 'version.pruned', 'version', v.id, {{version}} FROM pruned AS v
)
SELECT count(*) AS n FROM pruned

-- name: delete_submissions
-- With those that were joined into them. As by hand a receipt stays of each: its id admits nothing again.
WITH gone AS (
  DELETE FROM submissions AS s WHERE s.tenant_id = :tenant_id
    AND (s.id = ANY (CAST(:keys AS text[])) OR s.joined_into = ANY (CAST(:keys AS text[])))
  RETURNING s.tenant_id, s.id, s.accepted_at, s.session_number
), receipt AS (
  INSERT INTO submission_receipts (tenant_id, submission_id, accepted_at)
  SELECT s.tenant_id, s.id, s.accepted_at FROM gone AS s ON CONFLICT DO NOTHING
), marker AS (
  DELETE FROM attempt_markers AS m USING gone AS s WHERE m.tenant_id = s.tenant_id AND m.submission_id = s.id
  RETURNING 1
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT s.tenant_id, 'submission.deleted', 'submission', s.id, json_build_object('id', s.id) FROM gone AS s
)
SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM marker) AS markers,
  ARRAY(SELECT DISTINCT session_number FROM gone ORDER BY 1) AS sessions

-- name: lock_empty_sessions
-- SKIP LOCKED: somebody admits to it. Whoever comes later waits, and then makes the session anew.
SELECT k.number FROM submission_sessions AS k
WHERE k.tenant_id = :tenant_id AND k.number = ANY (CAST(:keys AS bigint[])) AND k.open_count = 0
ORDER BY k.number FOR UPDATE SKIP LOCKED

-- name: delete_submission_sessions
-- Under that lock nothing is admitted, so what is empty now stays so.
WITH gone AS (
  DELETE FROM submission_sessions AS k WHERE k.tenant_id = :tenant_id AND k.number = ANY (CAST(:keys AS bigint[]))
    AND NOT EXISTS (
      SELECT FROM submissions AS s WHERE s.tenant_id = k.tenant_id AND s.session_number = k.number)
  RETURNING 1
)
SELECT count(*) AS n FROM gone

-- name: delete_conversation_batches
WITH gone AS (
  DELETE FROM conversation_batches AS b USING (
    SELECT tenant_id, number, seq FROM conversation_batches
    WHERE tenant_id = :tenant_id AND number = ANY (CAST(:keys AS bigint[])) LIMIT CAST(:most AS bigint)
  ) AS piece
  WHERE (b.tenant_id, b.number, b.seq) = (piece.tenant_id, piece.number, piece.seq) RETURNING 1
)
SELECT count(*) AS n FROM gone

-- name: delete_attachments
DELETE FROM attachments AS a USING (
  SELECT tenant_id, path_number, id FROM attachments
  WHERE tenant_id = :tenant_id AND path_number = ANY (CAST(:keys AS bigint[])) LIMIT CAST(:most AS bigint)
) AS piece
WHERE (a.tenant_id, a.path_number, a.id) = (piece.tenant_id, piece.path_number, piece.id)
RETURNING a.content_number

-- name: delete_conversations
-- As by hand: the path keeps its number.
WITH deleted AS (
  DELETE FROM conversation_streams AS s USING stream_paths AS p
  WHERE s.tenant_id = :tenant_id AND s.number = ANY (CAST(:keys AS bigint[]))
    AND p.tenant_id = s.tenant_id AND p.number = s.number
  RETURNING s.*, p.path
), forgotten AS (
  DELETE FROM conversation_checkpoints AS k USING deleted AS c WHERE k.tenant_id = :tenant_id AND k.number = c.number
  RETURNING 1
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT c.tenant_id, 'conversation.deleted', 'conversation', c.path, {{conversation}} FROM deleted AS c
)
SELECT (SELECT count(*) FROM deleted) AS n, (SELECT count(*) FROM forgotten) AS checkpoints

-- name: delete_lone_checkpoints
-- A checkpoint may be written where no conversation is, or is any more.
WITH page AS MATERIALIZED (
  SELECT k.number FROM conversation_checkpoints AS k
  WHERE k.tenant_id = :tenant_id AND k.number > CAST(:after AS bigint) ORDER BY k.number LIMIT CAST(:limit AS bigint)
), going AS MATERIALIZED (
  SELECT k.number FROM page AS p
  JOIN conversation_checkpoints AS k ON k.tenant_id = :tenant_id AND k.number = p.number
  JOIN stream_paths AS s ON s.tenant_id = k.tenant_id AND s.number = k.number
  WHERE k.updated_at < {{cutoff}}
    AND NOT EXISTS (SELECT FROM conversation_streams AS c WHERE c.tenant_id = k.tenant_id AND c.number = k.number)
    AND NOT (CAST(:keep_pinned AS boolean) AND {{pinned}})
  FOR UPDATE OF k SKIP LOCKED
), gone AS (
  DELETE FROM conversation_checkpoints AS k USING going AS g WHERE k.tenant_id = :tenant_id AND k.number = g.number
  RETURNING 1
)
SELECT (SELECT max(number) FROM page) AS last, (SELECT count(*) FROM gone) AS n

-- fragment: kept_from
-- The first position that somebody still needs: the webhooks have not been told of it, or a delivery is to be made of it.
LEAST(
  (SELECT h.position + 1 FROM webhook_heads AS h WHERE h.tenant_id = :tenant_id),
  (SELECT min(d.event_position) FROM webhook_deliveries AS d
   WHERE d.tenant_id = :tenant_id AND d.status = 'pending' AND d.body IS NULL),
  (SELECT min(d.event_position) FROM webhook_deliveries AS d
   WHERE d.tenant_id = :tenant_id AND d.status IN ('queued', 'sending') AND d.body IS NULL))

-- name: delete_events
-- The earliest, as long as each is old enough. The head's row is held before, as whoever makes a webhook holds it: that
-- the earliest moved is seen with the events that are gone.
WITH head AS MATERIALIZED (
  SELECT tenant_id FROM event_heads WHERE tenant_id = :tenant_id FOR NO KEY UPDATE
), page AS MATERIALIZED (
  SELECT e.position, e.sequenced_at FROM head AS h, events AS e WHERE e.tenant_id = :tenant_id
  ORDER BY e.position LIMIT CAST(:limit AS bigint)
), bound AS MATERIALIZED (
  SELECT LEAST(
    (SELECT min(p.position) FROM page AS p
     WHERE p.sequenced_at >= now() - make_interval(days => CAST(:max_age_days AS int))),
    {{kept_from}}, (SELECT max(p.position) + 1 FROM page AS p)) AS position
), gone AS (
  DELETE FROM events AS e USING page AS p, bound AS b
  WHERE e.tenant_id = :tenant_id AND e.position = p.position AND e.sequenced_at = p.sequenced_at
    AND e.position < b.position
  RETURNING e.position
), moved AS (
  UPDATE event_heads AS h SET earliest = GREATEST(h.earliest, (SELECT max(position) + 1 FROM gone))
  WHERE h.tenant_id = :tenant_id AND EXISTS (SELECT FROM gone)
)
SELECT count(*) AS n FROM gone

-- name: count_events
SELECT count(*) AS n FROM events AS e WHERE e.tenant_id = :tenant_id
  AND e.sequenced_at < now() - make_interval(days => CAST(:max_age_days AS int))
  AND e.position < COALESCE({{kept_from}}, e.position + 1)
