"""`cairn runs`: what people ask of evolution runs, on the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.sketches import PIPE_COLUMNS, console_of, progress_of, without_unicode
from app.evolution import picture
from app.pictures.progress import GENERATIONS_MAX

app = typer.Typer(
    no_args_is_help=True,
    help="Look at evolution runs in a running service.",
    epilog="Example: cairn runs progress run_1",
)


@app.callback()
def _group() -> None:
    """Look at evolution runs in a running service."""


@app.command(epilog="Example: cairn runs progress run_1 --rows 20")
def progress(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The evolution run's id.", show_default=False)],
    rows: Annotated[int, typer.Option(min=3, max=GENERATIONS_MAX, help="Generations to show at most.")] = 40,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Draw how a run came on: each generation's fitness, accuracy and cost, and where w(orst), a(verage), b(est) lie.

    Piped, it is plain text 100 columns wide; where output is not Unicode, ASCII.
    """
    with connected(url, key, tenant) as cairn:
        answer = cairn.evolution_runs.progress(run, limit=GENERATIONS_MAX)
    console = console_of(PIPE_COLUMNS)
    told = picture.progress_told(answer.json_bytes)
    for part in progress_of(told, console.width, rows, ascii_only=without_unicode(console)):
        console.print(part)
