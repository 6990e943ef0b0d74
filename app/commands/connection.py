"""How commands reach a running service, and how they tell that something went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
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

DEVELOPMENT_KEY = Path("var/development-key")

__all__ = ["DEFAULT_URL", "Key", "Tenant", "Url", "key_for", "told_plainly"]


def key_for(url: str, key: str | None) -> str | None:
    """The key given; for the service that `make run` starts here, the development key that it keeps."""
    if key is None and url == DEFAULT_URL and DEVELOPMENT_KEY.is_file():
        return DEVELOPMENT_KEY.read_text().strip()
    return key


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
        if error.status == HTTPStatus.UNAUTHORIZED:
            typer.echo("Give a key with --key or CAIRN_KEY; `cairn keys create` makes one.", err=True)
        typer.echo(f"The service refused: {error}{known}", err=True)
        raise typer.Exit(1) from error
