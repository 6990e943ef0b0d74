"""Ids and the text that lists are sorted by compare bytewise, whatever the locale of the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from pkgutil import walk_packages

import asyncpg

import app
from app.db.page import Listing
from app.db.sql import Statement
from app.documents.listing import search


def listings() -> list[Listing]:
    """The lists of every module, and that of documents, which is made as it is asked for."""
    names = [found.name for found in walk_packages(app.__path__, "app.")]
    kept = {one for name in names for one in vars(import_module(name)).values() if isinstance(one, Listing)}
    return [*kept, search("tenant", "collection", None, ())[0]]


async def test_every_text_of_every_cursor_has_the_collation_c(clone: Callable[[], Awaitable[str]]) -> None:
    found = listings()
    assert len(found) >= 50
    connection = await asyncpg.connect(await clone())
    for listing in found:
        sorts = [sort.sql.replace("{t}", "t") for sort in listing.sorts.values() if sort.type == "text"]
        for expression in {*sorts, *listing.ids}:
            asked = Statement(
                f"SELECT pg_collation_for({expression}) FROM (SELECT 1) AS one LEFT JOIN {listing.source} ON true"
            )
            collation = await connection.fetchval(asked.text, *(None for _ in asked.parameters))
            assert collation == '"C"', (listing.name, expression)
    await connection.close()
