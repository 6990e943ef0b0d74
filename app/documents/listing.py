"""Queries of a collection: what bodies contain, and values that stand at places in them, both found by the index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from app.db.database import Reader
from app.db.page import Found, Listing, Page, Sort
from app.db.shape import stored_bytes
from app.documents import secrecy, store
from app.documents.rules import within
from app.documents.store import DOCUMENT, LIVE
from app.errors import invalid

MEMBERS_MAX, VALUES_MAX = 20, 1000
# So many segments that are numbers are looked for in arrays by the index; what is found is looked at exactly anyway.
PLACES_MAX = 2
_PLACE = re.compile(r"0|[1-9][0-9]{0,8}").fullmatch


@dataclass(frozen=True)
class Among:
    """Values, one of which must stand where a JSON Pointer leads."""

    pointer: str
    values: tuple[bytes, ...]

    @property
    def path(self) -> list[str]:
        """The way there in what queries look in."""
        return ["body", *secrecy.segments(self.pointer)]

    def probes(self, tenant_id: str, collection: str) -> Iterator[tuple[bytes, bytes]]:
        """What a body with each value contains, and the value: a number is a place in an array, or a member's name."""
        for value in self.values:
            ways = [value]
            places = 0
            for segment in reversed(secrecy.segments(self.pointer)):
                named = [b"{%b:%b}" % (json.dumps(segment).encode(), way) for way in ways]
                if _PLACE(segment):
                    places += 1
                    # Beyond these anything may stand there.
                    ways = [*named, *(b"[%b]" % way for way in ways)] if places <= PLACES_MAX else [b"{}", b"[]"]
                else:
                    ways = named
            for way in ways:
                yield within(tenant_id, collection, b',"body":%b' % way), value


@lru_cache(maxsize=4 * (MEMBERS_MAX + 1))
def _listing(*, contains: bool, among: int, many_ways: bool) -> Listing:
    """The list under a condition of containment or none, and so many of membership.

    With `many_ways` a body may hold a value in several of the ways that are looked for, and is one row all the same.
    """
    conditions = ["d.indexed @> CAST(:contains AS jsonb)"] if contains else []
    parameters = ["contains"] if contains else []
    source = "documents AS d"
    for place in range(among):
        found = f"(d.indexed #> CAST(:path_{place} AS text[]))"
        parameters += [f"path_{place}", f"values_{place}"]
        if place == 0:
            # Each value is a search in the index; only one of them can be what stands there, so no row comes twice,
            # unless one is looked for in several ways.
            given = "unnest(CAST(:probes AS jsonb[]), CAST(:values_0 AS jsonb[])) AS p (probe, value)"
            one = "SELECT * FROM documents AS d WHERE d.indexed @> p.probe OFFSET 0"
            source = f"{given} CROSS JOIN LATERAL ({one}) AS d"
            conditions.append(f"{found} = p.value")
            parameters.append("probes")
        else:
            conditions.append(f"{found} = ANY (CAST(:values_{place} AS jsonb[]))")
    # OFFSET 0: what matches is found first, and by its own index alone. Together with the order and the limit it would
    # be looked for on a walk through the collection, which ends soon only where much of it matches.
    where = " AND ".join(conditions) or "true"
    once = "DISTINCT ON (d.position) " if many_ways else ""
    return Listing(
        f"documents {contains} {among} {many_ways}",
        f"(SELECT {once}d.* FROM {source} WHERE {where} OFFSET 0) AS t" if parameters else "documents AS t",
        DOCUMENT,
        sorts={
            "position": Sort("{t}.position", "bigint"),
            "updated_at": Sort("{t}.updated_at", "timestamptz"),
            "created_at": Sort("{t}.created_at", "timestamptz"),
        },
        default=("position", "asc"),
        filters={"collection": f"t.collection = :collection AND {LIVE}", **dict.fromkeys(parameters, "true")},
        weights={"body": stored_bytes("t.body")},
    )


def search(
    tenant_id: str, collection: str, contains: bytes | None, members: Sequence[Among]
) -> tuple[Listing, dict[str, Any]]:
    """The list of what meets the conditions, and its filters."""
    given: dict[str, Any] = {"collection": collection}
    many_ways = False
    if contains is not None:
        given["contains"] = within(tenant_id, collection, b',"body":%b' % contains)
    # The index is asked for the one with the fewest values.
    for place, among in enumerate(sorted(members, key=lambda among: len(among.values))):
        given[f"path_{place}"], given[f"values_{place}"] = among.path, list(among.values)
        if place == 0:
            pairs = list(among.probes(tenant_id, collection))
            given["probes"], given["values_0"] = [probe for probe, _ in pairs], [value for _, value in pairs]
            many_ways = len(pairs) > len(among.values)
    return _listing(contains=contains is not None, among=len(members), many_ways=many_ways), given


async def query(
    reader: Reader, tenant_id: str, collection: str, page: Page, contains: bytes | None, among: bytes | None
) -> Found:
    """One page of the documents that meet every condition. Raises `InvalidInput`, `BadCursor`."""
    members = [] if among is None else _members(among)
    # The rules are read before what they are about: a secret path that is named meanwhile came after this query.
    paths = await store.uncut(reader, tenant_id, collection)
    if paths and _asks_for(paths, contains, members):
        return Found([])
    listing, given = search(tenant_id, collection, contains, members)
    found = await listing.page(reader, tenant_id, page, given)
    if paths and page.include:
        return Found(await store.without_secrets(found.items, paths), found.next_cursor, found.total)
    return found


def _asks_for(paths: Sequence[str], contains: bytes | None, members: Sequence[Among]) -> bool:
    """Whether a condition is about what is secret, and so would tell of it while it is not cut yet."""
    if any(secrecy.reaches(paths, among.pointer) for among in members):
        return True
    return contains is not None and any(secrecy.reaches(paths, pointer) for pointer in _pointers(json.loads(contains)))


def _pointers(value: Any) -> list[str]:
    """The JSON Pointers of all that stands in a value."""
    found: list[str] = []
    pending = [("", value)]
    while pending:
        pointer, item = pending.pop()
        parts = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for name, part in parts:
            below = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
            found.append(below)
            pending.append((below, part))
    return found


def _members(text: bytes) -> list[Among]:
    """Where values are looked for, and which. Raises `InvalidInput`."""
    given = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    if len(given) > MEMBERS_MAX:
        raise invalid("/in", f"must have at most {MEMBERS_MAX} members")
    found = [_among(name, values) for name, values in given.items()]
    if sum(len(among.values) for among in found) > VALUES_MAX:
        raise invalid("/in", f"must have at most {VALUES_MAX} values")
    return found


def _among(name: str, values: Any) -> Among:
    escaped = name.replace("~", "~0").replace("/", "~1")
    place, pointer = f"/in/{escaped}", name if name.startswith("/") else f"/{escaped}"
    try:
        secrecy.segments(pointer)
    except ValueError as error:
        raise invalid(place, str(error)) from None
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        raise invalid(place, "must be an array of strings, numbers, booleans and nulls")
    # Each value once: equal numbers are one, however they are written.
    return Among(pointer, tuple(_text(value) for value in dict.fromkeys((type(value), value) for value in values)))


def _text(kind_and_value: tuple[type, Any]) -> bytes:
    _, value = kind_and_value
    return (str(value) if isinstance(value, Decimal) else json.dumps(value)).encode()
