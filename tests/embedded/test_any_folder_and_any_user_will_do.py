"""Long paths, spaces, closed parents, several checkouts, root and not root: the servers start all the same."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import psutil
import pytest

from app.embedded import Servers, start_servers
from app.embedded.identity import COPIES

OWNER = Path(__file__).with_name("owner.py")
IS_ROOT = os.geteuid() == 0


async def answer(servers: Servers) -> int:
    connection = await asyncpg.connect(servers.postgres_url)
    value: int = await connection.fetchval("SELECT 42")
    await connection.close()
    return value


async def test_a_path_with_a_space_and_quotes_starts(tmp_path: Path) -> None:
    with start_servers(tmp_path / 'a "quoted" it\'s', fast=True) as servers:
        assert await answer(servers) == 42


async def test_a_path_longer_than_a_socket_may_have_starts(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    with start_servers(folder, fast=True) as servers:
        assert await answer(servers) == 42
    with start_servers(folder, fast=True) as servers:
        assert await answer(servers) == 42


async def test_two_checkouts_run_at_once_and_do_not_meet(tmp_path: Path) -> None:
    with start_servers(tmp_path / "one", fast=True) as one, start_servers(tmp_path / "two", fast=True) as two:
        assert await answer(one) == await answer(two) == 42
        assert not set(one.pids().values()) & set(two.pids().values())
        one.stop()
        assert await answer(two) == 42


async def test_a_checkout_below_a_closed_folder_starts_and_the_folder_stays_closed(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    before = [path.stat() for path in (closed, tmp_path)]

    with start_servers(closed / "checkout" / "var", fast=True) as servers:
        assert await answer(servers) == 42

    after = [path.stat() for path in (closed, tmp_path)]
    assert [(now.st_mode, now.st_uid) for now in after] == [(then.st_mode, then.st_uid) for then in before]
    assert stat.S_IMODE((closed / "checkout" / "var").stat().st_mode) == 0o700


def without_root(folder: Path) -> list[str]:
    """Answers the words that run a program as an ordinary user who owns the folder, by the first way that works."""
    user = pwd.getpwnam("nobody")
    # Where this interpreter lies in root's home, only the second way can read it.
    set_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    map_user = ["unshare", "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}"]
    tried = ["sh", "-c", 'exec "$0" -c "import psutil; open(\'$1\')"', sys.executable, str(OWNER)]
    for way, owner in ((set_user, user.pw_uid), (map_user, 0)):
        if shutil.which(way[0]) and not subprocess.run([*way, *tried], capture_output=True, check=False).returncode:
            os.chown(folder, owner, -1)
            return way
    pytest.skip("neither setpriv nor unshare makes an ordinary user here")


@pytest.mark.skipif(not IS_ROOT, reason="every other test has shown it: this is not root")
def test_an_ordinary_user_starts_stops_and_starts_again(own) -> None:
    with tempfile.TemporaryDirectory(prefix="cairn ") as folder:
        way = without_root(Path(folder))
        for _ in range(2):
            owner = own(Path(folder), prefix=way, env={"HOME": "/nonexistent"})
            running = owner.hear()
            assert sorted(running.get("pids", running)) == ["NATS", "PostgreSQL", "Valkey"]
            assert owner.stop() == {"stopped": True}


@pytest.mark.skipif(not IS_ROOT, reason="only root needs another identity for PostgreSQL")
def test_root_without_namespaces_runs_postgres_as_a_system_user(tmp_path: Path, own) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    no_unshare = {"PATH": "/nonexistent"}

    owner = own(closed / "var", env=no_unshare)
    running = owner.hear()
    user = psutil.Process(running["pids"]["PostgreSQL"]).uids().effective
    assert owner.stop() == {"stopped": True}

    assert user != 0
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    # The same data then starts the other way, and back again.
    for env in ({}, no_unshare):
        owner = own(closed / "var", env=env)
        assert "pids" in owner.hear()
        assert owner.stop() == {"stopped": True}


@pytest.mark.skipif(not IS_ROOT, reason="only root needs another identity for PostgreSQL")
def test_root_without_namespaces_copies_an_install_that_the_system_user_cannot_read(
    tmp_path: Path, install: Path, own
) -> None:
    (tmp_path / "copy").chmod(0o700)
    had_copies, before = COPIES.exists(), set(COPIES.glob("postgres-*"))

    owner = own(tmp_path / "var", env={"PATH": "/nonexistent"}, programs=str(install), nats=False, redis=False)
    running = owner.hear()
    program = Path(f"/proc/{running['pids']['PostgreSQL']}/exe").readlink()
    stopped = owner.stop()
    for made in set(COPIES.glob("postgres-*")) - before:
        shutil.rmtree(made)
    if not had_copies:
        COPIES.rmdir()

    assert program.is_relative_to(COPIES)
    assert stopped == {"stopped": True}
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


@pytest.mark.skipif(not IS_ROOT, reason="only root can end what another user runs")
def test_leftovers_of_the_system_user_are_ended_by_the_next_start(tmp_path: Path, own, all_gone) -> None:
    owner = own(tmp_path, env={"PATH": "/nonexistent"}, nats=False, redis=False)
    pid = owner.hear()["pids"]["PostgreSQL"]
    owner.guardian().kill()
    owner.popen.kill()
    owner.popen.wait()
    assert not all_gone([pid])

    with start_servers(tmp_path, fast=True, nats=False, redis=False) as servers:
        assert all_gone([pid])
        assert servers.ended_part() is None
