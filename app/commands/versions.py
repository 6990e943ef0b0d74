"""`cairn versions`: the versions of workflows, on the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.sketches import PIPE_LINE_COLUMNS, console_of, print_tree, tree_of, without_unicode
from app.genealogy import picture

# Of an id on a terminal; a pipe gets all of it.
ID_COLUMNS = 20

app = typer.Typer(
    no_args_is_help=True, help="Look at versions in a running service.", epilog="Example: cairn versions tree wf_1"
)


@app.callback()
def _group() -> None:
    """Look at versions in a running service."""


@app.command(epilog="Example: cairn versions tree wf_1 --limit 50")
def tree(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's id.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Versions to show at most, the newest.")] = 1000,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Draw a workflow's genealogy as a tree: each version below its first parent, its other parent after a cross.

    I is init, M mutation, X crossover, + immigrant. A terminal gets lines that fit it; piped, it is plain text with
    whole ids and messages. Where output is not Unicode, ASCII.
    """
    with connected(url, key, tenant) as cairn:
        answer = cairn.workflows.genealogy(workflow, limit=limit)
    console = console_of(PIPE_LINE_COLUMNS)
    drawn = tree_of(
        picture.told(workflow, answer.json_bytes),
        id_columns=ID_COLUMNS if console.is_terminal else None,
        ascii_only=without_unicode(console),
    )
    print_tree(console, drawn)
