"""`cairn openapi` and `cairn settings`: what the service promises and what it can be told, as text."""

from __future__ import annotations

import json
import sys

import typer

from app.commands.loading import loading
from app.settings_example import example


def openapi() -> None:
    """Print the OpenAPI document; it needs no database.

    The document is the one that the running service answers at /openapi.json.
    """
    with loading():
        from app.main import create_app  # noqa: PLC0415 - the whole application, which the other commands do not need

    # Where output is not Unicode, JSON's own escapes keep every letter.
    escaped = not sys.stdout.encoding.lower().startswith("utf")
    typer.echo(json.dumps(create_app().openapi(), indent=2, ensure_ascii=escaped))


def settings() -> None:
    """Print every setting with its default, its bound and its meaning: the text of .env.example."""
    typer.echo(example(), nl=False)
