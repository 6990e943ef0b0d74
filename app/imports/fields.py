"""Reads the columns of an exported row: each from its exact JSON text into what PostgreSQL takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.http.fields import Id, Instant, Money, Score, Text, Verbatim
from app.http.fields import JsonObject as StorableObject
from app.http.fields import JsonValue as StorableValue

Read = Callable[[bytes], Any]
NULL = b"null"
_decode = json.JSONDecoder(parse_float=Decimal).decode

_id = TypeAdapter(Id).validate_python
_text = TypeAdapter(Text).validate_python
_instant = TypeAdapter(Instant).validate_python
_money = TypeAdapter(Money).validate_python
_score = TypeAdapter(Score).validate_python
_POSTGRES_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)


def decoded(data: bytes) -> Any:
    """The value, numbers with all their digits."""
    return _decode(data.decode())


def _checked(check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except ValidationError as error:
        message = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"]
        raise ValueError(message.removeprefix("Value error, ")) from None


def identifier(data: bytes) -> str:
    """An id: 1 to 255 bytes of text."""
    return str(_checked(_id, decoded(data)))


def words(data: bytes) -> str:
    """Text that PostgreSQL can hold."""
    value = _checked(_text, decoded(data))
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("must not hold a lone surrogate")
    return str(value)


def instant(data: bytes) -> datetime:
    """An instant as PostgreSQL, PostgREST or JavaScript writes it; one without an offset is UTC, as the server was."""
    value = decoded(data)
    found = _POSTGRES_INSTANT.fullmatch(value) if isinstance(value, str) else None
    if found:
        offset = found[3] or "Z"
        offset = offset if offset == "Z" else f"{offset[:3]}:{offset[3:].removeprefix(':') or '00'}"
        value = f"{found[1]}T{found[2]}{offset}"
    moment: datetime = _checked(_instant, value)
    return moment


def money(data: bytes) -> Decimal:
    """A decimal, exact."""
    exact: Decimal = _checked(_money, decoded(data))
    return exact


def score(data: bytes) -> float:
    """A double; PostgREST writes `numeric` as a number, some exports as text."""
    value = decoded(data)
    return float(_checked(_score, Decimal(value) if isinstance(value, str) and _is_number(value) else value))


def _is_number(value: str) -> bool:
    return re.fullmatch(r"-?\d{1,60}(\.\d{1,60})?([eE][+-]?\d{1,3})?", value, re.ASCII) is not None


def whole(data: bytes) -> int:
    """An integer within ±(2^53-1)."""
    value = decoded(data)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53 - 1:
        raise ValueError("must be an integer within ±(2^53-1)")
    return value


def natural(data: bytes) -> int:
    """An integer from 0."""
    value = whole(data)
    if value < 0:
        raise ValueError("must be an integer from 0")
    return value


def flag(data: bytes) -> bool:
    """true or false."""
    value = decoded(data)
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def texts(data: bytes) -> list[str]:
    """A list of texts."""
    value = decoded(data)
    if not isinstance(value, list):
        raise ValueError("must be a list of texts")
    return [words(json.dumps(item).encode()) for item in value]


def payload(data: bytes) -> bytes:
    """Any JSON, byte for byte."""
    return data


def searchable(data: bytes) -> bytes:
    """JSON that `jsonb` can hold."""
    return StorableValue.checked(Verbatim(data))


def searchable_object(data: bytes) -> bytes:
    """A JSON object that `jsonb` can hold."""
    return StorableObject.checked(Verbatim(data))


def one_of(*values: str) -> Read:
    """One of these words."""

    def read(data: bytes) -> str:
        value = decoded(data)
        if value not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return str(value)

    return read
