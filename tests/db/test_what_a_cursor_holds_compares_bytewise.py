"""Ids and the text that lists are sorted by compare bytewise, whatever the locale of the database."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable

import asyncpg

from app.db.page import Listing
from app.db.sql import Statement
from app.settings import Settings
from app.surface import endpoints


async def test_every_text_of_every_cursor_has_the_collation_c(clone: Callable[[], Awaitable[str]]) -> None:
    assert endpoints(Settings(_env_file=None))
    # Drawing a picture puts all objects out of the collector's sight.
    gc.unfreeze()
    listings = [found for found in gc.get_objects() if isinstance(found, Listing) and found.name != "paged"]
    assert len(listings) >= 14
    connection = await asyncpg.connect(await clone())
    for listing in listings:
        sorts = [sort.sql.replace("{t}", "t") for sort in listing.sorts.values() if sort.type == "text"]
        for expression in {*sorts, *listing.ids}:
            asked = Statement(
                f"SELECT pg_collation_for({expression}) FROM (SELECT 1) AS one LEFT JOIN {listing.source} ON true"
            )
            collation = await connection.fetchval(asked.text, *(None for _ in asked.parameters))
            assert collation == '"C"', (listing.name, expression)
    await connection.close()
