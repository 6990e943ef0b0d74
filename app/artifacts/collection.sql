-- name: mark
-- What is in use is looked at again after another grace period; what is not is marked, and still there.
WITH locked AS MATERIALIZED (
  -- SKIP LOCKED: who holds one refers to it, or sends its bytes.
  SELECT a.tenant_id, a.hash FROM artifacts AS a
  WHERE a.state = 'live' AND a.touched_at < (SELECT clock_timestamp() - make_interval(secs => :grace_seconds))
  ORDER BY a.touched_at LIMIT CAST(:limit AS bigint) FOR NO KEY UPDATE SKIP LOCKED
), old AS MATERIALIZED (
  -- A number in the text says how few they are: each is looked up in an index then, and no table is read whole.
  SELECT a.tenant_id, a.hash, ({{used}}) AS used FROM (SELECT * FROM locked LIMIT 200) AS a
)
UPDATE artifacts AS a SET
  state = CASE WHEN old.used THEN 'live' ELSE 'marked' END,
  touched_at = CASE WHEN old.used THEN clock_timestamp() ELSE a.touched_at END,
  changed_at = CASE WHEN old.used THEN a.changed_at ELSE clock_timestamp() END
FROM old WHERE a.tenant_id = old.tenant_id AND a.hash = old.hash
RETURNING a.hash

-- name: give_up
-- Whoever began to send these is gone, or so slow that he begins anew. What a restore has put there waits for its rows.
WITH old AS MATERIALIZED (
  -- SKIP LOCKED: somebody begins again.
  SELECT a.tenant_id, a.hash FROM artifacts AS a
  WHERE a.state = 'uploading' AND a.touched_at < (SELECT clock_timestamp() - make_interval(secs => :grace_seconds))
    AND NOT EXISTS (
      SELECT FROM jobs AS j
      WHERE j.state IN ('queued', 'running') AND j.tenant_id = a.tenant_id AND j.kind = 'backup.restore'
    )
  ORDER BY a.touched_at LIMIT CAST(:limit AS bigint) FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE artifacts AS a SET state = 'deleting', changed_at = clock_timestamp()
FROM (SELECT * FROM old LIMIT 200) AS old WHERE a.tenant_id = old.tenant_id AND a.hash = old.hash
RETURNING a.hash

-- name: lock_marked
-- FOR UPDATE: from here on nobody can refer to them; whoever did before has committed, or is skipped.
SELECT a.tenant_id, a.hash FROM artifacts AS a
WHERE a.state = 'marked' AND a.changed_at < (SELECT clock_timestamp() - make_interval(secs => :pause_seconds))
ORDER BY a.touched_at LIMIT CAST(:limit AS bigint) FOR UPDATE SKIP LOCKED

-- name: take
-- A statement of its own, after they are locked: it sees every reference that was committed until then.
WITH looked AS MATERIALIZED (
  SELECT a.tenant_id, a.hash, ({{used}}) AS used
  FROM unnest(CAST(:tenant_ids AS text[]), CAST(:hashes AS bytea[])) AS g (tenant_id, hash)
  JOIN artifacts AS a ON a.tenant_id = g.tenant_id AND a.hash = g.hash
)
UPDATE artifacts AS a SET
  state = CASE WHEN l.used THEN 'live' ELSE 'deleting' END,
  touched_at = CASE WHEN l.used THEN clock_timestamp() ELSE a.touched_at END,
  changed_at = clock_timestamp()
FROM looked AS l WHERE a.tenant_id = l.tenant_id AND a.hash = l.hash AND a.state = 'marked'
RETURNING a.hash

-- name: to_delete
SELECT a.tenant_id, a.hash, a.generation FROM artifacts AS a
WHERE a.state = 'deleting' ORDER BY a.touched_at LIMIT CAST(:limit AS bigint)

-- name: gone
-- Not where the bytes have come back meanwhile: they are another object, under the next generation.
UPDATE artifacts AS a SET state = 'gone', changed_at = clock_timestamp()
WHERE a.tenant_id = :tenant_id AND a.hash = :hash AND a.generation = :generation AND a.state = 'deleting'
RETURNING a.size_bytes

-- name: not_known
SELECT g.place
FROM unnest(
  CAST(:places AS integer[]), CAST(:tenant_ids AS text[]), CAST(:hashes AS bytea[]), CAST(:generations AS bigint[])
) AS g (place, tenant_id, hash, generation)
LEFT JOIN artifacts AS a ON a.tenant_id = g.tenant_id AND a.hash = g.hash
WHERE a.hash IS NULL OR a.generation <> g.generation OR a.state = 'gone'

-- name: adopt
-- An object that no row knows gets one that is being deleted, so that an upload of its bytes takes another name. One of
-- a tenant that is not there is left alone: it is not known whose it is.
INSERT INTO artifacts AS a (tenant_id, hash, generation, state, size_bytes, part_bytes, part_digests)
SELECT t.tenant_id, :hash, :generation, 'deleting', :size_bytes, 1, '' FROM tenants AS t WHERE t.tenant_id = :tenant_id
ON CONFLICT (tenant_id, hash) DO UPDATE SET
  generation = excluded.generation, state = 'deleting', changed_at = clock_timestamp()
WHERE a.state = 'gone' AND a.generation < excluded.generation

-- name: is_left_over
-- Whether an object lies under a name that no upload takes any more.
SELECT a.generation > :generation OR (a.generation = :generation AND a.state = 'gone') AS left_over FROM artifacts AS a
WHERE a.tenant_id = :tenant_id AND a.hash = :hash
