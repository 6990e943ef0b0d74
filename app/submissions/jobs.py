"""What happens to submissions beside the requests: leases that lapsed are dealt with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.bus.hints import Hints
from app.db.database import Database
from app.settings import QueueSettings
from app.submissions.claiming import lapse


def expiry(settings: QueueSettings, hints: Hints) -> Callable[[Database, int], Awaitable[int]]:
    """The job that returns what has lapsed to the queue, or settles it; then it tells who waits for work."""

    async def expire(database: Database, limit: int) -> int:
        lapsed = await lapse(database, limit, settings.backoff_first_seconds, settings.backoff_longest_seconds)
        hints.publish(*lapsed.moved)
        return lapsed.count

    return expire
