"""Brings a database to the schema of this code: one migrator at a time, every wait bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from alembic.config import Config
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from alembic import command
from app.db.probe import NO_URL
from app.db.revision import MigrationRefused
from app.settings import DatabaseSettings

LOCK = 0x6361_6972_6E  # "cairn"
STATEMENT_SECONDS = 3600
_NO_EXTENSION = frozenset({"0A000", "58P01", "42501"})
TRIES = 5
# The index of a space's nearest neighbours: built while the service runs, and built anew by it where it is invalid.
BUILT_BY_THE_SERVICE = "^ix_memory_vectors_[0-9]+_embedding(_cc(new|old)[0-9]*)?$"
_ROOT = Path(__file__).resolve().parents[2]


def config() -> Config:
    """Alembic's configuration, wherever the command is run from."""
    found = Config(str(_ROOT / "alembic.ini"))
    found.set_main_option("script_location", str(_ROOT / "alembic").replace("%", "%%"))
    return found


def migrate(
    settings: DatabaseSettings,
    revision: str = "head",
    *,
    report: Callable[[str], None] = print,
    chosen: Config | None = None,
) -> None:
    """Upgrade the database, by this code's migrations or those of another configuration.

    Gives up on a table in use after `lock_seconds`, so that readers never stall longer, and tries again a bounded
    number of times. Raises `MigrationRefused` when another migrator, or a long transaction, outlasts every try, and
    where the server lacks pgvector.
    """
    chosen = chosen or config()
    chosen.attributes.update(database_settings=settings, report=report)
    for attempt in range(TRIES):
        try:
            command.upgrade(chosen, revision)
            asyncio.run(rebuild_invalid_indexes(settings, report=report))
            return
        except Exception as error:
            if attempt == TRIES - 1 or not _lock_refused(error):
                raise _refusal(error) from error
            report(f"A table is in use; trying again ({attempt + 2} of {TRIES}).")
            time.sleep(settings.lock_seconds * 2**attempt)


def downgrade(settings: DatabaseSettings, revision: str) -> None:
    """Go back to an earlier revision."""
    chosen = config()
    chosen.attributes.update(database_settings=settings, report=lambda _line: None)
    command.downgrade(chosen, revision)


def _state(error: BaseException) -> str | None:
    found: str | None = getattr(getattr(error, "orig", error), "sqlstate", None)
    return found


def _lock_refused(error: BaseException) -> bool:
    return _state(error) == "55P03"


def _refusal(error: Exception) -> Exception:
    if _lock_refused(error):
        return MigrationRefused("A transaction holds a table that the migration changes; end it and run this again.")
    if _state(error) in _NO_EXTENSION and "CREATE EXTENSION" in str(getattr(error, "statement", "")):
        return MigrationRefused(
            "This PostgreSQL lacks the extension vector (pgvector), or its role may not create it: install it, or have"
            " a superuser run CREATE EXTENSION vector in the database, and run this again."
        )
    return error


@asynccontextmanager
async def migrating(settings: DatabaseSettings, *, report: Callable[[str], None]) -> AsyncIterator[AsyncConnection]:
    """A connection to migrate on, while a second one holds the migrators' lock.

    Waiters poll, each in a statement of its own, so none of them holds a snapshot that a concurrent index build would
    wait for. The lock goes with its session, however that ends.
    """
    url = settings.direct_driver_url
    keeper = await _connect(url)
    try:
        await _lock(keeper, settings.migration_wait_seconds, report)
        engine = create_async_engine(
            url.replace("postgresql://", "postgresql+asyncpg://", 1),
            connect_args={
                "server_settings": {
                    "application_name": "cairn-migrate",
                    "lock_timeout": _milliseconds(settings.lock_seconds),
                    "statement_timeout": str(STATEMENT_SECONDS * 1000),
                    "timezone": "UTC",
                }
            },
        )
        try:
            async with engine.connect() as connection:
                yield connection
        finally:
            await engine.dispose()
    finally:
        await keeper.close()


async def _connect(url: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(url, timeout=10, server_settings={"application_name": "cairn-migrate-lock"})
    except ValueError as error:
        raise MigrationRefused(NO_URL) from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise MigrationRefused(
            f"PostgreSQL does not answer ({type(error).__name__}); start it, or correct CAIRN_DATABASE__URL."
        ) from error


async def _lock(keeper: asyncpg.Connection, wait_seconds: float, report: Callable[[str], None]) -> None:
    deadline = time.monotonic() + wait_seconds
    told = False
    while not await keeper.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):
        if time.monotonic() > deadline:
            raise MigrationRefused(f"Another migrator still runs after {wait_seconds:g} s; look at it, then try again.")
        if not told:
            report("Another migrator is at work; waiting for it.")
            told = True
        await asyncio.sleep(0.25)


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


async def rebuild_invalid_indexes(settings: DatabaseSettings, *, report: Callable[[str], None]) -> list[str]:
    """Rebuild indexes that an interrupted concurrent build left invalid. Gives their names.

    A build whose migrator was killed may still run in its session; then the wait for its table is bounded. What the
    service builds is left to it: it may be at it, for longer than anybody here would wait.
    """
    keeper = await _connect(settings.direct_driver_url)
    try:
        await _lock(keeper, settings.migration_wait_seconds, report)
        await keeper.execute(f"SET lock_timeout = {_milliseconds(settings.lock_seconds)}")
        found = await keeper.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE NOT i.indisvalid AND c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace"
            " AND c.relname !~ $1 ORDER BY 1 LIMIT 1000",
            BUILT_BY_THE_SERVICE,
        )
        for row in found:
            report(f"Rebuilding {row['name']}, which an interrupted build left invalid.")
            if row["name"].strip('"').endswith("_ccnew"):
                await keeper.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {row['name']}")
            else:
                await keeper.execute(f"REINDEX INDEX CONCURRENTLY {row['name']}")
        return [row["name"] for row in found]
    finally:
        await keeper.close()


def ignore_partitions(_object: Any, name: str | None, kind: str, reflected: bool, _compared: Any) -> bool:
    """Partitions are made while the service runs and belong to their parent; Alembic does not compare them."""
    return not (kind == "table" and reflected and (name or "").startswith(("events_p", "memory_vectors_")))
