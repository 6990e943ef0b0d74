"""The digest of what a client sent, so that creating the same thing twice is told from a conflict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

# Beyond this size a value is compared as text, since building it would cost many times its size.
COMPARED_BYTES_MAX = 1024 * 1024
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


class JsonText(bytes):
    """The text of a JSON value that `jsonb` can hold; two of them are equal where their values are."""

    __slots__ = ()


def digest_of(fields: Mapping[str, Any]) -> bytes:
    """SHA-256 over the fields given: exact payloads as their bytes, everything else in one canonical text."""
    head: list[str] = []
    tail: list[bytes] = []
    for name in sorted(fields):
        value = fields[name]
        if type(value) is str:
            head.append(f"{name}\0s{len(value)}\0{value}")
        else:
            kind, text = _canonical(value)
            head.append(f"{name}\0{kind}{len(text)}\0")
            tail.append(text)
    found = hashlib.sha256("".join(head).encode())
    for text in tail:
        found.update(text)
    return found.digest()


def _canonical(value: Any) -> tuple[str, bytes]:
    if isinstance(value, JsonText) and len(value) <= COMPARED_BYTES_MAX:
        members = json.loads(value, parse_int=_tagged, parse_float=_tagged)
        return "j", json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    if isinstance(value, bytes):
        return "b", value
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
