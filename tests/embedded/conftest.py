"""Owners of embedded servers in processes of their own, and installs of PostgreSQL that lack something."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.embedded.binaries import find_postgres
from app.embedded.leftovers import end_leftovers

ROOT = Path(__file__).parents[2]
OWNER = Path(__file__).with_name("owner.py")


class Owner:
    """A process that owns servers: what it said, and how to end it."""

    def __init__(self, popen: "subprocess.Popen[str]", folder: Path) -> None:
        self.popen, self.folder = popen, folder
        self.reports: list[str] = []

    def hear(self) -> dict[str, Any]:
        """Answers the next thing it says that is not a report; an empty dict when it has ended."""
        assert self.popen.stdout
        for line in self.popen.stdout:
            said = json.loads(line)
            if isinstance(said, dict):
                return said
            self.reports.append(said)
        return {}

    def guardian(self) -> psutil.Process:
        """Answers the guardian process of this owner."""
        children = psutil.Process(self.popen.pid).children()
        return next(child for child in children if "app.embedded.watch" in child.cmdline())

    def stop(self) -> dict[str, Any]:
        """Ends it in the orderly way and answers its last word."""
        assert self.popen.stdin
        self.popen.stdin.close()
        self.popen.stdin = None
        return self.hear()


def is_gone(pid: int) -> bool:
    """Says whether a process has ended; a zombie has, though pid 1 may take its time to collect it."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def all_gone() -> Callable[[Iterable[int]], bool]:
    """Says whether every process of a list has ended."""
    return lambda pids: all(is_gone(pid) for pid in pids)


type_of_own = Callable[..., Owner]


@pytest.fixture
def own() -> Iterator[type_of_own]:
    """Starts owners; whatever they leave is ended after the test."""
    owners: list[Owner] = []

    def start(folder: Path, *, prefix: Sequence[str] = (), env: dict[str, str] | None = None, **asked: Any) -> Owner:
        argument = json.dumps({"folder": str(folder), "fast": True, **asked})
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        popen = subprocess.Popen(
            [*prefix, sys.executable, str(OWNER), argument],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        owners.append(Owner(popen, folder))
        return owners[-1]

    yield start
    for owner in owners:
        owner.popen.kill()
        owner.popen.communicate()
        for folder in (owner.folder, *owner.folder.glob("ephemeral-*")):
            end_leftovers(folder)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Polls a condition until it holds; fails the test when it does not within its bound."""

    def wait(condition: Callable[[], object], seconds: float = 20) -> None:
        give_up_at = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up_at, "the condition did not come true in time"
            time.sleep(0.02)

    return wait


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """A copy of the PostgreSQL install with its libraries, to be damaged; answers the folder of its programs."""
    programs = find_postgres()
    home = programs.parent
    copied = tmp_path / "copy" / home.parent.name / home.name
    shutil.copytree(home, copied, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = home.parent.with_name(home.parent.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, tmp_path / "copy" / libraries.name, symlinks=True)
    return copied / programs.name
