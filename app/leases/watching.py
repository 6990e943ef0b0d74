"""What those wait for who want a lease: a key for each, and one look for all that wait."""

from __future__ import annotations

from collections.abc import Collection

from app.bus.hints import Key
from app.bus.watcher import Watched
from app.db.database import Reader
from app.leases.store import SQL

KIND = "lease"


def key_of(tenant_id: str, name: str) -> Key:
    """What is told when a lease was released."""
    return Key(KIND, tenant_id, name)


async def moved(reader: Reader, watched: Collection[Watched]) -> list[Watched]:
    """Those of the waiting whose lease may be free; one statement for all of them."""
    by_key = {(each.key.tenant_id, each.key.name): each for each in watched}
    rows = await reader.rows(
        SQL["free"], tenant_ids=[tenant for tenant, _ in by_key], names=[name for _, name in by_key]
    )
    return [by_key[row["tenant_id"], row["name"]] for row in rows]
