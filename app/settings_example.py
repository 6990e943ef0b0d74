"""Writes `.env.example` from the settings tree, so that the file can never say something else than the code."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.settings import Settings

HEAD = """\
# Every setting of Cairn with its default. Copy this file to .env and uncomment what you change, or set the variables.
# This file is made from app/settings by `make env`.
"""


def example() -> str:
    """Answers the text of `.env.example`: each setting once, commented out, with its meaning, bounds and default."""
    prefix = Settings.model_config["env_prefix"]
    delimiter = Settings.model_config["env_nested_delimiter"] or ""
    return HEAD + "".join(_lines(Settings, prefix, delimiter))


def _lines(group: type[BaseModel], prefix: str, delimiter: str) -> Iterator[str]:
    fields = group.model_fields.items()
    for name, field in fields:
        if _group(field) is None:
            facts = " ".join([field.description or "", *_limits(field)])
            yield f"\n# {facts}\n# {prefix}{name.upper()}={_default(field)}\n"
    for name, field in fields:
        nested = _group(field)
        if nested is not None:
            yield f"\n\n# {name}: {cleandoc(nested.__doc__ or '')}\n"
            yield from _lines(nested, prefix + name.upper() + delimiter, delimiter)


def _group(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _limits(field: FieldInfo) -> Iterator[str]:
    if get_origin(field.annotation) is Literal:
        yield f"(One of: {', '.join(get_args(field.annotation))}.)"
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    bounds = [
        f"{words[name]} {value}"
        for part in field.metadata
        for name in words
        if (value := getattr(part, name, None)) is not None
    ]
    if bounds:
        yield f"({', '.join(bounds).capitalize()}.)"


def _default(field: FieldInfo) -> str:
    default = field.get_default()
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case SecretStr():
            return default.get_secret_value()
        case _:
            return str(default)
