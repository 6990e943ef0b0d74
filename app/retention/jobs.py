"""The job `retention.run`: the rules of a tenant followed in bounded steps; and the runs that begin by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg

from app.db.database import Database, Transaction
from app.errors import AppError, Unavailable
from app.jobs.store import Claimed, Standing, Step
from app.retention import store
from app.retention.errors import RetentionFailed
from app.retention.kind import PAGE_MAX
from app.retention.kinds import KINDS
from app.retention.removal import FIRST, Batch, count, remove_batch

Told = Callable[[str, int], None]
# Deletes the file of a tenant's backup.
Forget = Callable[[str, str], Awaitable[None]]


class Retention:
    """One batch a step, kind by kind. What is gone is gone, so a run that is begun again goes on.

    The rules are read anew for each step. A batch that takes too long is tried with fewer rows. A kind that cannot be
    followed is written down with its rule, and the next one is taken up; the run fails at its end then. After the
    commit `removed` is told of the rows of each table, and `forget` of backups that are gone; files that it does not
    delete are left to the sweep of objects.
    """

    def __init__(self, rows_max: int, removed: Told = lambda _table, _rows: None, forget: Forget | None = None) -> None:
        self.rows_max, self.removed, self.forget = rows_max, removed, forget

    async def __call__(self, transaction: Transaction, job: Claimed, standing: Standing) -> Step:
        """One step. Raises `RetentionFailed` after the last, where some kind was not followed; `Unavailable`."""
        # What refers to others leaves before them, in whatever order the kinds were named.
        kinds = [kind for kind in KINDS if kind in standing.arguments["kinds"]]
        at = standing.resume_from or {"place": 0, "failed": []}
        if at["place"] >= len(kinds):
            return await self._end(transaction, job, standing, at)
        kind = kinds[at["place"]]
        try:
            # Whatever a kind meets undoes its own batch alone.
            async with transaction.connection.transaction():
                return await self._batch(transaction, job, standing, at, kind)
        except AppError as error:
            took_too_long = isinstance(error.__cause__, asyncpg.QueryCanceledError)
            if isinstance(error, Unavailable) and not took_too_long:
                raise
            page = at.get("page", PAGE_MAX)
            if not standing.arguments.get("dry_run"):
                if took_too_long and page > 1:
                    return Step({**at, "page": max(1, page // 8)})
                await store.failed(transaction, job.tenant_id, kind, error.detail)
            return Step(_next(at, failed=kind))

    async def _batch(
        self, transaction: Transaction, job: Claimed, standing: Standing, at: dict[str, Any], kind: str
    ) -> Step:
        rule = (await store.rules(transaction, job.tenant_id)).get(kind)
        if rule is None or rule.max_age_days is None:
            return Step(_next(at))
        if standing.arguments.get("dry_run"):
            found = await count(transaction, job.tenant_id, KINDS[kind], rule)
            return Step(_next(at), counts={name: rows for name, rows in found.items() if rows})
        batch = await remove_batch(
            transaction, job.tenant_id, KINDS[kind], rule, tuple(at.get("after", FIRST)), at.get("page", PAGE_MAX),
            self.rows_max,
        )  # fmt: skip
        counts = dict(at.get("counts", {}))
        for table, rows in batch.counts.items():
            counts[table] = counts.get(table, 0) + rows
        done = batch.counts.get(KINDS[kind].table, batch.counts.get(kind, 0))
        told = {table: rows for table, rows in batch.counts.items() if rows}
        here = {**at, "counts": counts, "page": batch.page}
        if batch.after is not None:
            left = {**here, "after": list(batch.after), "any": at.get("any", False) or bool(done)}
        elif KINDS[kind].parent is not None and at.get("any"):
            # Parents whose last child has left since they were looked at.
            left = {**here, "after": list(FIRST), "any": False}
        else:
            await store.succeeded(transaction, job.tenant_id, kind, counts)
            left = _next(at)
        return Step(left, done, told, moved=batch.moved, afterwards=partial(self._gone, job.tenant_id, batch))

    async def _gone(self, tenant_id: str, batch: Batch) -> None:
        for table, rows in batch.counts.items():
            self.removed(table, rows)
        if self.forget is not None:
            for backup_id in batch.files:
                await self.forget(tenant_id, backup_id)

    @staticmethod
    async def _end(transaction: Transaction, job: Claimed, standing: Standing, at: dict[str, Any]) -> Step:
        if at["failed"]:
            raise RetentionFailed("Some kinds could not be followed; their rules say why.", kinds=at["failed"])
        if standing.arguments.get("scheduled"):
            await store.forget_runs(transaction, job.tenant_id, job.id)
        return Step(at, report={"dry_run": bool(standing.arguments.get("dry_run"))}, finished=True)


def follower(look_seconds: float) -> Callable[[Database, int], Awaitable[int]]:
    """What begins a run for every tenant that has rules, when it is looked."""

    async def follow(database: Database, limit: int) -> int:
        return await store.begin_runs(database, look_seconds / 2, limit)

    return follow


async def followed(database: Database, tell: Callable[[float], None]) -> None:
    """Tell when the rules of every tenant were last followed to their end; nothing where there are none."""
    at = await store.followed_at(database)
    if at is not None:
        tell(at)


def _next(at: dict[str, Any], failed: str | None = None) -> dict[str, Any]:
    return {"place": at["place"] + 1, "failed": [*at["failed"], *([failed] if failed else [])]}
