-- name: count
SELECT (SELECT count(*) FROM invocations WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id)
     + (SELECT count(*) FROM versions WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id)
     + (SELECT count(*) FROM workflows WHERE tenant_id = :tenant_id AND id = :workflow_id) AS total

-- name: foreign_versions
SELECT c.id FROM versions AS p JOIN versions AS c ON c.tenant_id = p.tenant_id AND c.parent1_id = p.id
WHERE p.tenant_id = :tenant_id AND p.workflow_id = :workflow_id AND c.workflow_id <> :workflow_id
UNION
SELECT c.id FROM versions AS p JOIN versions AS c ON c.tenant_id = p.tenant_id AND c.parent2_id = p.id
WHERE p.tenant_id = :tenant_id AND p.workflow_id = :workflow_id AND c.workflow_id <> :workflow_id
ORDER BY id LIMIT 20

-- name: foreign_invocations
SELECT c.id FROM invocations AS p
JOIN invocations AS c ON c.tenant_id = p.tenant_id AND c.parent_invocation_id = p.id
WHERE p.tenant_id = :tenant_id AND p.workflow_id = :workflow_id AND c.workflow_id <> :workflow_id
ORDER BY c.id LIMIT 20

-- name: newest_invocations
-- FOR UPDATE: nobody can add a child to these before the commit, and their order keeps two runners apart.
SELECT id FROM invocations WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id
ORDER BY started_at DESC, id DESC LIMIT CAST(:limit AS bigint) FOR UPDATE

-- name: childless_invocations
-- FOR UPDATE: as above; for start times that contradict the descent.
SELECT id FROM invocations AS t WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id AND NOT EXISTS (
  SELECT FROM invocations AS c WHERE c.tenant_id = :tenant_id AND c.parent_invocation_id = t.id)
ORDER BY started_at DESC, id DESC LIMIT CAST(:limit AS bigint) FOR UPDATE

-- name: children_of_invocations
SELECT parent_invocation_id AS parent_id, id FROM invocations
WHERE tenant_id = :tenant_id AND parent_invocation_id = ANY (CAST(:ids AS text[]))
ORDER BY id LIMIT 100000

-- fragment: freed
-- What rows that are gone referred to has the whole grace period from here on; locked in the order of everybody.
held AS MATERIALIZED (
  SELECT a.hash FROM artifacts AS a WHERE a.tenant_id = :tenant_id AND a.hash IN (SELECT hash FROM gone)
  ORDER BY a.hash FOR NO KEY UPDATE
), freed AS (
  UPDATE artifacts AS a SET touched_at = clock_timestamp() FROM held AS h
  WHERE a.tenant_id = :tenant_id AND a.hash = h.hash
)

-- name: delete_artifact_references
WITH gone AS (DELETE FROM artifact_references AS t USING (
  SELECT ctid AS place FROM artifact_references
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING t.hash), {{freed}}
SELECT count(*) AS removed FROM gone

-- name: delete_checkpoints
WITH gone AS (DELETE FROM checkpoints AS t USING (
  SELECT ctid AS place FROM checkpoints
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete_contexts
WITH gone AS (DELETE FROM contexts AS t USING (
  SELECT ctid AS place FROM contexts
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING t.artifact_hash AS hash), {{freed}}
SELECT count(*) AS removed FROM gone

-- name: delete_messages
WITH gone AS (DELETE FROM messages AS t USING (
  SELECT ctid AS place FROM messages
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete_evaluations
WITH gone AS (DELETE FROM evaluations AS t USING (
  SELECT ctid AS place FROM evaluations
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete_actions
WITH gone AS (DELETE FROM actions AS t USING (
  SELECT ctid AS place FROM actions
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: delete_node_invocations
WITH gone AS (DELETE FROM node_invocations AS t USING (
  SELECT ctid AS place FROM node_invocations
  WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])) LIMIT CAST(:limit AS bigint)
) AS chosen WHERE t.ctid = chosen.place RETURNING 1)
SELECT count(*) AS removed FROM gone

-- name: are_below_invocations
-- A row that is changed while it is deleted moves to another place, and the statements above miss it there.
SELECT EXISTS (
      SELECT FROM artifact_references WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM contexts WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM checkpoints WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM messages WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM evaluations WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM actions WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    OR EXISTS (SELECT FROM node_invocations WHERE tenant_id = :tenant_id AND invocation_id = ANY (CAST(:ids AS text[])))
    AS any_is

-- name: delete_invocations
WITH gone AS (
  DELETE FROM invocations WHERE tenant_id = :tenant_id AND id = ANY (CAST(:ids AS text[])) RETURNING tenant_id, id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT tenant_id, 'invocation.deleted', 'invocation', id, json_build_object('id', id) FROM gone
)
SELECT count(*) AS removed FROM gone

-- name: forget_best
-- FOR NO KEY UPDATE, and no version is locked here: a completion locks its generation, then the version that it names.
WITH chosen AS MATERIALIZED (
  SELECT g.id FROM generations AS g JOIN versions AS v ON v.tenant_id = g.tenant_id AND v.id = g.best_version_id
  WHERE g.tenant_id = :tenant_id AND v.workflow_id = :workflow_id
  ORDER BY g.id LIMIT CAST(:limit AS bigint) FOR NO KEY UPDATE OF g
), changed AS (
  UPDATE generations AS g SET best_version_id = NULL, revision = g.revision + 1
  FROM chosen AS c WHERE g.tenant_id = :tenant_id AND g.id = c.id
  RETURNING g.*
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT g.tenant_id, 'generation.updated', 'generation', g.id, {{generation}} FROM changed AS g
)
SELECT count(*) AS removed FROM changed

-- name: best_of_generations
SELECT id FROM generations WHERE tenant_id = :tenant_id AND best_version_id = ANY (CAST(:ids AS text[])) LIMIT 1

-- name: newest_versions
-- FOR UPDATE: no version, node or invocation can be added below these before the commit.
SELECT id FROM versions WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id
ORDER BY created_at DESC, id DESC LIMIT CAST(:limit AS bigint) FOR UPDATE

-- name: invocations_of
SELECT id FROM invocations WHERE tenant_id = :tenant_id AND version_id = ANY (CAST(:ids AS text[])) LIMIT 1

-- name: childless_versions
-- FOR UPDATE: as above; for times of creation that contradict the descent.
SELECT id FROM versions AS t WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id AND NOT EXISTS (
  SELECT FROM versions AS c WHERE c.tenant_id = :tenant_id AND (c.parent1_id = t.id OR c.parent2_id = t.id))
ORDER BY created_at DESC, id DESC LIMIT CAST(:limit AS bigint) FOR UPDATE

-- name: children_of_versions
SELECT parent1_id AS parent_id, id FROM versions
WHERE tenant_id = :tenant_id AND parent1_id = ANY (CAST(:ids AS text[]))
UNION
SELECT parent2_id, id FROM versions WHERE tenant_id = :tenant_id AND parent2_id = ANY (CAST(:ids AS text[]))
ORDER BY id LIMIT 100000

-- name: delete_node_memories
WITH gone AS (
  DELETE FROM node_memories WHERE tenant_id = :tenant_id AND version_id = ANY (CAST(:ids AS text[])) RETURNING 1
)
SELECT count(*) AS removed FROM gone

-- name: delete_node_versions
WITH gone AS (
  DELETE FROM node_versions WHERE tenant_id = :tenant_id AND version_id = ANY (CAST(:ids AS text[])) RETURNING 1
)
SELECT count(*) AS removed FROM gone

-- name: delete_version_io
WITH gone AS (
  DELETE FROM version_io WHERE tenant_id = :tenant_id AND version_id = ANY (CAST(:ids AS text[])) RETURNING 1
)
SELECT count(*) AS removed FROM gone

-- name: delete_versions
WITH gone AS (
  DELETE FROM versions WHERE tenant_id = :tenant_id AND id = ANY (CAST(:ids AS text[])) RETURNING tenant_id, id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT tenant_id, 'version.deleted', 'version', id, json_build_object('id', id) FROM gone
)
SELECT count(*) AS removed FROM gone

-- name: lock_workflow
-- FOR UPDATE: nothing can be added to the workflow before it is gone.
SELECT id FROM workflows WHERE tenant_id = :tenant_id AND id = :workflow_id FOR UPDATE

-- name: is_busy
SELECT EXISTS (SELECT FROM versions AS v WHERE v.tenant_id = :tenant_id AND v.workflow_id = :workflow_id)
    OR EXISTS (SELECT FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.workflow_id = :workflow_id) AS busy

-- name: delete_workflow
WITH gone AS (
  DELETE FROM workflows WHERE tenant_id = :tenant_id AND id = :workflow_id
  RETURNING tenant_id, id
), event AS (
  INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)
  SELECT tenant_id, 'workflow.deleted', 'workflow', id, json_build_object('id', id) FROM gone
)
SELECT count(*) AS removed FROM gone
