"""Keyset pages: whatever the rows, the order and the page's size, every row comes exactly once, nulls last."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db.database import Database
from app.db.page import Listing, Page, Sort
from app.db.shape import Shape
from app.errors import BadCursor
from app.settings import DatabaseSettings

PAGES_MAX = 60
TABLE = """
CREATE TABLE paged (tenant_id text, id text COLLATE "C", moment timestamptz, number numeric, words text COLLATE "C",
                    PRIMARY KEY (tenant_id, id))
"""
LISTING = Listing(
    "paged",
    "paged AS t",
    Shape("id"),
    sorts={
        "moment": Sort("{t}.moment", "timestamptz", nullable=True),
        "number": Sort("{t}.number", "numeric", nullable=True),
        "words": Sort("{t}.words", "text", nullable=True),
        "id": Sort("{t}.id", "text"),
    },
    default=("moment", "desc"),
)
MOMENTS = ("2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000002Z", "0001-01-01T00:00:00Z", None)
NUMBERS = ("0.1", "0.1000000000000000001", "-12345678901234567890", None)
WORDS = ("", "a", "é", "Z", None)
IDS = st.text('ab\u00e9\U0001f600/%"', min_size=1, max_size=4)
ROWS = st.dictionaries(
    IDS, st.tuples(st.sampled_from(MOMENTS), st.sampled_from(NUMBERS), st.sampled_from(WORDS)), max_size=14
)
Row = tuple[str, tuple[str | None, str | None, str | None]]


@pytest.fixture(scope="module")
async def database(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Database]:
    opened = await Database.open(DatabaseSettings(url=await kept_clone(), pool_min=0, pool_max=4))
    await opened.execute(TABLE)
    yield opened
    await opened.close()


async def fill(database: Database, tenant: str, rows: list[Row]) -> None:
    connection = await asyncpg.connect(database.url)
    try:
        await connection.executemany(
            "INSERT INTO paged VALUES ($1, $2, $3::text::timestamptz, $4::text::numeric, $5) ON CONFLICT DO NOTHING",
            [(tenant, row_id, *keys) for row_id, keys in rows],
        )
    finally:
        await connection.close()


async def walk(database: Database, tenant: str, sort: str, order: str, limit: int, arriving: list[Row]) -> list[str]:
    """Every id, in the order in which pages give them; one more row arrives after each page."""
    found: list[str] = []
    cursor = None
    for turn in range(PAGES_MAX):
        page = await LISTING.page(database, tenant, Page(limit, cursor, sort, order), {})
        assert len(page.items) <= limit
        found += [json.loads(item)["id"] for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found
        await fill(database, tenant, arriving[turn : turn + 1])
    raise AssertionError("the pages do not end")


def expected(rows: dict[str, Any], sort: str, order: str) -> list[str]:
    """What PostgreSQL is to say, said by Python: the key, then the id, bytewise; rows without a key last."""
    read: dict[str, Callable[[Any], Any]] = {"moment": datetime.fromisoformat, "number": Decimal, "words": str.encode}
    place = list(read).index(sort) if sort in read else None
    down = order == "desc"

    def key(row_id: str) -> Any:
        return None if place is None or rows[row_id][place] is None else read[sort](rows[row_id][place])

    valued = [row_id for row_id in rows if place is None or rows[row_id][place] is not None]
    bare = [row_id for row_id in rows if row_id not in valued]
    valued.sort(key=lambda row_id: (*(() if place is None else (key(row_id),)), row_id.encode()), reverse=down)
    return valued + sorted(bare, key=str.encode, reverse=down)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, ROWS, st.sampled_from(["moment", "number", "words", "id"]), st.sampled_from(["asc", "desc"]),
       st.integers(1, 6))  # fmt: skip
async def test_b07_every_row_comes_exactly_once_in_order_while_others_arrive(
    database: Database, rows: dict[str, Any], arriving: dict[str, Any], sort: str, order: str, limit: int
) -> None:
    tenant = uuid4().hex
    await fill(database, tenant, list(rows.items()))
    late = [row for row in arriving.items() if row[0] not in rows]
    found = await walk(database, tenant, sort, order, limit, late)
    assert len(found) == len(set(found))
    assert [row_id for row_id in found if row_id in rows] == expected(rows, sort, order)
    assert set(found) <= rows.keys() | dict(late).keys()


async def test_b07_a_cursor_of_another_tenant_order_or_filter_is_refused(database: Database) -> None:
    rows: list[Row] = [(f"r{number}", (MOMENTS[0], None, None)) for number in range(3)]
    await fill(database, "one", rows)
    await fill(database, "two", rows)
    cursor = (await LISTING.page(database, "one", Page(1), {})).next_cursor
    for tenant, page in (
        ("two", Page(1, cursor)),
        ("one", Page(1, cursor, order="asc")),
        ("one", Page(1, cursor, sort="id")),
    ):
        with pytest.raises(BadCursor):
            await LISTING.page(database, tenant, page, {})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=30), st.text("ABCDEFabcdef0123456789-_=", max_size=60)))
async def test_b07_a_cursor_of_garbage_is_refused(database: Database, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await LISTING.page(database, "one", Page(1, cursor), {})


@pytest.mark.parametrize(
    "key",
    [
        "no instant",
        "infinity",
        "\x00",
        "\ud800",
        "9" * 200,
        "2026-01-01 00:00:00 Foo/Bar",
        "2026-01-01 00:00:00+99",
        None,
    ],
)
async def test_b07_a_cursor_whose_key_was_changed_is_refused_or_only_moves(database: Database, key: str | None) -> None:
    await fill(database, "three", [(f"r{number}", (MOMENTS[0], None, None)) for number in range(3)])
    cursor = (await LISTING.page(database, "three", Page(1), {})).next_cursor
    assert cursor is not None
    digest = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[0]
    forged = base64.urlsafe_b64encode(json.dumps([digest, key, "r1"]).encode()).decode()
    try:
        page = await LISTING.page(database, "three", Page(1, forged), {})
    except BadCursor:
        return
    assert len(page.items) <= 1
