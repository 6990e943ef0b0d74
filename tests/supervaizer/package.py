"""The real supervaizer package, as it is on PyPI, also on a Python that is older than the one it asks for.

`python -m tests.supervaizer.package` installs it beside the adapter, which `make test` does before the tests.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ADAPTER = Path(__file__).resolve().parents[2] / "adapters" / "supervaizer"
LOCK = ADAPTER / "requirements.lock"
FOLDER = ADAPTER / ".packages"
STAMP = FOLDER / ".installed"
INSTALL_SECONDS = 280


def install() -> None:
    """Have the packages there as the lock says, for this Python."""
    if not _installed():
        print("Installing the supervaizer that its adapter is tested with ...")  # noqa: T201 - what `make` shows
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
             "--no-deps", "--ignore-requires-python", "--require-hashes", "--target", FOLDER, "-r", LOCK],
            check=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    # Written last, so that an install that was cut short is begun again; and newer than all that `make` compares.
    STAMP.write_text(_wanted(), encoding="utf-8")


def ready() -> None:
    """Make `supervaizer` and `cairn_supervaizer` importable here. Raises `RuntimeError` where it is not installed."""
    if not _installed():
        raise RuntimeError(
            "supervaizer is not there, or another one than its adapter is tested with: `make test` installs it, and so"
            " does `python -m tests.supervaizer.package`."
        )
    for folder in (ADAPTER, FOLDER):
        if str(folder) not in sys.path:
            # Behind everything else: what Cairn itself has is taken from there.
            sys.path.append(str(folder))
    if sys.version_info < (3, 12) and not any(isinstance(finder, _OlderSyntax) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OlderSyntax())


def environment() -> dict[str, str]:
    """The environment of a process that calls `ready` before anything else."""
    return os.environ | {"PYTHONPATH": str(ADAPTER.parents[1])}


def _wanted() -> str:
    return f"{sys.version_info[:2]}\n{LOCK.read_text(encoding='utf-8')}"


def _installed() -> bool:
    return STAMP.exists() and STAMP.read_text(encoding="utf-8") == _wanted()


# Two files use syntax of 3.12: three generic functions, and an f-string whose expression has line breaks.
_GENERIC = re.compile(r"^def (\w+)\[\w+: \w+\]\(", re.MULTILINE)
_BROKEN_LINES = re.compile(r'f"([^"\n{]*)\{\n((?:(?!\s*\}).*\n)+)\s*\}([^"\n]*)"')


def _older(source: str) -> str:
    source = _GENERIC.sub(r"def \1(", source)
    return _BROKEN_LINES.sub(lambda found: f'f"""{found[1]}{{{" ".join(found[2].split())}}}{found[3]}"""', source)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = _older(Path(self.path).read_text(encoding="utf-8"))
        return self.source_to_code(source.encode(), self.path)


class _OlderSyntax(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "supervaizer":
            return None
        spec: Any = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


if __name__ == "__main__":
    install()
