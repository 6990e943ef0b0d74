"""A JSON object from the service: typed attributes, plain mapping, and the exact text of every member."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from app.client.exact import Json, decode_exactly, elements, members
from app.client.reply import Reply

_Reader = Callable[[bytes], Any]


class Record(Mapping[str, Any]):
    """An object as the service wrote it, decoded member by member when asked.

    Declared fields are attributes and read None when absent or null: money as `Decimal`, instants as `datetime`,
    verbatim fields as `Json`. `record["name"]` reads any member, declared or not; `record.raw("name")` its exact text.
    """

    json_bytes: bytes
    """The object's exact text."""

    reply: Reply | None
    """The answer this record was, when it was a whole one: `reply.etag`, `reply.status`, `reply.replayed`."""

    def __init__(self, data: bytes, reply: Reply | None = None) -> None:
        self.json_bytes = data
        self.reply = reply
        self._members = members(data)

    @property
    def etag(self) -> str | None:
        """The row's revision, when this record was a whole answer that carried one."""
        return self.reply.etag if self.reply else None

    def raw(self, *path: str | int) -> Json:
        """The exact text at a path of member names and array positions; a `LookupError` when there is none."""
        found = self.json_bytes
        for step in path:
            found = members(found)[step] if isinstance(step, str) else elements(found)[step]
        return Json.trusted(found)

    def __getitem__(self, name: str) -> Any:
        return self._read(name, self._members[name])

    def __getattr__(self, name: str) -> Any:
        if name not in _readers(type(self)):
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; use record[{name!r}] for others")
        found = self._members.get(name, b"null")
        return None if found == b"null" else self._read(name, found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json_bytes.decode()[:200]})"

    def _read(self, name: str, found: bytes) -> Any:
        reader = _readers(type(self)).get(name, decode_exactly)
        return None if found == b"null" and reader is not _verbatim else reader(found)


@cache
def _readers(kind: type[Record]) -> dict[str, _Reader]:
    own = set(Record.__annotations__)
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items() if name not in own}


def _reader(hint: Any) -> _Reader:
    if get_origin(hint) in (Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is list and issubclass(_plain(get_args(hint)[0]), Record):
        kind = get_args(hint)[0]
        return lambda data: [kind(element) for element in elements(data)]
    if get_origin(hint) is dict and issubclass(_plain(get_args(hint)[1]), Record):
        named = get_args(hint)[1]
        return lambda data: {name: named(value) for name, value in members(data).items()}
    if hint is Json:
        return _verbatim
    if hint is Decimal:
        return _money
    if hint is datetime:
        return lambda data: datetime.fromisoformat(json.loads(data))
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint
    return json.loads


def _plain(hint: Any) -> type:
    return hint if isinstance(hint, type) else object


def _verbatim(data: bytes) -> Json:
    return Json.trusted(data)


def _money(data: bytes) -> Decimal:
    return Decimal(data.decode().strip('"'))
