"""The JSON values that stay text: exact payloads, and what `jsonb` can hold of the rest."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import CoreSchema, core_schema

from app.db.digest import JsonText

STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRINGS_AND_COLONS = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\n\r]*(:?)', re.DOTALL)


class Verbatim(bytes):
    """The exact JSON text of one value, as UTF-8 bytes."""

    __slots__ = ()

    @classmethod
    def checked(cls, value: Verbatim) -> Verbatim:
        """The value, if it is of this kind. Raises `ValueError`."""
        return value

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        return {"description": "Any JSON; kept and returned byte for byte."}


class JsonObject(Verbatim, JsonText):
    """A JSON object that is stored as `jsonb` and filtered on: what `jsonb` cannot hold is refused."""

    __slots__ = ()

    @classmethod
    def checked(cls, value: Verbatim) -> Verbatim:
        """The value, if it is an object that `jsonb` can hold. Raises `ValueError`."""
        return cls(_storable_object(value))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.checked, core_schema.is_instance_schema(Verbatim))

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": True}


class JsonValue(JsonObject):
    """Any JSON value stored as `jsonb`: what `jsonb` cannot hold is refused."""

    __slots__ = ()

    @classmethod
    def checked(cls, value: Verbatim) -> Verbatim:
        """The value, if `jsonb` can hold it. Raises `ValueError`."""
        return cls(_storable(value))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.checked, core_schema.is_instance_schema(Verbatim))

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        return {}


def _storable(value: Verbatim) -> Verbatim:
    """The value, if `jsonb` can hold it: no U+0000, lone surrogate, repeated member, or number beyond `numeric`."""
    if value.find(b"\\") >= 0 or _names_repeat(value):
        _check_texts(json.loads(value, parse_int=str, parse_float=str, object_pairs_hook=members_once))
    _check_numbers(value)
    return value


def _names_repeat(value: bytes) -> bool:
    """Whether any two members, of whatever objects, have one name; only then are the objects looked at."""
    names = [name for name, colon in _STRINGS_AND_COLONS.findall(value) if colon]
    return len(names) != len(set(names))


def members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. Raises `ValueError` where one is named twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("must not name a member twice")
    return members


def _storable_object(value: Verbatim) -> Verbatim:
    if not value.startswith(b"{"):
        raise ValueError("must be a JSON object")
    return _storable(value)


def _check_texts(value: Any) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if "\x00" in item:
                raise ValueError("must not hold U+0000")
            if not item.isascii() and any("\ud800" <= char <= "\udfff" for char in item):
                raise ValueError("must not hold a lone surrogate")
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += item.keys()
            pending += item.values()


_BIG_EXPONENT = re.compile(rb"[0-9][eE]\+?([0-9]{4,})|[0-9][eE]-([0-9]{4,})")
_LONG_NUMBER = re.compile(rb"[0-9]{4000,}")


def _check_numbers(value: bytes) -> None:
    """`numeric` holds 131,072 digits before the point and 16,383 after; exponents past 3 digits are refused here."""
    bare = value
    if b"e" in bare or b"E" in bare or len(bare) >= 4000:
        bare = STRINGS.sub(b'""', bare)
        if _BIG_EXPONENT.search(bare) or _LONG_NUMBER.search(bare):
            raise ValueError("must not hold a number beyond what can be compared (exponent or length)")
