"""How commands reach a running service, and how they tell that something went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from app.client import CairnError, UnreachableError
from app.client.clients import DEFAULT_URL

Url = Annotated[str, typer.Option("--url", envvar="CAIRN_URL", help="Where the service listens.")]
Key = Annotated[str | None, typer.Option("--key", envvar="CAIRN_KEY", help="The API key.", show_default=False)]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", envvar="CAIRN_TENANT", help="The tenant an operator's key acts for.", show_default=False),
]

__all__ = ["DEFAULT_URL", "Key", "Tenant", "Url", "told_plainly"]


@contextmanager
def told_plainly(url: str) -> Iterator[None]:
    """End the command with status 1 and one sentence on stderr when the service refuses or cannot be reached."""
    try:
        yield
    except UnreachableError as error:
        typer.echo(f"No answer from {url}: is the service running there? ({error.__cause__})", err=True)
        raise typer.Exit(1) from error
    except CairnError as error:
        known = f" (request {error.request_id})" if error.request_id else ""
        typer.echo(f"The service refused: {error}{known}", err=True)
        raise typer.Exit(1) from error
