"""Holds a chosen statement of a transaction open, by a trigger in the test's database, until the test lets go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.digests import tenant_tables
from tests.waiting import eventually

GATE = 7_301_977
HELD_SECONDS = 30

# A statement fires the trigger of every table it writes to; they count as one, since their protocol message is one.
# The statement in which the counter reaches `holding.at` waits at the gate that the test keeps shut.
SETUP = f"""
CREATE TABLE holding (at bigint NOT NULL);
INSERT INTO holding VALUES (0);
CREATE FUNCTION hold_statement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  seen text := COALESCE(current_setting('holding.seen', true), '');
  number bigint := COALESCE(NULLIF(current_setting('holding.number', true), ''), '0');
BEGIN
  IF seen IS DISTINCT FROM statement_timestamp()::text || pg_current_xact_id()::text THEN
    PERFORM set_config('holding.seen', statement_timestamp()::text || pg_current_xact_id()::text, true);
    PERFORM set_config('holding.number', (number + 1)::text, true);
    IF number + 1 = (SELECT at FROM holding) THEN
      PERFORM pg_advisory_xact_lock({GATE});
    END IF;
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT at FROM holding) = -1 THEN
    PERFORM pg_advisory_xact_lock({GATE});
  END IF;
  RETURN NULL;
END $$;
"""
COMMIT = -1


async def prepare(connection: asyncpg.Connection) -> None:
    """Set the triggers on every table of the record."""
    await connection.execute(SETUP)
    for table in tenant_tables():
        await connection.execute(
            f"CREATE TRIGGER hold_statement AFTER INSERT OR UPDATE OR DELETE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION hold_statement()"
        )
    # Kept answers are written last; their deferred trigger runs inside COMMIT itself.
    await connection.execute(
        "CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT ON idempotency_keys DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION hold_commit()"
    )


@asynccontextmanager
async def holding(connection: asyncpg.Connection, at: int) -> AsyncIterator[None]:
    """Hold statement `at` of every transaction (or its `COMMIT`) for as long as the block runs."""
    await connection.execute("UPDATE holding SET at = $1", at)
    await connection.execute("SELECT pg_advisory_lock($1)", GATE)
    try:
        yield
    finally:
        await connection.execute("UPDATE holding SET at = 0")
        await connection.execute("SELECT pg_advisory_unlock($1)", GATE)


async def held(connection: asyncpg.Connection) -> int | None:
    """The backend that waits at the gate now."""
    found: int | None = await connection.fetchval(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        GATE,
    )
    return found


async def until_held(connection: asyncpg.Connection, request: asyncio.Task[object]) -> int | None:
    """The backend, once it waits at the gate; None when the request ended without reaching it."""
    deadline = time.monotonic() + HELD_SECONDS
    while True:
        pid = await held(connection)
        if pid is not None:
            return pid
        if request.done():
            return None
        assert time.monotonic() < deadline, "the statement was neither held nor answered"
        await asyncio.wait({request}, timeout=0.01)


async def until_gone(connection: asyncpg.Connection, pid: int) -> None:
    """Return once a backend has ended."""

    async def gone() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)

    await eventually(gone, "the end of the backend")
