"""Tells the bus of deliveries that were given up, each once or more under the same id."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from app.bus.work import Stream, Streams, Work
from app.db.database import Database
from app.webhooks.pipeline import SQL


def announce(streams: Streams, announced: Callable[[int], None]) -> Callable[[Database, int], Awaitable[int]]:
    """The job that tells of dead letters of webhooks; `announced` is told how many they were.

    A letter is marked once it is stored in the stream. What was to be sent goes with it where the message fits then,
    and is referred to where it does not. Raises `Unavailable` where storing fails: it is told later.
    """

    async def tell(database: Database, _limit: int) -> int:
        most = streams.bytes_max(Stream.DEAD_LETTER)
        rows = await database.rows(SQL["unannounced"], bytes=most)
        if not rows:
            return 0
        await streams.put(Stream.DEAD_LETTER, [_work(row, most) for row in rows])
        done = await database.rows(
            SQL["announced"], tenant_ids=[row["tenant_id"] for row in rows], ids=[row["id"] for row in rows]
        )
        announced(len(done))
        return len(rows)

    return tell


def _work(row: Any, most: int) -> Work:
    if row["event"] is not None:
        work = Work(row["id"], _letter(row, row["event"]))
        if work.size_bytes <= most:
            return work
    href = {"href": f"/v1/deliveries/{quote(row['subject'], safe='')}"}
    return Work(row["id"], _letter(row, json.dumps(href).encode()))


def _letter(row: Any, event: bytes) -> bytes:
    letter: bytes = row["letter"]
    return b'%s,"tenant_id":%s,"event":%s}' % (letter[:-1], json.dumps(row["tenant_id"]).encode(), event)
