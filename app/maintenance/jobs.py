"""Clean-ups that a tenant has scheduled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from app.db.database import Database
from app.errors import AppError
from app.maintenance import store
from app.maintenance.errors import CleanupUnderWay

log = structlog.get_logger("cairn.maintenance")


def cleaner(finished: Callable[[], None] = lambda: None) -> Callable[[Database, int], Awaitable[int]]:
    """The job that carries out the clean-ups that are due; `finished` is told of each round that came to its end."""

    async def clean_up(database: Database, limit: int) -> int:
        failure: AppError | None = None
        scheduled = await store.due(database, limit)
        for tenant_id, seconds in scheduled:
            try:
                await _one(database, tenant_id, seconds)
            except CleanupUnderWay:
                continue  # Somebody asked for one meanwhile; it is due still, and looked at again.
            except AppError as error:
                log.error("clean-up failed", tenant_id=tenant_id, error=error.detail)
                failure = error
        if failure is not None:
            raise failure
        finished()
        return len(scheduled)

    return clean_up


async def _one(database: Database, tenant_id: str, seconds: dict[str, int]) -> None:
    counts: Counter[str] = Counter()
    more = True
    while more:
        answer = await store.clean_up(database.once(tenant_id), tenant_id, dry_run=False, seconds=seconds)
        assert answer.body is not None
        said = json.loads(answer.body)
        counts.update({name: value for name, value in said.items() if type(value) is int})
        more = said["more"]
    await store.done(database, tenant_id, counts)
