"""What workers wait for: a key for each agent and one for whoever takes any, and one look for all that wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.bus.hints import Key
from app.bus.watcher import Watched
from app.db.database import Reader
from app.submissions.store import SQL

KIND = "submission"


def key_of(tenant_id: str, agent: str | None) -> Key:
    """What is told when there may be something to claim: for one agent, or for whoever takes any."""
    return Key(KIND, tenant_id, agent or "")


def keys_of(tenant_id: str, agents: Iterable[str]) -> list[Key]:
    """What is told when something of these agents has become runnable: each of them, and whoever takes any."""
    names = set(agents)
    return [key_of(tenant_id, name) for name in (*sorted(names), None)] if names else []


async def moved(reader: Reader, watched: Collection[Watched]) -> list[Watched]:
    """Those of the waiting for whom there is something to claim; one statement for all of them."""
    by_key = {(each.key.tenant_id, each.key.name): each for each in watched}
    rows = await reader.rows(
        SQL["work"], tenant_ids=[tenant for tenant, _ in by_key], agents=[agent for _, agent in by_key]
    )
    return [by_key[row["tenant_id"], row["agent"]] for row in rows]
