"""The option that names whose signature a file must bear."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import typer

KEY_BYTES = 32


def _keys(given: list[str] | None) -> list[str] | None:
    for key in given or ():
        try:
            size = len(base64.b64decode(key, validate=True))
        except binascii.Error:
            size = 0
        if size != KEY_BYTES:
            raise typer.BadParameter(f"{key!r} is no Ed25519 public key in base64 ({KEY_BYTES} bytes).")
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
