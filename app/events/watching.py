"""What readers of events wait for: a key for each tenant, and one look for all that a process waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from app.bus.hints import Key
from app.bus.watcher import Watched
from app.db.database import Reader
from app.events.store import SQL

KIND = "event"


class Place(NamedTuple):
    """How far a reader has read: the position of the last event it knows of, or passed over.

    `position` is None for one that starts at the head, whichever that is; `named` is the last position that its client
    can resume at.
    """

    position: int | None
    named: int = 0


def key_of(tenant_id: str) -> Key:
    """What is told when a tenant has new events."""
    return Key(KIND, tenant_id, "")


def keys_of(tenant_ids: Iterable[str]) -> list[Key]:
    """What is told when these tenants have new events."""
    return [key_of(tenant_id) for tenant_id in tenant_ids]


async def moved(reader: Reader, watched: Collection[Watched]) -> list[Watched]:
    """Those of the readers for whom there are more events; one statement for all of them."""
    reading = [(item, item.mark.position) for item in watched if isinstance(item.mark, Place)]
    rows = await reader.rows(
        SQL["moved"],
        tenant_ids=[item.key.tenant_id for item, _ in reading],
        positions=[position for _, position in reading],
    )
    return [reading[row["place"] - 1][0] for row in rows]
