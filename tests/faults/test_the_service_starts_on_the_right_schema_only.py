"""B40: the API before its migrations, behind them, ahead of them; and a server without pgvector."""

from __future__ import annotations

import uuid
from asyncio import to_thread
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from app.db.migrate import downgrade
from app.db.revision import revisions
from app.embedded import Servers
from app.settings import DatabaseSettings
from tests.api_process import Command
from tests.conftest import database_url

# Says what PostgreSQL says where the extension's files are not installed.
NO_EXTENSIONS = """
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'extension "vector" is not available' USING ERRCODE = '0A000'; END $$;
CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION') EXECUTE FUNCTION refuse();
"""


@pytest.fixture
async def empty(servers: Servers) -> str:
    """The URL of an empty database."""
    name = f"m_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(database_url(servers, "postgres"))
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return database_url(servers, name)


async def ended(*arguments: str, url: str) -> tuple[int, str]:
    """Exit status and words of a command that must end by itself."""
    command = Command(*arguments, url=url)
    try:
        return await to_thread(command.wait), command.output()
    finally:
        command.close()


async def test_b40_before_the_migrations_the_api_refuses_with_one_sentence(empty: str) -> None:
    status, said = await ended("serve", "--port", "0", url=empty)
    assert status == 1
    assert said.strip().splitlines() == [
        f"The database has no schema yet, and this code needs {revisions()[-1]}; run `cairn migrate`."
    ]


async def test_b40_behind_or_ahead_of_the_code_the_api_refuses_and_says_which(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    await to_thread(downgrade, DatabaseSettings(url=url), "-1")
    status, said = await ended("serve", "--port", "0", url=url)
    assert (status, "behind the code" in said, len(said.strip().splitlines())) == (1, True, 1), said
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    await connection.close()
    status, said = await ended("serve", "--port", "0", url=url)
    assert (status, "ahead of the code" in said, len(said.strip().splitlines())) == (1, True, 1), said


async def test_b40_without_a_database_the_api_refuses_with_one_sentence() -> None:
    status, said = await ended("serve", "--port", "0", url="postgresql://nobody@127.0.0.1:1/nothing")
    assert (status, len(said.strip().splitlines())) == (1, 1), said
    assert "CAIRN_DATABASE__URL" in said


async def test_b40_without_pgvector_the_migration_says_so_once(empty: str) -> None:
    connection = await asyncpg.connect(empty)
    await connection.execute(NO_EXTENSIONS)
    status, said = await ended("migrate", url=empty)
    assert (status, len(said.strip().splitlines())) == (1, 1), said
    assert "pgvector" in said
    await connection.execute("DROP EVENT TRIGGER refuse")
    await connection.close()
    assert (await ended("migrate", url=empty))[0] == 0
