"""The option that names whose signature a file must bear."""

from __future__ import annotations

import base64
from typing import Annotated

import typer

from app.settings.keeping import ED25519_BYTES


def _keys(given: list[str] | None) -> list[str] | None:
    for key in given or ():
        try:
            size = len(base64.b64decode(key, validate=True))
        except ValueError:  # A letter that is not ASCII, too.
            size = 0
        if size != ED25519_BYTES:
            raise typer.BadParameter(f"{key!r} is no Ed25519 public key in base64 ({ED25519_BYTES} bytes).")
    return given


PublicKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--public-key",
        callback=_keys,
        help="An Ed25519 public key in base64, as GET /v1/capabilities tells it: the file must be signed with it."
        " Repeat it to take one of several.",
        show_default=False,
    ),
]
