"""Tells the bus of deliveries that were given up, each once or more under the same id."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from app.bus.work import Stream, Streams, Work
from app.db.database import Database
from app.webhooks.pipeline import SQL

# An event up to this size goes with its letter; a larger one is referred to. Servers take a megabyte as a rule.
INLINE_BYTES_MAX = 262_144


def announce(streams: Streams, announced: Callable[[int], None]) -> Callable[[Database, int], Awaitable[int]]:
    """The job that tells of dead letters of webhooks; `announced` is told how many they were.

    A letter is marked once it is stored in the stream. Raises `Unavailable` where that fails: it is told later.
    """

    async def tell(database: Database, _limit: int) -> int:
        rows = await database.rows(SQL["unannounced"], bytes=INLINE_BYTES_MAX)
        if not rows:
            return 0
        await streams.put(Stream.DEAD_LETTER, [Work(row["id"], _letter(row)) for row in rows])
        done = await database.rows(
            SQL["announced"], tenant_ids=[row["tenant_id"] for row in rows], ids=[row["id"] for row in rows]
        )
        announced(len(done))
        return len(rows)

    return tell


def _letter(row: Any) -> bytes:
    letter: bytes = row["letter"]
    href = {"href": f"/v1/deliveries/{quote(row['subject'], safe='')}"}
    event: bytes = row["event"] if row["event"] is not None else json.dumps(href).encode()
    return b'%s,"tenant_id":%s,"event":%s}' % (letter[:-1], json.dumps(row["tenant_id"]).encode(), event)
