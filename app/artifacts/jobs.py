"""Collection: what nothing refers to is marked, looked at again after a pause, and then deleted; what uploads left too.

Each step is a statement or a short transaction, and is found again wherever a process was killed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from app.artifacts.store import name_of
from app.blobs.blobs import Blobs, Found
from app.db.database import Database
from app.db.sql import load
from app.errors import Unavailable

log = structlog.get_logger("cairn.artifacts")
# What is marked is looked at again after this part of the grace period, an hour of a day.
PAUSES_IN_GRACE = 24
_NAME = re.compile(r"([0-9a-f]{64})(?:\.([1-9][0-9]{0,17}))?").fullmatch


class Collection:
    """Collects the artifacts of all tenants. `holders` are SQL conditions on an artifact `a`: each holds it.

    `collected` is told the bytes of each one that is gone, `finished` that a run came to its end. `left_over` finds, of
    objects that are no artifacts, those that nobody needs any more.
    """

    def __init__(
        self,
        blobs: Blobs,
        holders: Sequence[str],
        grace_seconds: float,
        collected: Callable[[int], None] = lambda _bytes: None,
        finished: Callable[[], None] = lambda: None,
        left_over: Callable[[Database, Sequence[Found]], Awaitable[list[Found]]] | None = None,
    ) -> None:
        self._left_over = left_over
        self._blobs, self._grace_seconds = blobs, grace_seconds
        self._collected, self._finished = collected, finished
        self._sql = load(__file__, "collection.sql", used=" OR ".join(holders))
        self._names: AsyncIterator[Found] | None = None

    async def collect(self, database: Database, limit: int) -> int:
        """One run of every phase: how many artifacts were looked at, or the most of one phase."""
        done = max([
            await self.mark(database, limit),
            await self.give_up(database, limit),
            await self.take(database, limit),
            await self.delete(database, limit),
        ])  # fmt: skip
        self._finished()
        return done

    async def mark(self, database: Database, limit: int) -> int:
        """The first phase: what was not touched for the grace period is marked, unless something refers to it."""
        return len(await database.rows(self._sql["mark"], grace_seconds=self._grace_seconds, limit=limit))

    async def give_up(self, database: Database, limit: int) -> int:
        """Give up the uploads that did not end within the grace period."""
        return len(await database.rows(self._sql["give_up"], grace_seconds=self._grace_seconds, limit=limit))

    async def take(self, database: Database, limit: int) -> int:
        """The second phase: what was marked for a while, and is still not referred to, is to be deleted."""
        pause_seconds = self._grace_seconds / PAUSES_IN_GRACE
        async with database.writing() as transaction:
            marked = await transaction.rows(self._sql["lock_marked"], pause_seconds=pause_seconds, limit=limit)
            if marked:
                await transaction.rows(
                    self._sql["take"],
                    tenant_ids=[row["tenant_id"] for row in marked],
                    hashes=[row["hash"] for row in marked],
                )
        return len(marked)

    async def delete(self, database: Database, limit: int) -> int:
        """Delete the objects of what is to be deleted, with no transaction open. Raises `Unavailable`, after the rest,
        where one of them could not be.
        """
        failure: Unavailable | None = None
        found = await database.rows(self._sql["to_delete"], limit=limit)
        for row in found:
            key = {"tenant_id": row["tenant_id"], "hash": row["hash"], "generation": row["generation"]}
            try:
                await self._blobs.delete(row["tenant_id"], name_of(row["hash"], row["generation"]))
            except Unavailable as error:
                failure = error
                continue
            gone = await database.row(self._sql["gone"], **key)
            if gone is not None:
                self._collected(gone["size_bytes"])
        if failure is not None:
            raise failure
        return len(found)

    async def sweep(self, database: Database, limit: int) -> int:
        """Look at so many objects, from where the last run stood: how many that were. What no upload wrote to its end
        is deleted, once it is older than the grace period; what is not named as an artifact is left alone, unless it is
        known to be left over.
        """
        names = self._names or self._blobs.names()
        self._names = None
        before = datetime.now(UTC) - timedelta(seconds=self._grace_seconds)
        seen, old = 0, list[Found]()
        while seen < limit and (found := await anext(names, None)) is not None:
            seen += 1
            if found.modified_at < before:
                old.append(found)
        for found in await self._not_known(database, old):
            await self._sweep_one(database, found)
        if seen == limit:
            self._names = names
        return seen

    async def _not_known(self, database: Database, found: Sequence[Found]) -> list[Found]:
        """Those of which no row says that they are there, or that are known to be left over."""
        keys = {place: key for place, one in enumerate(found) if (key := _key_of(one)) is not None}
        rows = await database.rows(
            self._sql["not_known"],
            places=list(keys),
            tenant_ids=[key["tenant_id"] for key in keys.values()],
            hashes=[key["hash"] for key in keys.values()],
            generations=[key["generation"] for key in keys.values()],
        )
        others = [one for place, one in enumerate(found) if not one.unfinished and place not in keys]
        left = await self._left_over(database, others) if self._left_over is not None and others else []
        return [*(one for one in found if one.unfinished), *(found[row["place"]] for row in rows), *left]

    async def _sweep_one(self, database: Database, found: Found) -> None:
        key = _key_of(found)
        if key is not None:
            await database.rows(self._sql["adopt"], **key, size_bytes=found.size_bytes)
            row = await database.row(self._sql["is_left_over"], **key)
            if row is None or not row["left_over"]:
                return
        log.info("what an upload left is deleted", tenant_id=found.tenant_id, object=found.name)
        await self._blobs.delete(found.tenant_id, found.name)


def _key_of(found: Found) -> dict[str, Any] | None:
    named = None if found.unfinished else _NAME(found.name)
    if named is None:
        return None
    return {"tenant_id": found.tenant_id, "hash": bytes.fromhex(named[1]), "generation": int(named[2] or 1)}
