-- fragment: returned
-- Not the data: the rows that a statement returns are kept until it ends.
c.invocation_id, c.scope, c.node_id, c.key, {{unit_shown}}, c.revision, c.created_at, c.updated_at,
    old.created_at AS was_created_at, old.artifact_hash AS was_artifact_hash

-- fragment: placed
c.tenant_id = :tenant_id AND c.invocation_id = :invocation_id AND c.scope = :scope AND c.node_id = :node_id
    AND c.key = :key

-- fragment: first_revision
-- Greater than that of any context that was here before: an ETag stands for the same bytes, also after a removal.
CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)

-- fragment: replaced
-- Everything changes together. What has expired was gone, so what follows it is new.
({{unit}}) = ROW ({{unit_excluded}}),
    revision = c.revision + 1, updated_at = clock_timestamp(),
    created_at = CASE WHEN {{live}} THEN c.created_at ELSE clock_timestamp() END

-- fragment: told
SELECT CASE WHEN c.was_created_at = c.created_at THEN 200 ELSE 201 END AS status, c.revision AS etag,
    {{context}} AS body FROM stored AS c

-- fragment: freed
-- What the artifact that was here is still needed for, such as a download, has the whole grace period.
UPDATE artifacts AS a SET touched_at = clock_timestamp() FROM stored AS c
  WHERE a.tenant_id = :tenant_id AND a.hash = c.was_artifact_hash
    AND c.was_artifact_hash IS DISTINCT FROM c.artifact_hash

-- fragment: held
-- The invocation, the context, then the artifacts in one order, as everybody does who changes some of them. FOR KEY
-- SHARE: nobody deletes the invocation meanwhile; FOR UPDATE: nobody replaces the context; FOR NO KEY UPDATE: what is to
-- be referred to is not collected before the commit.
within AS MATERIALIZED (
  SELECT i.id FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :invocation_id FOR KEY SHARE
), there AS MATERIALIZED (
  SELECT c.artifact_hash FROM contexts AS c WHERE EXISTS (SELECT FROM within) AND {{placed}} FOR UPDATE
), locked AS MATERIALIZED (
  SELECT a.tenant_id, a.hash FROM artifacts AS a
  WHERE a.tenant_id = :tenant_id
    AND a.hash = ANY (ARRAY(SELECT artifact_hash FROM there UNION ALL SELECT CAST(:artifact_hash AS bytea)))
  ORDER BY a.hash FOR NO KEY UPDATE
), held AS (
  UPDATE artifacts AS a SET {{touched}} FROM locked AS l
  WHERE a.tenant_id = l.tenant_id AND a.hash = l.hash AND a.hash = :artifact_hash AND a.state IN ('live', 'marked')
  RETURNING a.hash
)

-- fragment: inserted
INSERT INTO contexts AS c (tenant_id, invocation_id, scope, node_id, key, revision, {{unit}})
  SELECT :tenant_id, :invocation_id, :scope, :node_id, :key, {{first_revision}}, {{unit_given}}

-- fragment: over_it
ON CONFLICT ON CONSTRAINT pk_contexts DO UPDATE SET {{replaced}}
  WHERE NOT :only_new OR NOT {{live}}
  RETURNING {{returned}}

-- fragment: changed
UPDATE contexts AS c SET ({{unit}}) = ROW ({{unit_given}}), revision = c.revision + 1, updated_at = clock_timestamp()
  WHERE {{placed}} AND {{live}} AND (CAST(:if_match AS bigint[]) IS NULL OR c.revision = ANY (:if_match))
    AND NOT :only_new

-- name: put
WITH stored AS (
  {{inserted}}
  {{over_it}}
), freed AS (
  {{freed}}
), answer AS ({{told}})

-- name: put_large
WITH {{held}}, stored AS (
  {{inserted}} FROM held
  {{over_it}}
), freed AS (
  {{freed}}
), answer AS ({{told}})

-- name: replace
WITH stored AS (
  {{changed}}
  RETURNING {{returned}}
), freed AS (
  {{freed}}
), answer AS ({{told}})

-- name: replace_large
WITH {{held}}, stored AS (
  {{changed}} AND EXISTS (SELECT FROM held)
  RETURNING {{returned}}
), freed AS (
  {{freed}}
), answer AS ({{told}})

-- name: standing
SELECT c.revision FROM contexts AS c WHERE {{placed}} AND {{live}}

-- name: get
SELECT c.revision, c.key, c.summary, c.metadata, c.content_type, c.size_bytes, c.digest, c.artifact_hash,
  {{expires_at}} AS expires_at, {{created_at}} AS created_at, {{updated_at}} AS updated_at,
  CASE WHEN :with_bytes THEN c.data END AS data
FROM contexts AS c WHERE {{placed}} AND {{live}}

-- name: delete
WITH stored AS (
  DELETE FROM contexts AS c
  WHERE {{placed}} AND {{live}} AND (CAST(:if_match AS bigint[]) IS NULL OR c.revision = ANY (:if_match))
  RETURNING c.artifact_hash AS was_artifact_hash, CAST(NULL AS bytea) AS artifact_hash
), freed AS (
  {{freed}}
), answer AS (
  SELECT 204 AS status, CAST(NULL AS bigint) AS etag, CAST(NULL AS json) AS body FROM stored
)

-- fragment: transferred
INSERT INTO contexts AS c (tenant_id, invocation_id, scope, node_id, key, revision, {{unit}})
  SELECT s.tenant_id, :to_invocation_id, :to_scope, :to_node_id, :to_key, {{first_revision}}, {{unit}}
  FROM source AS s
  ON CONFLICT ON CONSTRAINT pk_contexts DO UPDATE SET {{replaced}}
  WHERE :overwrite OR NOT {{live}}
  RETURNING {{returned}}

-- fragment: source
-- The invocations first, as everybody does: who deletes one holds it, and goes on to its contexts. In one order,
-- whichever of them is the source: two who copy across take turns. FOR UPDATE: what is removed is what was read, and
-- until the copy is there the source refers to what both refer to.
within AS MATERIALIZED (
  SELECT i.id FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id IN (:invocation_id, :to_invocation_id)
  ORDER BY i.id FOR KEY SHARE
), locked AS MATERIALIZED (
  SELECT c.* FROM contexts AS c
  WHERE EXISTS (SELECT FROM within) AND ({{placed}}
    OR c.tenant_id = :tenant_id AND c.invocation_id = :to_invocation_id AND c.scope = :to_scope
      AND c.node_id = :to_node_id AND c.key = :to_key)
  ORDER BY c.invocation_id, c.scope, c.node_id, c.key FOR UPDATE
), source AS MATERIALIZED (
  SELECT c.* FROM locked AS c WHERE {{placed}} AND {{live}}
)

-- name: copy
WITH {{source}}, stored AS (
  {{transferred}}
), freed AS (
  {{freed}}
), answer AS ({{told}})

-- name: move
WITH {{source}}, stored AS (
  {{transferred}}
), freed AS (
  {{freed}}
), removed AS (
  DELETE FROM contexts AS c WHERE {{placed}} AND EXISTS (SELECT FROM stored)
), answer AS ({{told}})
