"""Every command of `cairn`, with an example for each."""

from __future__ import annotations

import inspect
import re
from typing import Annotated

import typer

from app import __version__
from app.commands import backups, database, demo, events, importing, keys, runs, tenants, versions, webhooks
from app.commands.dev import dev
from app.commands.doctor import doctor
from app.commands.documents import openapi, settings
from app.commands.migrate import migrate
from app.commands.serve import serve
from app.commands.show import show
from app.commands.worker import worker

app = typer.Typer(
    name="cairn",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start here: cairn dev",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cairn {__version__}")
        raise typer.Exit


@app.callback()
def _cairn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cairn, the persistence service for AI-agent workflows."""


app.command(epilog="Example: cairn dev --port 8080, or cairn dev --ephemeral to start empty.")(dev)
app.command(epilog="Example: cairn serve --host 0.0.0.0 --workers 2 --no-background")(serve)
app.command(epilog="Example: cairn worker, beside cairn serve --no-background")(worker)
app.command(epilog="Example: cairn migrate, or cairn migrate --check in a deployment's checks.")(migrate)
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
app.add_typer(webhooks.app, name="webhooks")
app.command(epilog="Example: CAIRN_DATABASE__URL=postgresql://… cairn doctor")(doctor)
app.add_typer(backups.app, name="backup")
app.add_typer(database.app, name="database")
app.command(epilog="Example: cairn openapi > openapi.json")(openapi)
app.command(epilog="Example: cairn settings > .env.example")(settings)
app.add_typer(importing.app, name="import")
app.add_typer(demo.app, name="demo")
app.command(epilog="Example: cairn show inv_7 --chars 200")(show)
app.add_typer(events.app, name="events")
app.add_typer(runs.app, name="runs")
app.add_typer(versions.app, name="versions")


def _reflow(group: typer.Typer) -> None:
    """Let a terminal break help where its lines end; typer keeps the docstring's own breaks in later paragraphs."""
    for known in group.registered_commands:
        known.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(known.callback) or "")
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _reflow(below.typer_instance)


_reflow(app)
