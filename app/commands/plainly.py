"""How commands read their settings and end: with one sentence that says what to do, never with a stack."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.db.revision import MigrationRefused, SchemaRefused
from app.embedded import PartError
from app.errors import AppError
from app.settings import Settings

T = TypeVar("T")


def refuse(sentence: str) -> NoReturn:
    """End the command with status 1 and one sentence on standard error."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


@contextmanager
def plainly() -> Iterator[None]:
    """Turn what can go wrong at a command into its one sentence."""
    try:
        yield
    except (PartError, MigrationRefused, SchemaRefused) as error:
        refuse(str(error))
    except AppError as error:
        refuse(error.detail)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Carry out a command's asynchronous work; a refusal ends it plainly."""
    with plainly():
        return asyncio.run(work)


def read_settings(**chosen: object) -> Settings:
    """The settings, with a command's options put over them; a name is as in `http__port`.

    The options go through the environment, so that processes that this one starts see them too.
    """
    for name, value in chosen.items():
        if value is not None:
            os.environ["CAIRN_" + name.upper()] = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = "CAIRN_" + "__".join(str(part) for part in first["loc"]).upper()
        why = first["msg"].removeprefix("Value error, ")
        refuse(f"The setting {name} cannot be used: {why}; correct it in the environment or in .env.")
    except SettingsError as error:
        refuse(f"The settings cannot be read ({error}); correct them in the environment or in .env.")
