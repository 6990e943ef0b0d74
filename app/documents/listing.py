"""Queries of a collection: what bodies contain, and values that stand at places in them, both found by the index."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from app.db.database import Reader
from app.db.page import Found, Listing, Page, Sort
from app.db.shape import stored_bytes
from app.documents import secrecy, store
from app.documents.rules import within
from app.documents.store import DOCUMENT, LIVE
from app.errors import invalid

MEMBERS_MAX, VALUES_MAX = 20, 1000
# One whose values are many is a list in the index, and no walk through the collection.
_PATH = "d.indexed @@ CAST(CAST(:in AS text) AS jsonpath)"
_CONTAINED = "d.indexed @> CAST(:contains AS jsonb)"


def _listing(name: str, source: str, *filters: str) -> Listing:
    return Listing(
        name,
        source,
        DOCUMENT,
        sorts={
            "position": Sort("{t}.position", "bigint"),
            "updated_at": Sort("{t}.updated_at", "timestamptz"),
            "created_at": Sort("{t}.created_at", "timestamptz"),
        },
        default=("position", "asc"),
        filters={"collection": f"t.collection = :collection AND {LIVE}", **dict.fromkeys(filters, "true")},
        weights={"body": stored_bytes("t.body")},
    )


def _matched(condition: str) -> str:
    # OFFSET 0: what matches is found first, and by its own index alone. Together with the order and the limit it would
    # be looked for on a walk through the collection, which ends soon only where much of it matches.
    return f"(SELECT d.* FROM documents AS d WHERE {condition} OFFSET 0) AS t"


ALL = _listing("documents", "documents AS t")
CONTAINING = _listing("documents containing", _matched(_CONTAINED), "contains")
AMONG = _listing("documents among", _matched(_PATH), "in")
BOTH = _listing("documents containing, among", _matched(f"{_CONTAINED} AND {_PATH}"), "contains", "in")
_BY_CONDITIONS = {(False, False): ALL, (True, False): CONTAINING, (False, True): AMONG, (True, True): BOTH}


async def query(
    reader: Reader, tenant_id: str, collection: str, page: Page, contains: bytes | None, among: bytes | None
) -> Found:
    """One page of the documents that meet every condition. Raises `InvalidInput`, `BadCursor`."""
    given: dict[str, Any] = {"collection": collection}
    members = {} if among is None else _members(among)
    if contains is not None:
        given["contains"] = within(tenant_id, collection, b',"body":%b' % contains)
    if members:
        given["in"] = _jsonpath(tenant_id, collection, members)
    # The rules are read before what they are about: a secret path that is named meanwhile came after this query.
    paths = await store.uncut(reader, tenant_id, collection)
    if paths and _asks_for(paths, contains, members):
        return Found([])
    listing = _BY_CONDITIONS[contains is not None, bool(members)]
    found = await listing.page(reader, tenant_id, page, given)
    if paths and page.include:
        return Found(await store.without_secrets(found.items, paths), found.next_cursor, found.total)
    return found


def _asks_for(paths: Sequence[str], contains: bytes | None, members: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a condition is about what is secret, and so would tell of it while it is not cut yet."""
    if any(secrecy.reaches(paths, pointer) for pointer in members):
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


def _members(text: bytes) -> dict[str, list[Any]]:
    """Where values are looked for, by JSON Pointer, and which. Raises `InvalidInput`."""
    given = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    if len(given) > MEMBERS_MAX:
        raise invalid("/in", f"must have at most {MEMBERS_MAX} members")
    found: dict[str, list[Any]] = {}
    for name, values in given.items():
        escaped = name.replace("~", "~0").replace("/", "~1")
        place, pointer = f"/in/{escaped}", name if name.startswith("/") else f"/{escaped}"
        try:
            secrecy.segments(pointer)
        except ValueError as error:
            raise invalid(place, str(error)) from None
        if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
            raise invalid(place, "must be an array of strings, numbers, booleans and nulls")
        found[pointer] = values
    if sum(map(len, found.values())) > VALUES_MAX:
        raise invalid("/in", f"must have at most {VALUES_MAX} values")
    return found


def _jsonpath(tenant_id: str, collection: str, members: Mapping[str, Sequence[Any]]) -> str:
    """The SQL/JSON path that is true where one of its values stands at every place, in this collection."""
    parts = [f'$."in"[0] == {_constant(tenant_id)}', f'$."in"[1] == {_constant(collection)}']
    for pointer, values in members.items():
        ways = _ways(secrecy.segments(pointer))
        any_of = " || ".join(f"{way} == {_constant(value)}" for value in values for way in ways)
        # Without a value nothing can stand there.
        parts.append(f"({any_of or '1 == 2'})")
    return f"strict {' && '.join(parts)}"


def _ways(segments: Sequence[str]) -> list[str]:
    """The paths that a pointer may mean: a number is the place in an array, or the name of a member."""
    ways = ["$.body"]
    for segment in segments:
        named = [f"{way}.{json.dumps(segment)}" for way in ways]
        places = [f"{way}[{segment}]" for way in ways] if _PLACE(segment) and len(ways) < 4 else []
        ways = named + places
    return ways


_PLACE = re.compile(r"0|[1-9][0-9]{0,8}").fullmatch


def _constant(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)
