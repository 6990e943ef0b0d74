"""`cairn database`: dumps and restores of the whole database, with PostgreSQL's own programs."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal

from app.commands.beside import Folder, operator_settings
from app.commands.comparing import holding
from app.commands.dumping import DumpRefused, sum_file
from app.commands.dumping import dump as dump_database
from app.commands.dumping import restore as restore_database
from app.commands.plainly import refuse, run

app = typer.Typer(
    no_args_is_help=True,
    help="Dump and restore the whole database with PostgreSQL's own programs, and compare two.",
    epilog="Example: cairn database dump cairn.dump",
)
Programs = Annotated[
    Path | None,
    typer.Option(
        help="The folder of pg_dump and pg_restore. Default: those on PATH, or those that came with Cairn.",
        show_default=False,
    ),
]


@app.command(epilog="Example: cairn database dump /backups/cairn-2026-08-01.dump")
def dump(
    file: Annotated[Path, typer.Argument(help="The file to make; its SHA-256 goes into FILE.sha256.")],
    programs: Programs = None,
    folder: Folder = None,
) -> None:
    """Dump the whole database, every tenant's rows, into one file.

    pg_dump must not be older than the server. The file is there only when pg_dump has ended well and what it wrote can
    be read again. Artifacts' bytes lie in the object store: back that up afterwards.
    """
    url = operator_settings(folder).database.direct_driver_url
    console = Console(stderr=True)
    try:
        with console.status("Dumping ...") as status:
            size = dump_database(url, file, programs, lambda done: status.update(f"Dumping ... {decimal(done)}"))
    except DumpRefused as refusal:
        refuse(str(refusal))
    typer.echo(f"{file} has {decimal(size)}; its SHA-256 is in {sum_file(file)}.")


@app.command(epilog="Example: CAIRN_DATABASE__URL=postgresql://…/cairn_new cairn database restore cairn.dump")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `cairn database dump` or pg_dump --format=custom made.")],
    programs: Programs = None,
    folder: Folder = None,
) -> None:
    """Restore a dump into an empty database, in one transaction: all of it, or nothing.

    FILE.sha256 is looked at first where it is there. Run `cairn doctor` afterwards.
    """
    url = operator_settings(folder).database.direct_driver_url
    try:
        with Console(stderr=True).status("Restoring ..."):
            restore_database(url, file, programs)
    except DumpRefused as refusal:
        refuse(str(refusal))
    typer.echo(f"{file} is restored. `cairn doctor` says whether this release can serve it.")


@app.command(epilog="Example: cairn database digest > before.txt, and diff that with another database's")
def digest(folder: Folder = None) -> None:
    """Print each table's rows and their digest, where the sequences stand, and a digest of how all is built.

    Two databases with the same text hold the same. Every row is read, in one snapshot.
    """
    try:
        found = run(holding(operator_settings(folder).database.direct_driver_url))
    except DumpRefused as refusal:
        refuse(str(refusal))
    for table, (rows, digested) in found.rows.items():
        typer.echo(f"table {table} {rows} {digested}")
    for sequence, stands in found.sequences.items():
        typer.echo(f"sequence {sequence} {stands}")
    typer.echo(f"built {len(found.shape)} {sha256(json.dumps(found.shape).encode()).hexdigest()}")
