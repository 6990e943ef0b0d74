"""Hands events out to webhooks: each event that a webhook asks for becomes a delivery, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.db.database import Database
from app.webhooks.pipeline import SQL

Job = Callable[[Database, int], Awaitable[int]]


def fan_out(made: Callable[[], None]) -> Job:
    """The job that makes deliveries of events, of about `limit` at a time; it rings `made` after it made any.

    The answer is how many events and deliveries it got through. A delivery is committed with the head of its tenant's
    events that are handed out, so any number of processes may do this.
    """

    async def hand_out_events(database: Database, limit: int) -> int:
        row = await database.row(SQL["fan_out"], limit=limit)
        if row is None:
            return 0
        if row["deliveries"]:
            made()
        # An event that nobody wants counts too: there may be more behind it.
        done: int = max(row["events"], row["deliveries"], row["heads"])
        return done

    return hand_out_events
