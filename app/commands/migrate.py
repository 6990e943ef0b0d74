"""`cairn migrate`: brings the database to the schema that this release needs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import operating
from app.commands.beside import Folder, operator_settings
from app.commands.plainly import plainly, run


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the schema is right (status 0 or 1).")
    ] = False,
    folder: Folder = None,
) -> None:
    """Bring the database to the schema that this release needs.

    One migrator works at a time; others wait for it. A migration gives up on a table that is in use after
    CAIRN_DATABASE__LOCK_SECONDS, so that readers never wait longer, and tries again.
    """
    settings = operator_settings(folder).database
    if check:
        found = run(operating.revision(settings))
        typer.echo(found.fault or f"The schema is at {found.current}, as needed.")
        raise typer.Exit(1 if found.fault else 0)
    from app.db import migrate as migrations  # noqa: PLC0415 - Alembic and SQLAlchemy, which other commands do not need

    with plainly():
        before = run(operating.revision(settings))
        migrations.migrate(settings, report=typer.echo)
        after = run(operating.revision(settings))
    if before.current == after.current:
        typer.echo(f"Nothing to do: the schema is at {after.current}.")
    else:
        typer.echo(f"The schema went from {before.current or 'nothing'} to {after.current}.")
