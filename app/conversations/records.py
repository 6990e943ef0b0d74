"""The records of a batch: stored as the text that was sent, and read only for what they say of their submission."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import msgspec
from pydantic_core import CoreSchema, core_schema

from app.errors import invalid
from app.http.large import skip
from app.http.verbatim import Verbatim

T = TypeVar("T")

# From this size on a batch is read in a thread, so that others are answered meanwhile.
THREAD_BYTES = 1024 * 1024
# As many braces tell that there may be many records; and how many there may be.
MANY, RECORDS_MAX = 10_000, 100_000
# Everything that JSON may escape and no Unicode text may hold stands alone; what stands before it is let through.
_LONE_SURROGATE = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


class Records(Verbatim):
    """The exact text of an array of records."""

    __slots__ = ()

    @classmethod
    def checked(cls, value: Verbatim) -> Verbatim:
        """The value, if it is an array. Raises `ValueError`."""
        if not value.startswith(b"["):
            raise ValueError("must be an array of objects")
        return value  # not another copy, of the class: it may be large

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.checked, core_schema.is_instance_schema(Verbatim))

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        return {
            "type": "array",
            "minItems": 1,
            "maxItems": RECORDS_MAX,
            "items": {"type": "object", "additionalProperties": True},
            "description": "Records of any members; kept and returned byte for byte.",
        }


class _Record(msgspec.Struct, gc=False):
    """What is read of a record; every other member is skipped."""

    submission_id: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="submissionId")
    attempt_id: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="attemptId")


_read_all = msgspec.json.Decoder(list[_Record]).decode
_read_one = msgspec.json.Decoder(_Record).decode
_SPACE = re.compile(rb"[ \t\n\r]*").match


@dataclass(frozen=True)
class Owner:
    """Whose a record says it is: its place, and the ids that it carries; None for one that it does not."""

    place: int
    submission_id: str | None
    attempt_id: str | None


@dataclass(frozen=True)
class Batch:
    """A batch as it is stored: its text, the digest of that, the records that carry ids, and what a lone one is."""

    text: Verbatim
    digest: bytes
    owners: list[Owner]
    only_digest: bytes | None

    def named(self, submission_id: str | None, attempt_id: str | None) -> tuple[list[str], int | None]:
        """The other submissions that records of this attempt name, which have to be joined into this one; and the place
        of the first record that can be of no such submission, if there is one.
        """
        joined: set[str] = set()
        for owner in self.owners:
            if attempt_id is None or owner.attempt_id != attempt_id or owner.submission_id is None:
                return [], owner.place
            if owner.submission_id != submission_id:
                joined.add(owner.submission_id)
        return sorted(joined), None


async def read_batch(text: Verbatim) -> Batch:
    """Read a batch. Raises `InvalidInput` where it is empty, or a record is no object."""
    return await asyncio.to_thread(_batch, text) if len(text) > THREAD_BYTES else _batch(text)


def _batch(text: Verbatim) -> Batch:
    found, owners = 0, []
    for record in _records(text):
        if found == RECORDS_MAX:
            raise invalid("/records", f"must have at most {RECORDS_MAX} items")
        if record.submission_id is not msgspec.UNSET or record.attempt_id is not msgspec.UNSET:
            owners.append(Owner(found, _id(record.submission_id), _id(record.attempt_id)))
        found += 1
    if not found:
        raise invalid("/records", "must have at least 1 item")
    only = hashlib.sha256(memoryview(text)[slice(*_inside(text))]).digest() if found == 1 else None
    return Batch(text, hashlib.sha256(text).digest(), owners, only)


def _records(text: bytes) -> Iterable[_Record]:
    """The records: read together where they are few, else one by one, so that no array of tiny ones fills memory."""
    if text.count(b"{") > MANY:
        return map(_record, count(), _pieces(text))
    try:
        return _lenient(_read_all, text)
    except msgspec.ValidationError:
        return map(_record, count(), _pieces(text))


def _record(place: int, piece: memoryview) -> _Record:
    if bytes(piece[:1]) != b"{":
        raise invalid(f"/records/{place}", "must be an object")
    return _lenient(_read_one, piece)


def _pieces(text: bytes) -> Iterator[memoryview]:
    """The text of each item of an array, whose depth has been looked at."""
    position = 1
    while True:
        position = _SPACE(text, position).end()  # type: ignore[union-attr]
        if text[position] in b"],":
            if text[position] in b"]":
                return
            position = _SPACE(text, position + 1).end()  # type: ignore[union-attr]
        end = skip(text, position, len(text))
        yield memoryview(text)[position:end]
        position = end


def _lenient(read: Callable[[bytes | memoryview], T], text: bytes | memoryview) -> T:
    """What the reader gives. It takes no lone surrogates, which JSON may escape: U+0000 in their place, which no id can
    hold either, changes nothing that is read.
    """
    try:
        return read(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return read(_LONE_SURROGATE.sub(lambda found: found[1] or b"\\u0000", text))


def _id(value: msgspec.Raw | msgspec.UnsetType) -> str | None:
    """The id that a member holds; None where it is no text, and so can be nobody's."""
    if isinstance(value, msgspec.UnsetType) or not bytes(value).startswith(b'"'):
        return None
    return msgspec.json.decode(value, type=str)


def _inside(text: bytes) -> tuple[int, int]:
    """Where the only record of an array begins and ends."""
    end = len(text) - 1
    while text[end - 1] in b" \t\n\r":
        end -= 1
    start = 1
    while text[start] in b" \t\n\r":
        start += 1
    return start, end
