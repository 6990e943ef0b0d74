"""`cairn backup`: a tenant's whole state in one file, made, listed, downloaded, verified and restored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from app.client import Cairn
from app.client.backups import Backup, BackupFields
from app.commands.backup_file import verify
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.downloading import downloaded
from app.commands.following import followed, why
from app.commands.plainly import refuse
from app.commands.restoring import restore
from app.commands.sketches import PIPE_LINE_COLUMNS, console_of

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list, download, verify and restore backups of a tenant.",
    epilog="Example: cairn backup create --output acme.ndjson.zst, then cairn backup verify acme.ndjson.zst",
)
# A list is for people; whoever wants more asks for it.
LISTED = 100


@app.command(epilog="Example: cairn backup create --label nightly --output acme.ndjson.zst")
def create(
    label: Annotated[str | None, typer.Option(help="What the backup is for.", show_default=False)] = None,
    section: Annotated[
        list[str] | None,
        typer.Option(help="Only this section, with all that it refers to; repeat it.", show_default=False),
    ] = None,
    artifacts: Annotated[
        Literal["bytes", "references"],
        typer.Option(help="Whether the bytes of artifacts are in the file, or only their hashes."),
    ] = "bytes",
    recipient: Annotated[
        list[str] | None,
        typer.Option(
            help="A public key of age (age1…); only who has its identity can read the file. Repeat it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Download the file to here, too.", show_default=False)] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Have the service make a backup, wait until it is made, and print its id.

    Writers go on meanwhile: the file holds one moment. It stays in the object store of the service until it is deleted.
    """
    fields: BackupFields = {"artifacts": artifacts}
    if label is not None:
        fields["label"] = label
    if section:
        fields["sections"] = section
    if recipient:
        fields["recipients"] = recipient
    if output is not None and output.exists():
        refuse(f"{output} is there already; name another file.")
    with connected(url, key, tenant) as cairn:
        asked = cairn.backups.create(**fields)
        made = followed("backup", lambda: cairn.backups.get(asked.id), f"The service goes on making {asked.id}.")
        if made.state != "completed":
            refuse(f"The backup {made.id} is {made.state}: {why(made.error)}")
        typer.echo(made.id)
        if output is not None:
            _download(cairn, made, output)


@app.command("list", epilog="Example: cairn backup list")
def list_backups(url: Url = DEFAULT_URL, key: Key = None, tenant: Tenant = None) -> None:
    """List the newest backups: their ids, states, rows, sizes and labels."""
    table = Table("id", "state", "created", "rows", "size", "encrypted", "verified", "label", box=None)
    with connected(url, key, tenant) as cairn:
        for number, backup in enumerate(cairn.backups.list(limit=LISTED)):
            if number == LISTED:
                break
            table.add_row(*(Text(told) for told in _told(backup)))
    # Ids are for copying: where there is no terminal, no line is broken.
    console_of(PIPE_LINE_COLUMNS).print(table)


def _told(backup: Backup) -> tuple[str, ...]:
    size = "" if backup.size_bytes is None else decimal(backup.size_bytes)
    verified = "" if backup.verified_at is None else f"{backup.verified_at:%Y-%m-%d}"
    return (
        backup.id, backup.state, f"{backup.created_at:%Y-%m-%d %H:%M}Z", f"{backup.progress['done']:,}", size,
        "age" if backup.recipients else "", verified, backup.label or "",
    )  # fmt: skip


@app.command(epilog="Example: cairn backup download bak_0198 acme.ndjson.zst")
def download(
    backup_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `cairn backup list` shows.")],
    file: Annotated[
        Path | None, typer.Argument(help="Where it goes. Default: its own name, in this folder.", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Download the file of a backup. Run it again where it broke off: it goes on from there.

    The file has its name only when all of it is there, with the SHA-256 that the service tells.
    """
    with connected(url, key, tenant) as cairn:
        backup = cairn.backups.get(backup_id)
        if backup.state != "completed":
            refuse(f"The backup {backup_id} is {backup.state}; it has a file when it is completed.")
        named = file or Path(f"cairn-{(backup.manifest or {})['tenant']}-{backup.id}.ndjson.zst{_ending(backup)}")
        if named.exists():
            refuse(f"{named} is there already; name another file.")
        _download(cairn, backup, named)


def _ending(backup: Backup) -> str:
    return ".age" if backup.recipients else ""


def _download(cairn: Cairn, backup: Backup, file: Path) -> None:
    size, digest = backup.size_bytes or 0, backup.digest or ""
    downloaded(file, size, digest, lambda start: cairn.backups.download(backup.id, start=start, end=size))


app.command(epilog="Example: cairn backup verify acme.ndjson.zst.age --identity key.txt --public-key 11qYAYKxCrfVS…=")(
    verify
)
app.command(epilog="Example: cairn backup restore acme.ndjson.zst --dry-run")(restore)
