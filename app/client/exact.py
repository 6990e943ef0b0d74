"""Exact JSON text: what the caller wrote is what is sent, and what was stored is what is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NoReturn

import msgspec

_WHITESPACE: Final = b" \t\n\r"


class Json:
    """One JSON value as its exact text, so that nothing on the way decodes it and dumps it again.

    `Json('{"b":1.0,"a":1e400}')` is sent as written; fields marked verbatim come back as `Json`.
    Whitespace around the value is no part of it. Raises `ValueError` unless the text is exactly one JSON value.
    """

    __slots__ = ("data",)

    data: bytes
    """The text as UTF-8."""

    def __init__(self, text: str | bytes) -> None:
        data = (text.encode() if isinstance(text, str) else bytes(text)).strip(_WHITESPACE)
        _check_one_value(data)
        self.data = data

    @classmethod
    def trusted(cls, data: bytes) -> Json:
        """Wrap text that a JSON parser has already cut out of a larger document."""
        made = cls.__new__(cls)
        made.data = data
        return made

    @property
    def text(self) -> str:
        """The exact text."""
        return self.data.decode()

    def value(self) -> Any:
        """The decoded value, as the standard library decodes it (numbers with a point become floats)."""
        return json.loads(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Json({self.text!r})" if len(self.data) <= 80 else f"Json(<{len(self.data)} bytes>)"


def dump(value: Any) -> bytes:
    """A body as UTF-8 JSON: `Json` is spliced in as it is, `Decimal` keeps its digits, instants become RFC 3339."""
    return b"".join(_pieces(value))


def instant(moment: datetime) -> str:
    """An instant as the service writes it (UTC, microseconds, `Z`); a naive time is a `ValueError`."""
    if moment.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def members(data: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each as its exact text. Raises `ValueError` when it is no object."""
    try:
        return {name: bytes(raw) for name, raw in msgspec.json.decode(data, type=dict[str, msgspec.Raw]).items()}
    except (msgspec.DecodeError, UnicodeDecodeError):
        # msgspec refuses lone-surrogate escapes, which are legal JSON; the standard library does not.
        return _walk_object(data.decode())


def elements(data: bytes) -> list[bytes]:
    """The elements of a JSON array, each as its exact text. Raises `ValueError` when it is no array."""
    try:
        return [bytes(raw) for raw in msgspec.json.decode(data, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _walk_array(data.decode())


def decode_exactly(data: bytes) -> Any:
    """Decode with every number that has a point or an exponent as `Decimal`, so that no digit is lost."""
    return json.loads(data, parse_float=Decimal)


def _pieces(value: Any) -> list[bytes]:
    match value:
        case Json():
            return [value.data]
        case Decimal():
            if not value.is_finite():
                raise ValueError(f"JSON has no number for {value}")
            return [str(value).encode()]
        case datetime():
            return [b'"', instant(value).encode(), b'"']
        case Mapping():
            pieces = [b"{"]
            for name, member in value.items():
                pieces += [b"," if len(pieces) > 1 else b"", json.dumps(str(name)).encode(), b":", *_pieces(member)]
            return [*pieces, b"}"]
        case list() | tuple():
            pieces = [b"["]
            for position, element in enumerate(value):
                pieces += [b"," if position else b"", *_pieces(element)]
            return [*pieces, b"]"]
        case _:
            return [json.dumps(value, allow_nan=False).encode()]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


# Numbers are only stepped over here: turning a number of a million digits into an int would take seconds.
_STEPPER: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse_constant)


def _check_one_value(data: bytes) -> None:
    text = data.decode()
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError:
        _, end = _STEPPER.raw_decode(text)
        if end != len(text):
            raise ValueError("more than one JSON value") from None


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {at} of the JSON text")
    return _skip(text, at + 1)


def _walk_object(text: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    at = _expect(text, _skip(text, 0), "{")
    while text[at : at + 1] != "}":
        if found:
            at = _expect(text, at, ",")
        name, at = json.JSONDecoder().raw_decode(text, at)
        at = _expect(text, _skip(text, at), ":")
        _, end = _STEPPER.raw_decode(text, at)
        found[name] = text[at:end].encode()
        at = _skip(text, end)
    return found


def _walk_array(text: str) -> list[bytes]:
    found: list[bytes] = []
    at = _expect(text, _skip(text, 0), "[")
    while text[at : at + 1] != "]":
        if found:
            at = _expect(text, at, ",")
        _, end = _STEPPER.raw_decode(text, at)
        found.append(text[at:end].encode())
        at = _skip(text, end)
    return found
