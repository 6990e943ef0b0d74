"""Pid files, half-made databases and cut-off files of an earlier run are seen through and put right."""

import json
import os
from pathlib import Path

import asyncpg
import psutil
import pytest

from app.embedded import start_servers
from app.embedded.binaries import find_postgres


async def answer(url: str) -> int:
    connection = await asyncpg.connect(url)
    value: int = await connection.fetchval("SELECT 42")
    await connection.close()
    return value


def pid_file(pid: int, folder: Path) -> str:
    return f"{pid}\n{folder / 'postgres'}\n1700000000\n5432\n\n127.0.0.1\n  1234567  0\nready   \n"


async def test_a_pid_file_whose_number_now_belongs_to_another_process_is_not_believed(tmp_path: Path) -> None:
    folder, other = tmp_path / "mine", tmp_path / "other"
    with start_servers(folder, fast=True, nats=False, redis=False):
        pass
    with start_servers(other, fast=True, nats=False, redis=False) as bystander:
        # The worst case: the number is another PostgreSQL's now, and the lock names this very process.
        (folder / "postgres" / "postmaster.pid").write_text(pid_file(bystander.pids()["PostgreSQL"], folder))
        (folder / "lock").write_text(json.dumps({"pid": os.getpid(), "started_at": 1.0}))

        with start_servers(folder, fast=True, nats=False, redis=False) as servers:
            assert await answer(servers.postgres_url) == 42

        assert psutil.pid_exists(bystander.pids()["PostgreSQL"])
        assert await answer(bystander.postgres_url) == 42


@pytest.mark.parametrize("content", [b"", b"12", b"\x00\xff\n", b"99999999999999999999\n/nowhere\n"])
async def test_a_truncated_pid_file_does_not_stop_a_start(tmp_path: Path, content: bytes) -> None:
    with start_servers(tmp_path, fast=True, nats=False, redis=False):
        pass
    (tmp_path / "postgres" / "postmaster.pid").write_bytes(content)
    (tmp_path / "lock").write_bytes(content)

    with start_servers(tmp_path, fast=True, nats=False, redis=False) as servers:
        assert await answer(servers.postgres_url) == 42


@pytest.mark.parametrize("content", [None, b"", b'{"password": "half', b"[]", b"\xff\xfe"])
async def test_a_lost_password_file_gets_a_new_password_for_the_old_data(tmp_path: Path, content: bytes | None) -> None:
    with start_servers(tmp_path, fast=True) as servers:
        old_url = servers.postgres_url
        connection = await asyncpg.connect(old_url)
        await connection.execute("CREATE TABLE kept AS SELECT 1")
        await connection.close()
    if content is None:
        (tmp_path / "servers.json").unlink()
    else:
        (tmp_path / "servers.json").write_bytes(content)

    with start_servers(tmp_path, fast=True) as servers:
        connection = await asyncpg.connect(servers.postgres_url)
        assert await connection.fetchval("SELECT count(*) FROM kept") == 1
        await connection.close()
        assert servers.postgres_url != old_url


async def test_a_database_that_was_half_made_when_its_owner_was_killed_is_made_anew(tmp_path: Path, own) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("postgres", "psql"):
        (programs / name).symlink_to(find_postgres() / name)
    # This initdb writes what tells a whole database from none, and takes its owner with it.
    script = '#!/bin/sh\nmkdir "$2/base"\necho 18 > "$2/PG_VERSION"\nkill -9 $PPID\n'
    (programs / "initdb").write_text(script)
    (programs / "initdb").chmod(0o755)

    owner = own(tmp_path / "var", programs=str(programs))
    assert owner.hear() == {}
    assert owner.popen.wait(20) == -9
    assert (tmp_path / "var" / "postgres.making" / "PG_VERSION").exists()

    with start_servers(tmp_path / "var", fast=True) as servers:
        assert await answer(servers.postgres_url) == 42
    assert not (tmp_path / "var" / "postgres.making").exists()


async def test_a_dropped_database_is_there_again_after_the_next_start(tmp_path: Path) -> None:
    with start_servers(tmp_path, fast=True, nats=False, redis=False) as servers:
        connection = await asyncpg.connect(servers.postgres_url.rsplit("/", 1)[0] + "/postgres")
        await connection.execute("DROP DATABASE cairn")
        await connection.close()
    with start_servers(tmp_path, fast=True, nats=False, redis=False) as servers:
        assert await answer(servers.postgres_url) == 42
