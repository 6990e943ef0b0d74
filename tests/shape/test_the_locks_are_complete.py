"""The two locks install the same on every machine: hashed, for every platform, without a registry's name in them."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "tests/blobs/s3/requirements.lock")


def pinned(lock: str) -> dict[str, str]:
    """Answers each package of a lock with its version, and insists that each line has hashes."""
    entries = re.findall(
        r"^(\S+)==(\S+)(?: ; .*)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", _text(lock), re.M
    )
    assert len(entries) == len(re.findall(r"^\w", _text(lock), re.M)), "a line of the lock has no hash"
    return {canonicalize_name(name.split("[")[0]): version for name, version, _ in entries}


def declared(*groups: str) -> list[Requirement]:
    project = tomllib.loads(_text("pyproject.toml"))
    lines = list(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        lines += extra
    for group in groups:
        lines += project["dependency-groups"][group]
    return [Requirement(line) for line in lines]


def _text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_name_no_registry(lock: str) -> None:
    assert not re.search(r"://|^--?\w|@", _text(lock), re.M)


@pytest.mark.parametrize(("lock", "groups"), [(LOCKS[0], ("build",)), (LOCKS[1], ("build", "dev"))])
def test_each_declared_requirement_is_pinned_within_its_bounds(lock: str, groups: tuple[str, ...]) -> None:
    pins = pinned(lock)
    behind = [str(need) for need in declared(*groups) if not _satisfied(need, pins)]
    assert behind == [], "pyproject.toml asks for what the lock does not give: run make lock"


def test_tests_run_on_the_very_versions_that_run_in_production() -> None:
    assert pinned(LOCKS[0]).items() <= pinned(LOCKS[1]).items()


def _satisfied(need: Requirement, pins: dict[str, str]) -> bool:
    version = pins.get(canonicalize_name(need.name))
    return version is not None and Version(version) in need.specifier
