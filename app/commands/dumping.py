"""Dumps a database with PostgreSQL's own programs and restores it, each as a whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from app.db.probe import NO_URL
from app.embedded import PartError
from app.embedded.binaries import find_postgres

CONNECT_SECONDS, VERSION_SECONDS = 10, 20
LOOK_SECONDS = 0.2
READ_BYTES = 1024 * 1024
_PROGRAMS = ("pg_dump", "pg_restore")
_EMPTY = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND NOT EXISTS ("
    "SELECT FROM pg_depend d WHERE d.deptype = 'e' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid)"
)
_PLACE = "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
_CREATED = re.compile(r"^CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA (.+);$", re.MULTILINE)

# Is told how many bytes the file has by now.
Watcher = Callable[[int], None]


class DumpRefused(Exception):
    """The dump or the restore that was asked for did not happen; the message says why and what to do."""


def sum_file(file: Path) -> Path:
    """Where the SHA-256 of a dump lies, as `sha256sum --check` reads it."""
    return file.with_name(file.name + ".sha256")


def dump(url: str, file: Path, programs: Path | None = None, watch: Watcher | None = None) -> int:
    """Writes the whole database into the file, in PostgreSQL's custom format, and its SHA-256 beside it.

    Gives its size. The file is there only when `pg_dump` has ended well, and what it wrote can be read again. Raises
    `DumpRefused`.
    """
    for taken in (file, sum_file(file)):
        if taken.exists():
            raise DumpRefused(f"{taken} is there already; name another file.")
    folder = programs_for(asyncio.run(_server_major(url)), programs)
    part = file.with_name(file.name + ".part")
    address, environment = _apart(url)
    try:
        _carry_out(
            [folder / "pg_dump", "--format=custom", "--file", part, "--dbname", address], environment, part, watch
        )
        size = part.stat().st_size if part.exists() else 0
        if not size or " TABLE DATA " not in _said([folder / "pg_restore", "--list", part]):
            raise DumpRefused(f"pg_dump wrote {size} bytes, and no table is in them; nothing was kept.")
        sum_file(file).write_text(f"{_sha256(part)}  {file.name}\n", encoding="utf-8")
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return size


def restore(url: str, file: Path, programs: Path | None = None) -> None:
    """Restores a dump into an empty database, in one transaction. Raises `DumpRefused`, and nothing is there then.

    pgvector is made where the dump has it; where the database has it in another schema, it goes to the dump's.
    """
    if not file.is_file() or not file.stat().st_size:
        raise DumpRefused(f"{file} is no dump: there is no such file, or nothing in it.")
    folder = programs_for(asyncio.run(_require_empty(url)), programs)
    summed = sum_file(file)
    if summed.is_file() and summed.read_text(encoding="utf-8").split(maxsplit=1)[:1] != [_sha256(file)]:
        raise DumpRefused(
            f"{file} is not as it was written: its SHA-256 is not that in {summed}. Nothing was restored."
        )
    built = _said([folder / "pg_restore", "--schema-only", "--file=-", file])
    wanted = _CREATED.search(built)
    moved = asyncio.run(_place_vector(url, _unquoted(wanted.group(1)))) if wanted else None
    try:
        _restore(folder, url, file)
    except DumpRefused as refusal:
        if moved is not None:
            asyncio.run(_place_vector(url, moved))
        raise DumpRefused(f"{refusal} Nothing was restored.") from refusal
    asyncio.run(_finish(url, needs_vector=wanted is not None))


def programs_for(server_major: int, chosen: Path | None = None) -> Path:
    """The folder of `pg_dump` and `pg_restore`, not older than the server. Raises `DumpRefused`.

    An older `pg_dump` refuses a newer server, or worse: leaves out what it does not know.
    """
    found = [(_major(folder), folder) for folder in ([chosen] if chosen else _folders()) if _is_whole(folder)]
    if not found:
        raise DumpRefused(
            f"There is no pg_dump and pg_restore in {chosen or 'PATH'}: install postgresql-client-{server_major}, or"
            " name their folder with --programs."
        )
    newest, folder = max(found)
    if newest < server_major:
        raise DumpRefused(
            f"pg_dump in {folder} is {newest} and the server is {server_major}: install"
            f" postgresql-client-{server_major}, or name its folder with --programs."
        )
    return folder


def _folders() -> list[Path]:
    on_path = shutil.which("pg_dump")
    folders = [Path(on_path).resolve().parent] if on_path else []
    try:
        return [*folders, find_postgres()]
    except PartError:
        return folders


def _is_whole(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in _PROGRAMS)


def _major(folder: Path) -> int:
    versions = [re.search(r"\(PostgreSQL\)\D*(\d+)", _said([folder / name, "--version"])) for name in _PROGRAMS]
    return min(int(version.group(1)) if version else 0 for version in versions)


def _restore(folder: Path, url: str, file: Path) -> None:
    """The comment of an extension is its owner's to write, who need not be the one that restores."""
    listed = _said([folder / "pg_restore", "--list", file]).splitlines(keepends=True)
    address, environment = _apart(url)
    with tempfile.NamedTemporaryFile("w", suffix=".list", encoding="utf-8") as chosen:
        chosen.writelines(line for line in listed if " COMMENT - EXTENSION " not in line)
        chosen.flush()
        _said(
            [
                folder / "pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges",
                "--use-list", chosen.name, "--dbname", address, file,
            ],
            environment,
        )  # fmt: skip


def _apart(url: str) -> tuple[str, dict[str, str]]:
    """The address without its password, which everybody on the machine could read, and the environment with it."""
    parts = urlsplit(url)
    _, _, place = parts.netloc.rpartition("@")
    given = dict(parse_qsl(parts.query))
    password = given.pop("password", unquote(parts.password or ""))
    netloc = f"{parts.netloc.rpartition('@')[0].partition(':')[0]}@{place}" if "@" in parts.netloc else place
    environment = {**os.environ, "PGCONNECT_TIMEOUT": str(CONNECT_SECONDS), "LC_ALL": "C"}
    if password:
        environment["PGPASSWORD"] = password
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(given))), environment


def _said(command: list[Path | str], environment: dict[str, str] | None = None) -> str:
    try:
        run = subprocess.run(  # noqa: S603
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise DumpRefused(f"{command[0]} cannot be run: {error}.") from error
    _require_success(Path(command[0]).name, run.returncode, run.stderr)
    return run.stdout


def _carry_out(command: list[Path | str], environment: dict[str, str], part: Path, watch: Watcher | None) -> None:
    """Lets a program write the file, and tells meanwhile how far it is."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(word) for word in command], env=environment, stderr=errors)  # noqa: S603
        try:
            while True:
                try:
                    status = process.wait(LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if watch is not None and part.exists():
                        watch(part.stat().st_size)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        errors.seek(0)
        _require_success(Path(command[0]).name, status, errors.read().decode(errors="replace"))


def _require_success(program: str, status: int, said: str) -> None:
    if status:
        lines = [line for line in said.strip().splitlines() if line.strip()] or ["it said nothing"]
        raise DumpRefused(f"{program} ended with status {status}: {' '.join(lines)[:600]}")


def _sha256(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


async def connected(url: str) -> asyncpg.Connection:
    """A connection of its own. Raises `DumpRefused`."""
    try:
        return await asyncpg.connect(url, timeout=CONNECT_SECONDS, statement_cache_size=0)
    except ValueError as error:
        # What the driver says of it may show a part of the password.
        raise DumpRefused(NO_URL) from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        why = str(error) or type(error).__name__
        raise DumpRefused(f"PostgreSQL does not answer ({why}); start it, or correct CAIRN_DATABASE__URL.") from error


async def _server_major(url: str) -> int:
    connection = await connected(url)
    try:
        return int(connection.get_server_version().major)
    finally:
        await connection.close()


async def _require_empty(url: str) -> int:
    connection = await connected(url)
    try:
        if there := await connection.fetchval(_EMPTY):
            raise DumpRefused(
                f"The database is not empty: {there} tables, indexes and sequences are there. Restore into a new one"
                " (`createdb`)."
            )
        return int(connection.get_server_version().major)
    finally:
        await connection.close()


async def _place_vector(url: str, wanted: str) -> str | None:
    """Moves pgvector to the schema, where the database has it in another one; gives that one."""
    connection = await connected(url)
    try:
        found: str | None = await connection.fetchval(_PLACE)
        if found in (None, wanted):
            return None
        statement = "ALTER EXTENSION vector SET SCHEMA " + await connection.fetchval("SELECT quote_ident($1)", wanted)
        try:
            await connection.execute(statement)
        except asyncpg.PostgresError as error:
            raise DumpRefused(
                f"pgvector lies in the schema {found}, the dump needs it in {wanted}, and it cannot be moved ({error}):"
                f" have its owner run {statement}, or DROP EXTENSION vector."
            ) from error
        return found
    finally:
        await connection.close()


async def _finish(url: str, *, needs_vector: bool) -> None:
    """Lets the planner know the rows, and sees whether a session of this role finds what it needs."""
    connection = await connected(url)
    try:
        await connection.execute("SET statement_timeout = 0")
        await connection.execute("ANALYZE")
        if needs_vector and await connection.fetchval("SELECT to_regtype('vector')") is None:
            place = await connection.fetchval(_PLACE)
            database, path = await connection.fetchrow("SELECT current_database(), current_setting('search_path')")
            raise DumpRefused(
                f"All is restored, but pgvector lies in the schema {place}, which is not on the search path: run"
                f" ALTER DATABASE {database} SET search_path = {path}, {place}"
            )
    finally:
        await connection.close()
