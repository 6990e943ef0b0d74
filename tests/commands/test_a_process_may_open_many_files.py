"""A usual soft limit of open files is less than a busy process needs, so it is raised to what the system permits."""

from __future__ import annotations

import resource
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from app.commands.open_files import OPEN_FILES_MAX, raise_open_files
from tests.api_process import serving


@pytest.fixture
def few() -> Iterator[int]:
    """A low soft limit; the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_and_a_higher_one_stays(few: int) -> None:
    assert raise_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(few, OPEN_FILES_MAX)
    assert raise_open_files() == min(few, OPEN_FILES_MAX)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the limits of another process in a file")
async def test_a_serving_process_has_it(few: int, clone: Callable[[], Awaitable[str]]) -> None:
    with serving(await clone()) as process:
        assert open_files_of(process.process.pid) == min(few, OPEN_FILES_MAX)


def open_files_of(pid: int) -> int:
    """The soft limit of another process."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Max open files")).split()[3])
