"""How commands reach a running service, and how they tell that something went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.client import Cairn, CairnError, UnreachableError
from app.client.clients import DEFAULT_URL
from app.commands.plainly import refuse
from app.embedded import running_in

Url = Annotated[str, typer.Option("--url", envvar="CAIRN_URL", help="Where the service listens.")]
Key = Annotated[str | None, typer.Option("--key", envvar="CAIRN_KEY", help="The API key.", show_default=False)]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", envvar="CAIRN_TENANT", help="The tenant an operator's key acts for.", show_default=False),
]

DEVELOPMENT_KEY = Path("var/development-key")

__all__ = ["DEFAULT_URL", "Key", "Tenant", "Url", "connected", "development_key"]


@contextmanager
def connected(url: str, key: str | None, tenant: str | None) -> Iterator[Cairn]:
    """A client of the service; without a key, with the development key where `make run` serves there from this folder.

    Ends the command with status 1 and what to do on stderr when the service refuses or cannot be reached.
    """
    place = _place(url)
    kept = None if key else development_key(place)
    try:
        client = Cairn(url, key=key or kept, tenant=tenant)
    except ValueError as error:
        refuse(f"{error}.")
    try:
        with client as cairn:
            yield cairn
    except UnreachableError as error:
        refuse(
            f"No answer from {url} ({error.__cause__}): start Cairn with `make run` or `cairn dev`,"
            " or say with --url or CAIRN_URL where it listens."
        )
    except CairnError as error:
        known = f" (request {error.request_id})" if error.request_id else ""
        if error.status == HTTPStatus.UNAUTHORIZED:
            typer.echo(_on_keys(given=bool(key), kept=bool(kept)), err=True)
        if error.code == "tenant_required":
            refuse("This is the operator's key, which acts for any tenant: name one with --tenant or CAIRN_TENANT.")
        refuse(f"The service refused: {error}{known}")


def development_key(place: tuple[str, str, int]) -> str | None:
    """The key that `make run` keeps in this folder, for the place where it serves; None for any other place."""
    if not DEVELOPMENT_KEY.is_file():
        return None
    running = running_in(DEVELOPMENT_KEY.parent)
    served = running.url if running is not None and running.url is not None else DEFAULT_URL
    return DEVELOPMENT_KEY.read_text().strip() if place in (_place(served), _place(DEFAULT_URL)) else None


def _place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port, the same however this machine is spelled; the command ends where it is no HTTP URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname:
        refuse(f"{url!r} is no HTTP URL; write --url or CAIRN_URL as {DEFAULT_URL}.")
    return parts.scheme, "127.0.0.1" if parts.hostname == "localhost" else parts.hostname, port


def _on_keys(*, given: bool, kept: bool) -> str:
    if given:
        return (
            "The key given with --key or CAIRN_KEY does not open this service: it may be another service's, revoked or"
            f" expired. `make run` keeps one in {DEVELOPMENT_KEY}; `cairn keys create` makes one."
        )
    if kept:
        return (
            f"The key in {DEVELOPMENT_KEY} does not open this service, which another folder's `make run` may have"
            " started: give its key with --key or CAIRN_KEY."
        )
    return (
        f"Give a key with --key or CAIRN_KEY: `make run` keeps one in {DEVELOPMENT_KEY} of the folder it runs in;"
        " `cairn keys create` makes one."
    )
