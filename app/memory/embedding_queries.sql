-- name: fill
UPDATE memory_spaces SET filling = true, revision = revision + 1, updated_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND number = :number AND NOT active AND NOT filling

-- name: hold
-- The row of the space: whoever else asks for its job waits for this one.
SELECT revision FROM memory_spaces WHERE tenant_id = :tenant_id AND number = :number FOR NO KEY UPDATE

-- name: hold_spaces
-- Shared with whoever writes to memory; who changes the spaces waits, and is waited for.
SELECT cairn_hold_spaces(:tenant_id, NULL) AS known
