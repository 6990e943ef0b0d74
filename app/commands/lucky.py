"""`cairn import lucky`: a dump of Lucky's tables, straight into the database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from app.commands.beside import Folder, operator_settings
from app.commands.operating import operating, tenant_exists
from app.commands.plainly import refuse, run
from app.imports.dump import DumpRefused
from app.imports.report import Report
from app.imports.store import bytes_to_read, import_dump
from app.settings import DatabaseSettings
from app.tenants.keys import DEFAULT_TENANT

# One statement stores a whole table, however many rows it has.
STATEMENT_SECONDS = 24 * 3600.0
LOCK_SECONDS = 60.0
NAMED_ROWS = 5


def lucky(
    dump: Annotated[Path, typer.Argument(metavar="DUMP", help="The folder that holds a file for each table.")],
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant that the rows will belong to.")] = DEFAULT_TENANT,
    rehearse: Annotated[bool, typer.Option("--rehearse", help="Do everything, report it, and take it back.")] = False,
    every_row: Annotated[
        bool, typer.Option("--every-row", help="Name every row that the report is about (up to 1,000 of a kind).")
    ] = False,
    folder: Folder = None,
) -> None:
    """Import a dump of Lucky's tables (`Workflow.json`, `WorkflowVersion.jsonl`, …) straight into the database.

    All or nothing, in one transaction: a broken file, a reference that leads nowhere, or a row that is there already
    with other content is refused with its line, and nothing is stored. Running it again changes nothing.
    """
    try:
        size_bytes = bytes_to_read(dump)
        report = run(_import(operator_settings(folder).database, tenant, dump, rehearse, size_bytes))
    except DumpRefused as refused:
        for problem in refused.problems:
            typer.echo(problem, err=True)
        if refused.total > len(refused.problems):
            typer.echo(f"… and {refused.total - len(refused.problems)} more like these.", err=True)
        refuse("Nothing was imported.")
    _tell(report, 1_000_000 if every_row else NAMED_ROWS)


async def _import(settings: DatabaseSettings, tenant: str, dump: Path, rehearse: bool, size_bytes: int) -> Report:
    patient = settings.model_copy(update={"statement_seconds": STATEMENT_SECONDS, "lock_seconds": LOCK_SECONDS})
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    async with operating(patient) as database:
        if not await tenant_exists(database, tenant):
            refuse(f"There is no tenant {tenant}; make it first: cairn keys create --tenant {tenant} --create-tenant")
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("read twice, then stored", total=size_bytes)
            return await import_dump(
                database, tenant, dump, rehearse=rehearse, advance=lambda size: progress.advance(task, size)
            )


def _tell(report: Report, named: int) -> None:
    table = Table("table", "becomes", "read", "new", "already there", "left out", box=None)
    for part in report.tables:
        numbers = (part.read, part.new, part.already_there, part.left_out.total())
        table.add_row(part.source, part.target or "-", *map(str, numbers))
    console = Console()
    Console(width=None if console.is_terminal else 400, soft_wrap=not console.is_terminal).print(table)
    for part in report.tables:
        for reason, count in part.left_out.items():
            typer.echo(f"{part.source}: {count} left out: {reason}")
        for column, count in part.columns_left_out.items():
            typer.echo(f"{part.source}: the column {column} has no place ({count} rows)")
        for what, note in part.notes.items():
            typer.echo(f"{part.source}: {note.count} rows: {what}")
            for row in note.rows[:named]:
                typer.echo(f"  {row}")
            if note.count > len(note.rows[:named]):
                typer.echo(f"  … and {note.count - len(note.rows[:named])} more")
    for name in report.other_files:
        typer.echo(f"{name}: not read, it is no .json or .jsonl file")
    typer.echo(f"{report.new} new rows imported." if report.stored else f"Rehearsed: {report.new} rows would be new.")
