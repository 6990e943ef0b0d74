"""B21, B22 and acceptance 4: several migrators, one killed at work, and a table that somebody holds."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from asyncio import gather, to_thread
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from alembic.config import Config
from typer.testing import CliRunner

from app.commands.root import app
from app.db.migrate import LOCK, config, migrate
from app.db.revision import MigrationRefused, revisions
from app.embedded import Servers
from app.memory.partitions import creation, index_name, index_sql
from app.settings import DatabaseSettings
from tests.api_process import ROOT, Command
from tests.conftest import database_url, new_tenant, running, settings_for
from tests.waiting import eventually

SAID: list[str] = []
# What a migrator does between taking its lock and letting it go, as a process that can be killed there.
BUILDER = """
import asyncio, sys
from sqlalchemy import text
from app.db.migrate import migrating
from app.settings import DatabaseSettings

async def build():
    settings = DatabaseSettings(url=sys.argv[1], lock_seconds=30)
    async with migrating(settings, report=print) as connection:
        free = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await free.execute(text("CREATE INDEX CONCURRENTLY ix_slow ON workflows (name)"))

asyncio.run(build())
"""


async def administer(servers: Servers, sql: str) -> None:
    connection = await asyncpg.connect(database_url(servers, "postgres"))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture
async def empty(servers: Servers) -> str:
    """The URL of an empty database."""
    name = f"m_{uuid.uuid4().hex}"
    await administer(servers, f"CREATE DATABASE {name}")
    return database_url(servers, name)


@pytest.fixture
async def migrated(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """A migrated database, and a connection to it."""
    url = await clone()
    connection = await asyncpg.connect(url)
    yield url, connection
    await connection.close()


async def at(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch("SELECT version_num FROM alembic_version")]
    finally:
        await connection.close()


async def all_together(url: str, count: int) -> list[tuple[int, str]]:
    """Exit status and words of several `cairn migrate`, started at once."""
    commands = [Command("migrate", url=url) for _ in range(count)]
    try:
        return [(await to_thread(command.wait, 60), command.output()) for command in commands]
    finally:
        for command in commands:
            command.close()


async def test_b21_five_migrators_at_once_on_an_empty_database_all_end_well(empty: str) -> None:
    ends = await all_together(empty, 5)
    assert [status for status, _ in ends] == [0] * 5, ends
    assert await at(empty) == [revisions()[-1]]


async def test_b21_migrators_from_an_earlier_revision_keep_the_rows(empty: str) -> None:
    settings = DatabaseSettings(url=empty)
    await to_thread(migrate, settings, revisions()[2], report=SAID.append)
    connection = await asyncpg.connect(empty)
    await connection.execute("INSERT INTO tenants (tenant_id) SELECT 't' || n FROM generate_series(1, 500) AS n")
    ends = await all_together(empty, 3)
    assert [status for status, _ in ends] == [0] * 3, ends
    assert await connection.fetchval("SELECT count(*) FROM tenants") == 500
    await connection.close()
    assert await at(empty) == [revisions()[-1]]


async def test_b21_a_waiter_gives_up_at_its_bound_and_says_why(migrated: tuple[str, asyncpg.Connection]) -> None:
    url, other = migrated
    assert await other.fetchval("SELECT pg_try_advisory_lock($1)", LOCK)
    started = time.monotonic()
    with pytest.raises(MigrationRefused, match="Another migrator"):
        await to_thread(migrate, DatabaseSettings(url=url, migration_wait_seconds=0.5), report=SAID.append)
    assert time.monotonic() - started < 10


async def test_b21_a_waiter_does_not_hold_up_a_concurrent_index_build(
    migrated: tuple[str, asyncpg.Connection],
) -> None:
    url, builder = migrated
    assert await builder.fetchval("SELECT pg_try_advisory_lock($1)", LOCK)
    said: list[str] = []
    waiting = asyncio.create_task(to_thread(migrate, DatabaseSettings(url=url), report=said.append))
    await eventually(lambda: _true(bool(said)), "a waiting migrator")
    await asyncio.wait_for(builder.execute("CREATE INDEX CONCURRENTLY ix_more ON workflows (name)"), 10)
    await builder.execute("SELECT pg_advisory_unlock_all()")
    await waiting


async def _true(value: bool) -> bool:
    return value


def start_builder(url: str) -> subprocess.Popen[bytes]:
    """A migrator at its index build."""
    return subprocess.Popen([sys.executable, "-c", BUILDER, url], env={"PYTHONPATH": str(ROOT)})


async def killed_builder(url: str, connection: asyncpg.Connection) -> int:
    """A migrator that was killed in the middle of an index build: the pid of the session that it left behind."""
    builder = start_builder(url)

    async def building() -> int | None:
        assert builder.poll() is None
        found: int | None = await connection.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'"
            " AND wait_event_type = 'Lock' AND datname = current_database()"
        )
        return found

    try:
        pid: int = await eventually(building, "the index build")
    finally:
        builder.send_signal(signal.SIGKILL)
        await to_thread(builder.wait, 10)
    return pid


@pytest.mark.parametrize("session", ["ended", "left alone"])
async def test_b21_an_index_whose_build_was_killed_is_valid_after_the_next_migration(
    migrated: tuple[str, asyncpg.Connection], session: str
) -> None:
    url, connection = migrated
    writer = await asyncpg.connect(url)
    await writer.execute(
        "BEGIN; INSERT INTO tenants (tenant_id) VALUES ('t'); LOCK TABLE workflows IN ROW EXCLUSIVE MODE"
    )
    pid = await killed_builder(url, connection)
    if session == "ended":
        await connection.execute("SELECT pg_terminate_backend($1)", pid)
    await writer.execute("COMMIT")
    await writer.close()
    if session == "ended":
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_slow'::regclass"
        assert await connection.fetchval(valid) is False
    said: list[str] = []
    await to_thread(migrate, DatabaseSettings(url=url, migration_wait_seconds=20), report=said.append)
    invalid = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
    assert await connection.fetch(invalid) == []
    assert await connection.fetchval("SELECT to_regclass('ix_slow') IS NOT NULL")
    if session == "ended":
        assert any("Rebuilding ix_slow" in line for line in said)


async def test_an_index_that_the_service_builds_is_left_to_it(migrated: tuple[str, asyncpg.Connection]) -> None:
    url, connection = migrated
    building = index_name(7)
    async with connection.transaction():
        for statement in creation(7, 3):
            await connection.execute(statement)
    await connection.execute(index_sql(7, 3, "cosine"))
    await connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::text::regclass", building)
    said: list[str] = []
    await to_thread(migrate, DatabaseSettings(url=url), report=said.append)
    assert said == []
    examined = await to_thread(CliRunner().invoke, app, ["doctor"], env={"CAIRN_DATABASE__URL": url, "COLUMNS": "160"})
    assert re.search(rf"indexes +note +{building}: not built to its end yet", examined.output)


@pytest.fixture
def altering(tmp_path: Path) -> Config:
    """This code's migrations and one more, which changes a table that everybody reads."""
    shutil.copytree(ROOT / "alembic", tmp_path / "alembic", ignore=shutil.ignore_patterns("__pycache__"))
    head = revisions()[-1]
    Path(tmp_path, "alembic/versions/9999_more.py").write_text(
        f'from alembic import op\n\nrevision = "9999"\ndown_revision = "{head}"\n\n\n'
        'def upgrade() -> None:\n    op.execute("ALTER TABLE workflows ADD COLUMN more text")\n'
    )
    chosen = config()
    chosen.set_main_option("script_location", str(tmp_path / "alembic"))
    return chosen


async def test_b22_an_upgrade_gives_up_on_a_held_table_and_readers_never_wait_longer(
    migrated: tuple[str, asyncpg.Connection], altering: Config
) -> None:
    url, idle = migrated
    lock_seconds = 0.4
    settings = DatabaseSettings(url=url, lock_seconds=lock_seconds)
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        await client.put("/v1/workflows/w", json={})
        await idle.execute("BEGIN; SELECT count(*) FROM workflows")
        said: list[str] = []
        upgrade = asyncio.create_task(to_thread(migrate, settings, report=said.append, chosen=altering))
        slowest = 0.0
        while not upgrade.done():
            started = time.monotonic()
            codes = await gather(*(client.get("/v1/workflows") for _ in range(4)))
            slowest = max(slowest, time.monotonic() - started)
            assert {answer.status_code for answer in codes} == {200}
            if len(said) >= 2:
                await idle.execute("COMMIT")  # The upgrade has given up twice; now its next try succeeds.
            await asyncio.wait({upgrade}, timeout=0.05)
        await upgrade
    assert any("trying again" in line for line in said)
    assert slowest < lock_seconds + 1.5
    assert await at(url) == ["9999"]


async def test_b22_an_upgrade_whose_table_stays_held_fails_loudly_and_changes_nothing(
    migrated: tuple[str, asyncpg.Connection], altering: Config
) -> None:
    url, idle = migrated
    await idle.execute("BEGIN; SELECT count(*) FROM workflows")
    with pytest.raises(MigrationRefused, match="holds a table"):
        await to_thread(migrate, DatabaseSettings(url=url, lock_seconds=0.05), report=SAID.append, chosen=altering)
    await idle.execute("ROLLBACK")
    assert await at(url) == [revisions()[-1]]
