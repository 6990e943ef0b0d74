"""However an owner ends, its servers end too, and the next start finds the data."""

import os
import signal
from pathlib import Path

import asyncpg
import psutil
import pytest

from app.embedded import PartError, start_servers
from app.embedded.folder import FolderLock
from app.embedded.leftovers import find_leftovers


async def insert(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS kept (answer int)")
    await connection.execute("INSERT INTO kept VALUES (42)")
    await connection.close()


async def count(url: str) -> int:
    connection = await asyncpg.connect(url)
    rows: int = await connection.fetchval("SELECT count(*) FROM kept")
    await connection.close()
    return rows


async def test_the_servers_of_a_killed_owner_end_by_themselves(tmp_path: Path, own, eventually, all_gone) -> None:
    owner = own(tmp_path, fast=False)
    running = owner.hear()
    await insert(running["postgres_url"])

    owner.popen.kill()
    owner.popen.wait()

    eventually(lambda: all_gone(running["pids"].values()))
    with start_servers(tmp_path, nats=False, redis=False) as servers:
        assert await count(servers.postgres_url) == 1


async def test_a_start_right_after_the_owner_is_killed_waits_for_its_guardian(tmp_path: Path, own) -> None:
    owner = own(tmp_path, fast=False)
    running = owner.hear()
    await insert(running["postgres_url"])

    owner.popen.kill()
    owner.popen.wait()

    with start_servers(tmp_path) as servers:
        assert await count(servers.postgres_url) == 1
        assert not set(servers.pids().values()) & set(running["pids"].values())


async def test_servers_left_by_a_killed_owner_and_guardian_are_ended_by_the_next_start(
    tmp_path: Path, own, all_gone
) -> None:
    owner = own(tmp_path, fast=False)
    running = owner.hear()
    await insert(running["postgres_url"])
    guardian = owner.guardian()

    guardian.kill()
    owner.popen.kill()
    owner.popen.wait()
    assert not any(all_gone([pid]) for pid in running["pids"].values())
    reports: list[str] = []
    with start_servers(tmp_path, report=reports.append) as servers:
        assert await count(servers.postgres_url) == 1

    assert all_gone(running["pids"].values())
    assert any("earlier run" in report for report in reports)


async def test_a_postmaster_killed_with_its_owner_leaves_nothing_in_the_way(tmp_path: Path, own) -> None:
    owner = own(tmp_path, fast=False, nats=False, redis=False)
    running = owner.hear()
    await insert(running["postgres_url"])
    guardian = owner.guardian()

    guardian.kill()
    owner.popen.kill()
    psutil.Process(running["pids"]["PostgreSQL"]).kill()
    owner.popen.wait()

    with start_servers(tmp_path, nats=False, redis=False) as servers:
        assert await count(servers.postgres_url) == 1


def test_an_ephemeral_folder_of_a_killed_owner_is_removed(tmp_path: Path, own, eventually) -> None:
    owner = own(tmp_path, ephemeral=True, postgres=False)
    folder = Path(owner.hear()["folder"])

    owner.popen.kill()
    owner.popen.wait()

    eventually(lambda: not folder.exists())


def test_an_ephemeral_folder_whose_guardian_died_too_is_removed_by_the_next_start(
    tmp_path: Path, own, all_gone
) -> None:
    owner = own(tmp_path, ephemeral=True, postgres=False)
    running = owner.hear()
    owner.guardian().kill()
    owner.popen.kill()
    owner.popen.wait()
    assert Path(running["folder"]).exists()

    with start_servers(tmp_path, ephemeral=True, postgres=False, nats=False):
        assert not Path(running["folder"]).exists()

    assert all_gone(running["pids"].values())
    assert list(tmp_path.iterdir()) == []


def test_a_ctrl_c_reaches_the_owner_and_not_its_servers(tmp_path: Path, own) -> None:
    owner = own(tmp_path)
    pids = owner.hear()["pids"]
    groups = {os.getpgid(pid) for pid in (*pids.values(), owner.guardian().pid)}

    # A terminal sends the signal to its whole foreground group.
    os.killpg(owner.popen.pid, signal.SIGINT)

    assert owner.hear() == {"interrupted": True, "ended_part": None}
    assert owner.hear() == {"stopped": True}
    assert owner.popen.wait(20) == 0
    assert owner.popen.pid not in groups
    assert find_leftovers(tmp_path) == []


def test_a_ctrl_c_during_the_start_leaves_no_process_and_a_folder_that_starts(tmp_path: Path, own) -> None:
    owner = own(tmp_path)
    assert owner.popen.stdout
    assert "making the database" in owner.popen.stdout.readline()

    os.killpg(owner.popen.pid, signal.SIGINT)

    assert owner.popen.wait(30) != 0
    assert find_leftovers(tmp_path) == []
    with start_servers(tmp_path, fast=True) as servers:
        assert servers.ended_part() is None


def test_a_running_owner_is_named_to_whoever_wants_its_folder(tmp_path: Path, own) -> None:
    owner = own(tmp_path, postgres=False, nats=False)
    owner.hear()

    with pytest.raises(PartError, match=f"in use by process {owner.popen.pid}: stop that process, or"):
        start_servers(tmp_path)

    assert owner.stop() == {"stopped": True}


def test_a_forked_child_does_not_keep_the_folder_of_its_parent(tmp_path: Path) -> None:
    servers = start_servers(tmp_path, postgres=False, redis=False)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        servers.stop()
        os.read(reader, 1)
        os._exit(0)
    try:
        assert servers.ended_part() is None
        servers.stop()
        lock = FolderLock(tmp_path)
        assert lock.try_acquire()
        lock.release()
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        os.close(reader)


def test_a_server_that_ends_by_itself_is_named(tmp_path: Path, eventually) -> None:
    with start_servers(tmp_path, postgres=False) as servers:
        psutil.Process(servers.pids()["NATS"]).kill()
        eventually(lambda: servers.ended_part() == "NATS")
