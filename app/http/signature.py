"""What a handler takes, read from its annotations, and as FastAPI documents it."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from fastapi import Body as BodyParameter
from fastapi import Query as QueryParameter

from app.http.fields import Body, Query
from app.http.received import Received
from app.http.verbatim import Verbatim


def bodies_of(kind: Any) -> list[type[Body]]:
    """The body models of an annotation: none, one, or those of a union."""
    parts = get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return [part for part in parts if isinstance(part, type) and issubclass(part, Body)]


def documented_as(handler: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    """The handler with a signature that FastAPI documents: the same parameters, marked as query or body."""

    async def documented(**_: Any) -> Any:  # never run: `serve` runs the handler itself
        raise AssertionError("unreachable")

    parameters = []
    for name, parameter in inspect.signature(handler).parameters.items():
        kind = hints[name]
        if kind is Received:
            continue
        if isinstance(kind, type) and issubclass(kind, Query):
            kind = Annotated[kind, QueryParameter()]
        elif bodies_of(kind) or (isinstance(kind, type) and issubclass(kind, Verbatim)):
            kind = Annotated[kind, BodyParameter()]
        parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    documented.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    documented.__name__, documented.__doc__ = handler.__name__, handler.__doc__
    return documented
