"""The Makefile is the front door: it lists itself, and says in one sentence what a machine lacks."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOO_OLD = '#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.2"\n[ "$1" = -V ]\n'
NO_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; *) exit 0;; esac\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a space in its name and nothing but the Makefile in it."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_make_help_lists_every_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    listed = re.findall(r"^  ([a-z]+) ", make(ROOT, "help").stdout, re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == targets
    assert {"run", "test", "check"} <= targets


def test_make_alone_is_make_help() -> None:
    assert make(ROOT).stdout == make(ROOT, "help").stdout


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (TOO_OLD, "Cairn needs Python 3.11, 3.12 or 3.13, and {} is Python 3.9.2: install one and name it"),
        (NO_VENV, "{} has no venv module: install it"),
    ],
    ids=["too old", "no venv"],
)
def test_an_unfit_python_is_told_in_one_sentence(checkout: Path, script: str, sentence: str) -> None:
    python = checkout / "python3"
    python.write_text(script)
    python.chmod(0o755)
    told = make(checkout, "run", f"PYTHON={python}").stderr.splitlines()
    assert told[0].startswith(sentence.format(python))
    assert told[1:] == [line for line in told[1:] if line.startswith("make: ***")]
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_told_in_one_sentence(checkout: Path) -> None:
    told = make(checkout, "run", "PYTHON=/nowhere/python3").stderr
    assert "and /nowhere/python3 is not there: install one and name it, as in: make PYTHON=" in told
