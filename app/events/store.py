"""Events in SQL: how they get their position, and how they are read."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.db.database import Reader
from app.db.page import Found
from app.db.shape import Shape, instant
from app.db.sql import Statement, load
from app.errors import BadCursor, CursorExpired, invalid

# Everyone who gives positions, or changes where events are kept, holds this lock.
SEQUENCER_LOCK = 0x6361_6972_6E_02
EVENT = Shape(
    "id", "type", "subject_type", "subject_id", "subject_parent_id", instant("occurred_at"), "position", "data"
)
_CURSOR = re.compile(r"1\.(\d{1,18})").fullmatch
SQL = load(__file__, event=EVENT.json("e"))
MISSING_MONTH = SQL["month_is_missing"]


@dataclass(frozen=True)
class Subject:
    """A kind of resource that events are about: where its rows are, and which of its fields are verbatim.

    `parent` is the column of what it is identified within (an invocation, a dataset), `key` the column of the id;
    `changes` are the ends of the types of its events.
    """

    type: str
    table: str
    fields: tuple[str, ...]
    changes: tuple[str, ...]
    key: str = "id"
    parent: str | None = None


@dataclass(frozen=True)
class Sequenced:
    """The seconds that each event waited for its position, and the tenants whose events they are, each once."""

    waited: list[float]
    tenant_ids: list[str]


async def sequence(database: Reader, limit: int) -> Sequenced:
    """Give positions to the oldest committed events, at most `limit`.

    Each tenant's positions are dense, and an event's position is committed with the event itself: whoever sees a
    position sees all before it. One caller works at a time; another finds nothing.
    """
    row = await database.row(SQL["sequence"], lock=SEQUENCER_LOCK, limit=limit)
    if row is None or row["waited"] is None:
        return Sequenced([], [])
    return Sequenced(list(row["waited"]), list(row["tenant_ids"]))


async def read(
    reader: Reader,
    tenant_id: str,
    after: str | None,
    types: list[str] | None,
    limit: int,
    fields: frozenset[str] = frozenset(),
    subjects: Mapping[str, Subject] | None = None,
) -> Found:
    """The events after a cursor, and the cursor to ask again with.

    Raises `BadCursor`, and `CursorExpired` with the earliest cursor that still works.
    """
    given = None if after is None else _position(after)
    rows = await reader.rows(SQL["read"], tenant_id=tenant_id, after=given, types=types, limit=limit)
    head, earliest = rows[0]["head"], rows[0]["earliest"]
    start = earliest - 1 if given is None else given
    if start > head:
        raise BadCursor("The cursor lies ahead of every event of this tenant; start again without one.")
    if start < earliest - 1:
        raise CursorExpired(
            "Events after this cursor are no longer kept; go on from `earliest`, or from now.",
            earliest=cursor(earliest - 1),
        )
    found = [row for row in rows if row["position"] is not None]
    # A page that is not full has seen everything up to the head, whatever the types.
    reached = found[-1]["position"] if len(found) == limit else max(head, start)
    included = await _included(reader, tenant_id, found, fields, subjects or {}) if fields else {}
    return Found([_shown(row, included) for row in found], cursor(reached))


def cursor(position: int) -> str:
    """The cursor that stands after a position."""
    return base64.urlsafe_b64encode(f"1.{position}".encode()).decode().rstrip("=")


def _position(text: str) -> int:
    try:
        match = _CURSOR(base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)).decode("ascii"))
    except ValueError:
        match = None
    if match is None or cursor(int(match[1])) != text:
        raise BadCursor("The cursor is damaged; start again without one.")
    return int(match[1])


def wanted_fields(text: str | None, subjects: Iterable[Subject]) -> frozenset[str]:
    """The verbatim fields that `?include=a,b` names. Raises `InvalidInput` for one that no subject has."""
    names = frozenset(text.split(",")) if text else frozenset()
    known = frozenset(field for subject in subjects for field in subject.fields)
    if not names <= known:
        raise invalid("include", f"may name only {', '.join(sorted(known)) or 'nothing here'}")
    return names


Included = dict[tuple[str, str | None, str], dict[str, bytes | None]]


async def _included(
    reader: Reader, tenant_id: str, rows: list[Any], fields: frozenset[str], subjects: Mapping[str, Subject]
) -> Included:
    """The verbatim fields of the rows' subjects, by subject; one statement for each kind. One that is gone is not in.

    A kind without any of the fields is left out as a whole: its events are shown as they are.
    """
    found: Included = {}
    for kind in {row["subject_type"] for row in rows} & set(subjects):
        subject = subjects[kind]
        names = [name for name in subject.fields if name in fields]
        keys = {(row["subject_parent_id"], row["subject_id"]) for row in rows if row["subject_type"] == kind}
        if names:
            asked = await reader.rows(
                _fields_of(subject, names),
                tenant_id=tenant_id,
                parents=[parent for parent, _ in keys],
                ids=[key for _, key in keys],
            )
            there = {(row["parent"], row["id"]): {name: row[name] for name in names} for row in asked}
            for parent, key in keys:
                # None where the subject is gone: then the event says so.
                at = there.get((parent if subject.parent else None, key))
                found[kind, parent, key] = at if at is not None else {}
    return found


def _fields_of(subject: Subject, names: list[str]) -> Statement:
    parent = f"t.{subject.parent}" if subject.parent else "CAST(NULL AS text)"
    within = f" AND t.{subject.parent} = given.parent" if subject.parent else ""
    listed = ", ".join(f"t.{name}" for name in names)
    return Statement(
        f"SELECT {parent} AS parent, t.{subject.key} AS id, {listed}"
        " FROM unnest(CAST(:parents AS text[]), CAST(:ids AS text[])) AS given (parent, id)"
        f" JOIN {subject.table} AS t ON t.tenant_id = :tenant_id AND t.{subject.key} = given.id{within}"
    )


async def with_fields(
    reader: Reader, tenant_id: str, rows: list[Any], fields: frozenset[str], subjects: Mapping[str, Subject]
) -> list[bytes]:
    """The bodies of rows of events, which end with `data`, with these verbatim fields of their subjects read in."""
    included = await _included(reader, tenant_id, rows, fields, subjects)
    return [_shown(row, included) for row in rows]


def _shown(row: Any, included: Included) -> bytes:
    """An event's JSON, with the included fields as the last members of its `data`, byte for byte."""
    body: bytes = row["body"]
    values = included.get((row["subject_type"], row["subject_parent_id"], row["subject_id"]))
    if values is None:
        return body
    if not values:
        return body[:-1] + b',"gone":true}'
    more = b"".join(b',"%s":%s' % (name.encode(), value or b"null") for name, value in values.items())
    return body[:-2] + more + b"}}"
