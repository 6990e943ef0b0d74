"""What live readers of conversations wait for: a key for each path, and one look for all that a process waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import NamedTuple

from app.bus.hints import Key
from app.bus.watcher import Watched
from app.conversations.store import SQL
from app.db.database import Database

KIND = "conversation"


class Position(NamedTuple):
    """How far a reader has read: the last batch it knows of, in the conversation that it knows under the path.

    `incarnation` is None where it has met none; `seq` is None for one that starts at the head, whichever that is.
    """

    path: str
    incarnation: str | None
    seq: int | None


def key_of(tenant_id: str, path: str) -> Key:
    """What is told when a path has moved. A path may be longer than a key, and be waited for before it has a number."""
    return Key(KIND, tenant_id, hashlib.sha256(path.encode()).hexdigest()[:32])


async def moved(database: Database, watched: Collection[Watched]) -> Collection[Watched]:
    """Those of the readers for whom there is more, or another conversation, or none any more."""
    reading = [(item, item.mark) for item in watched if isinstance(item.mark, Position) and item.mark.seq is not None]
    rows = await database.rows(
        SQL["moved"],
        tenant_ids=[item.key.tenant_id for item, _ in reading],
        paths=[position.path for _, position in reading],
        incarnations=[position.incarnation for _, position in reading],
        seqs=[position.seq for _, position in reading],
    )
    return [reading[row["place"] - 1][0] for row in rows]
