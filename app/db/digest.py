"""The digest of what a client sent, so that creating the same thing twice is told from a conflict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import msgspec

# Beyond this size a value is compared as text, since building it would cost many times its size.
COMPARED_BYTES_MAX = 1024 * 1024
_encode = msgspec.json.Encoder(order="sorted").encode
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


class JsonText(bytes):
    """The text of a JSON value that `jsonb` can hold; two of them are equal where their values are."""

    __slots__ = ()


def digest_of(fields: Mapping[str, Any]) -> bytes:
    """SHA-256 over the fields given: exact payloads as their bytes, everything else in one canonical text."""
    head: dict[str, str | list[Any]] = {}
    tail: list[tuple[str, bytes]] = []
    for name, value in fields.items():
        if type(value) is str:
            head[name] = value
        else:
            kind, text = _canonical(value)
            head[name] = [kind, len(text)]
            tail.append((name, text))
    if len(tail) > 1:
        tail.sort()
    found = hashlib.sha256(_encode(head))
    for _, text in tail:
        found.update(text)
    return found.digest()


def _canonical(value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes):
        if not isinstance(value, JsonText) or len(value) > COMPARED_BYTES_MAX:
            return "b", value
        members = json.loads(value, parse_int=_tagged, parse_float=_tagged)
        return "j", json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    if isinstance(value, str):
        return "s", value.encode()
    if isinstance(value, datetime):
        return "t", value.isoformat().encode()
    if isinstance(value, Decimal):
        return "d", _digits(value).encode()
    if isinstance(value, list | tuple):
        return "l", b"".join(b"%b%d:%b" % (kind.encode(), len(text), text) for kind, text in map(_canonical, value))
    if isinstance(value, Mapping):
        return "m", digest_of(value)
    return "v", repr(value).encode()


def _digits(number: Decimal) -> str:
    return str(number.normalize(_EXACT)) if number else "0"


def _tagged(number: str) -> str:
    """A number by its value, told from every text by U+0000, which no text here holds."""
    return "\x00" + _digits(Decimal(number))
