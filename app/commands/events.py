"""`cairn events`: the feed of events on the terminal."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from app.client.operations import Event, EventFilter
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.sketches import PIPE_LINE_COLUMNS, console_of, line_of, spelled, without_unicode

app = typer.Typer(
    no_args_is_help=True,
    help="Look at events in a running service.",
    epilog="Example: cairn events follow",
)


@app.callback()
def _group() -> None:
    """Look at events in a running service."""


@app.command(epilog="Example: cairn events follow --type invocation.ended --type version.created")
def follow(
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only events of this type; repeat it.", show_default=False)
    ] = None,
    after: Annotated[
        str, typer.Option(help="A cursor to go on from; `now` starts behind the latest, `start` at the earliest kept.")
    ] = "now",
    as_json: Annotated[bool, typer.Option("--json", help="Print each event whole, as one line of JSON.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Print events as they come, until Ctrl-C: when, what, of which subject, and the position in the tenant's order."""
    filters: EventFilter = {}
    if type_:
        filters["type"] = type_
    if after != "start":
        filters["after"] = after
    console = console_of(PIPE_LINE_COLUMNS)
    with suppress(KeyboardInterrupt), connected(url, key, tenant) as cairn:
        if not as_json:
            typer.echo(f"Events of {', '.join(type_ or ['every type'])} as they come, until Ctrl-C.", err=True)
        for event in cairn.events.follow(**filters):
            if as_json:
                typer.echo(event.json_bytes.decode())
            else:
                _print(console, event)


def _print(console: Console, event: Event) -> None:
    of = f" of {event.subject_parent_id}" if event.subject_parent_id else ""
    parts = [
        (f"{event.occurred_at.astimezone():%H:%M:%S}  ", "dim"),
        (f"{event.type}  ", "bold"),
        (f"{event.subject_id}{of}  ", "cyan"),
        (str(event.position), "dim"),
    ]
    ascii_only = without_unicode(console)
    console.print(line_of(*((spelled(text, ascii_only=ascii_only), style) for text, style in parts)), soft_wrap=True)
