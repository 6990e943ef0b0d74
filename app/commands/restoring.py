"""`cairn backup restore`: sends a file to a running service, and tells what became of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import typer
from rich.table import Table

from app.client import Cairn
from app.client.backups import RestoreFields
from app.client.operations import Job
from app.commands.backup_file import Identity, opened
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.following import bytes_passing, followed, why
from app.commands.plainly import refuse
from app.commands.sketches import PIPE_COLUMNS, console_of

Mode = Literal["preview", "merge", "replace"]
OnConflict = Literal["skip", "fail", "overwrite"]
COUNTS = ("created", "kept", "changed", "conflicts", "skipped", "removed")


def restore(
    file: Annotated[
        Path | None, typer.Argument(help="The file of a backup, of any tenant and service.", show_default=False)
    ] = None,
    backup: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Instead of a file, a backup that the service keeps.", show_default=False),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            help="merge adds what is not there; replace first deletes what the tenant has of the file's sections;"
            " preview is merge with --dry-run."
        ),
    ] = "merge",
    on_conflict: Annotated[
        OnConflict,
        typer.Option(help="What becomes of a row that is there with other content; fail restores nothing at all."),
    ] = "fail",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what that would do, and write nothing.")] = False,
    identity: Identity = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --mode replace.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Restore a backup into a tenant, in one transaction: all of it, or nothing.

    No event is written and no webhook is told. An encrypted file is decrypted here, and the identity goes nowhere.
    """
    if (file is None) == (backup is None):
        refuse("Name a file, or a backup that the service keeps with --backup ID.")
    dry_run = dry_run or mode == "preview"
    if mode == "replace" and not (yes or dry_run):
        _ask()
    fields: RestoreFields = {"mode": mode, "dry_run": dry_run, "on_conflict": on_conflict}
    with connected(url, key, tenant) as cairn:
        if backup is not None:
            asked = cairn.backups.restore_own(backup, **fields)
        else:
            assert file is not None
            asked = _sent(cairn, file, identity, fields)
        job = followed("restore", lambda: cairn.jobs.get(asked.id), f"The service goes on with the job {asked.id}.")
    if job.state != "completed":
        _tell_conflicts(job.error)
        refuse(f"Nothing was restored; the job {job.id} is {job.state}: {why(job.error)}{_next(job.error)}")
    _tell(job.report["sections"], written=not dry_run)


def _next(error: Any) -> str:
    conflict = isinstance(error, dict) and error.get("code") == "restore_conflict"
    return " Say --on-conflict skip to leave them, or overwrite to replace them." if conflict else ""


def _ask() -> None:
    question = "What this tenant has of the file's sections is deleted first. Go on?"
    if not sys.stdin.isatty():
        refuse(f"{question} Say --yes.")
    typer.confirm(question, abort=True, err=True)


def _sent(cairn: Cairn, file: Path, identity: Path | None, fields: RestoreFields) -> Job:
    """The file is read twice: to be measured, since the service is told its size and digest, and to be sent."""
    with (
        opened(file, identity) as source,
        bytes_passing(f"{file.name}, measured and sent", 2 * file.stat().st_size) as show,
    ):
        return cairn.backups.upload(cast(BinaryIO, _Watched(source, show)), **fields)


class _Watched:
    """A file of which each read is shown."""

    def __init__(self, file: BinaryIO, show: Callable[[int], None]) -> None:
        self._file, self._show, self._passed = file, show, 0
        self.tell, self.seek = file.tell, file.seek

    def read(self, size: int) -> bytes:
        part = self._file.read(size)
        self._passed += len(part)
        self._show(self._passed)
        return part


def _tell(sections: dict[str, dict[str, Any]], *, written: bool) -> None:
    table = Table("section", *COUNTS, box=None)
    for name, counts in sorted(sections.items()):
        if any(counts.get(count) for count in COUNTS):
            table.add_row(name, *(f"{counts.get(count) or 0:,}" for count in COUNTS))
    console_of(PIPE_COLUMNS).print(table)
    _name_conflicts(sections)
    typer.echo("It is restored." if written else "Nothing was written; this is what it would do.")


def _tell_conflicts(error: Any) -> None:
    if isinstance(error, dict) and isinstance(error.get("sections"), dict):
        _name_conflicts(error["sections"])


def _name_conflicts(sections: dict[str, Any]) -> None:
    for name, counts in sections.items():
        if isinstance(counts, dict) and counts.get("conflict_ids"):
            ids = ", ".join(map(str, counts["conflict_ids"]))
            typer.echo(f"Other content is there of {name}: {ids}", err=True)
