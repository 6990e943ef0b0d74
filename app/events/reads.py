"""Events, read in their order: cursors, pages, and the verbatim fields of what the events are about."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.db.database import Reader
from app.db.page import PAGE_BYTES_MAX, Found
from app.db.shape import stored_bytes
from app.db.sql import Statement
from app.errors import BadCursor, CursorExpired, invalid
from app.events.store import SQL, Subject

# Where a read starts that has no position yet: at the earliest event that is kept; or after the last, whichever it is.
EARLIEST, NOW = -1, None
# The cursor of the latter, as a client writes it.
HEAD = "now"
_POSITION_MAX = 10**18
# One without a mark of its tenant is of an earlier release.
_CURSOR = re.compile(r"1\.(?P<position>0|[1-9]\d{0,17})(?:~(?P<tenant>[0-9a-f]{8}))?").fullmatch


@dataclass(frozen=True)
class Wanted:
    """Which events: of these types, or all; and which verbatim fields to show of which of their subjects."""

    types: tuple[str, ...] | None = None
    fields: frozenset[tuple[Subject, str]] = frozenset()


@dataclass(frozen=True)
class Events:
    """A page: each event's position and its JSON; the positions after which it started and up to which it has read."""

    found: Sequence[tuple[int, bytes]]
    started: int
    reached: int

    def body(self, tenant_id: str) -> bytes:
        """The page as JSON."""
        return Found([text for _, text in self.found], cursor_of(tenant_id, self.reached)).body()


def wanted(types: Sequence[str] | None, include: str | None, subjects: Iterable[Subject]) -> Wanted:
    """What `?type=a&type=b&include=c,d` asks for.

    Raises `InvalidInput` for a type that there is not, for which a reader would wait in vain, and for a field that no
    subject has.
    """
    subjects = tuple(subjects)
    told = frozenset().union(*(subject.event_types for subject in subjects))
    if types is not None and not told.issuperset(types):
        raise invalid("type", f"may name only {', '.join(sorted(told))}")
    known = [(subject, field) for subject in subjects for field in subject.fields]
    names = frozenset(include.split(",")) if include else frozenset()
    allowed = {field for _, field in known}
    if not names <= allowed:
        raise invalid("include", f"may name only {', '.join(sorted(allowed)) or 'nothing here'}")
    return Wanted(None if types is None else tuple(types), frozenset(pair for pair in known if pair[1] in names))


async def read(
    reader: Reader,
    tenant_id: str,
    after: int | None,
    wanted: Wanted,
    limit: int,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Events:
    """The events after a position: at most `limit`, and no more once they have so many bytes; one always fits.

    After `EARLIEST` they begin with the first that is kept; after `NOW` there are none, and the page stands at the
    head. Raises `BadCursor` for a position ahead of the head, and `CursorExpired` with the earliest cursor that works.
    """
    rows = await reader.rows(
        SQL["read"],
        tenant_id=tenant_id,
        after=_POSITION_MAX if after is None else after,
        types=wanted.types,
        limit=limit,
        bytes_max=bytes_max,
    )
    head, earliest = rows[0]["head"], rows[0]["earliest"]
    start = head if after is None else earliest - 1 if after == EARLIEST else after
    if start > head:
        raise BadCursor("The cursor lies ahead of every event of this tenant; start again without one.")
    if start < earliest - 1:
        raise CursorExpired(
            "Events after this cursor are no longer kept; go on from `earliest`, or from now.",
            earliest=cursor_of(tenant_id, earliest - 1),
        )
    found = [row for row in rows if row["position"] is not None]
    bodies = await _shown(reader, tenant_id, found, wanted.fields, bytes_max)
    shown = [(row["position"], body) for row, body in zip(found, bodies, strict=False)]
    whole = not found or len(shown) == found[0]["candidates"] < limit
    # A page that is not cut off has seen everything up to the head, whatever the types.
    return Events(shown, start, head if whole else shown[-1][0])


def cursor_of(tenant_id: str, position: int) -> str:
    """The cursor that stands after a position of this tenant's events."""
    return _encoded(f"1.{position}~{_mark(tenant_id)}")


def cursor_sql(tenant_id: str, position: str) -> str:
    """The SQL of the same, of two SQL expressions."""
    mark = f"left(encode(sha256(convert_to({tenant_id}, 'UTF8')), 'hex'), 8)"
    text = f"convert_to('1.' || {position} || '~' || {mark}, 'UTF8')"
    return f"rtrim(translate(encode({text}, 'base64'), '+/', '-_'), '=')"


def position_of(tenant_id: str, cursor: str | None) -> int | None:
    """The position that a cursor stands after: `EARLIEST` without one, `NOW` for `now`. Raises `BadCursor`."""
    if cursor is None:
        return EARLIEST
    if cursor == HEAD:
        return NOW
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    match = _CURSOR(text)
    if match is None or _encoded(text) != cursor:
        raise BadCursor("The cursor is damaged; start again without one.")
    if match["tenant"] not in (None, _mark(tenant_id)):
        raise BadCursor("The cursor is of another tenant's events; start again without one.")
    return int(match["position"])


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _mark(tenant_id: str) -> str:
    """What tells tenants apart in cursors: a mistake is noticed, nothing is hidden."""
    return hashlib.sha256(tenant_id.encode()).hexdigest()[:8]


async def with_fields(
    reader: Reader,
    tenant_id: str,
    rows: Sequence[Any],
    names: Collection[str],
    subjects: Mapping[str, Subject],
    bytes_max: int,
) -> list[bytes]:
    """The bodies of rows of events, which end with `data`, with the fields of these names read in where there are any.

    `subjects` are by their type. It ends before the first whose fields would be too much beside those before it; one
    always fits.
    """
    fields = frozenset((subject, field) for subject in subjects.values() for field in subject.fields if field in names)
    return await _shown(reader, tenant_id, rows, fields, bytes_max)


async def _shown(
    reader: Reader, tenant_id: str, rows: Sequence[Any], fields: frozenset[tuple[Subject, str]], bytes_max: int
) -> list[bytes]:
    """Each event's JSON, with the fields of its subject; one statement for each kind of subject.

    It ends before the first event whose fields would be too much beside those before it.
    """
    values: dict[int, Any] = {}
    concerned: set[int] = set()
    for subject in sorted({subject for subject, _ in fields}, key=lambda subject: subject.type):
        about = [place for place, row in enumerate(rows) if row["subject_type"] == subject.type]
        if about:
            names = tuple(name for name in subject.fields if (subject, name) in fields)
            concerned.update(about)
            asked = await reader.rows(
                _fields_of(subject, names),
                tenant_id=tenant_id,
                places=about,
                parents=[rows[place]["subject_parent_id"] for place in about],
                ids=[rows[place]["subject_id"] for place in about],
                bytes_max=bytes_max,
            )
            values |= {row["place"]: (row["fits"], [(name, row[name]) for name in names]) for row in asked}
    shown: list[bytes] = []
    for place, row in enumerate(rows):
        body: bytes = row["body"]
        if place in concerned:
            # A subject that is not found is gone.
            fits, found = values.get(place, (True, None))
            if not fits:
                break
            body = _with(body, found)
        shown.append(body)
    return shown


def _fields_of(subject: Subject, names: Sequence[str]) -> Statement:
    within = f" AND t.{subject.parent} = given.parent" if subject.parent else ""
    listed = ", ".join(f"t.{name}" for name in names)
    fitting = ", ".join(f"CASE WHEN fits THEN {name} END AS {name}" for name in names)
    return Statement(
        f"SELECT place, fits, {fitting} FROM (SELECT *, COALESCE(sum(bytes) OVER"
        " (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < CAST(:bytes_max AS bigint) AS fits"
        f" FROM (SELECT given.place, {' + '.join(stored_bytes(f't.{name}') for name in names)} AS bytes, {listed}"
        " FROM unnest(CAST(:places AS bigint[]), CAST(:parents AS text[]), CAST(:ids AS text[]))"
        " AS given (place, parent, id)"
        f" JOIN {subject.table} AS t ON t.tenant_id = :tenant_id AND t.{subject.key} = given.id{within}) AS found"
        ") AS weighed"
    )


def _with(body: bytes, fields: Sequence[tuple[str, bytes | None]] | None) -> bytes:
    """An event's JSON with the fields as the last members of its `data`, byte for byte; None where they are gone."""
    if fields is None:
        return body[:-1] + b',"gone":true}'
    more = b"".join(b',"%b":%b' % (name.encode(), value or b"null") for name, value in fields)
    return body[:-2] + more + b"}}"
