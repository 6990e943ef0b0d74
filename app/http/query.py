"""Reads the query string of a request by a model: each name known, each value once unless its field is a list."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from app.errors import MalformedRequest, invalid
from app.http.fields import Query
from app.http.problems import rejected

PARAMETERS_MAX = 200


def read_query(query: bytes, model: type[Query]) -> Query:
    """The parameters. Raises `MalformedRequest` (400) where it is no query string, `InvalidInput` (422) otherwise."""
    if not query:
        return model()
    known, lists = _names(model)
    given: dict[str, Any] = {}
    for name, value in _pairs(query, known):
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise invalid(name, "must be given once")
        else:
            given[name] = value
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise rejected(error, query=True) from None


def refuse_query(query: bytes) -> None:
    """Refuse whatever parameter a call is sent that takes none. Raises as `read_query`."""
    if query:
        _pairs(query, frozenset())


def _pairs(query: bytes, known: frozenset[str]) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise MalformedRequest("The query string is not percent-encoded UTF-8, or has too many parameters.") from None
    for name, value in pairs:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise invalid(name.replace("\x00", "?"), f"is not a parameter of this call; known: {listed}")
        if "\x00" in value:
            raise invalid(name, "must not hold U+0000")
    return pairs


@lru_cache(maxsize=1024)
def _names(model: type[BaseModel]) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the parameters, and those of them that may come more than once."""
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    lists = {
        name
        for name, info in fields.items()
        if any(get_origin(part) is list for part in (info.annotation, *get_args(info.annotation)))
    }
    return frozenset(fields), frozenset(lists)
