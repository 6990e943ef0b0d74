"""Carries offboardings out: rows, partitions, objects, values of the cache and messages go, and are looked for again.

A process holds one under a lease. What it removes is counted in the same transaction, so that another goes on wherever
this one was killed; what lies outside of PostgreSQL is counted once it is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from uuid import uuid4

import asyncpg
import structlog

from app import __version__
from app.background.holding import while_held
from app.blobs.blobs import Blobs
from app.bus.hints import Hints
from app.bus.work import Streams
from app.cache.cache import Cache
from app.db.database import Database, Transaction
from app.db.sql import Statement
from app.documents import rules as documents
from app.errors import AppError, Unavailable
from app.memory import jobs as memory
from app.offboarding import emptying, store
from app.offboarding.receipt import signed, tenant_sha256
from app.offboarding.store import Held, OffboardingLost
from app.settings import OffboardingSettings
from app.signing import Signer
from app.tenants import keys
from app.tenants.errors import TenantClosed
from app.versions import store as versions

log = structlog.get_logger("cairn.offboarding")
# A lease is renewed so often while it lasts.
LEASE_SECONDS, RENEWALS = 30.0, 3
# One run may take so long; a tenant may have many rows.
RUN_SECONDS = 7 * 86_400.0
# A batch takes about so long: it is made smaller where rows are large, and larger again.
BATCH_SECONDS = 0.5
# What holds an offboarding up is tried again after a second, twice as long each time in a row, up to a minute.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 60.0
OBJECTS_AT_ONCE = 100
OBJECTS, VALUES, MESSAGES = "objects", "cache_values", "stream_messages"


class Pace:
    """How many rows the next batch has: fewer where one took long, as many as given at most."""

    def __init__(self, most: int) -> None:
        self.rows = self._most = most

    def took(self, seconds: float) -> None:
        """A batch took so long."""
        if seconds > BATCH_SECONDS:
            self.rows = max(1, self.rows // 2)
        elif seconds < BATCH_SECONDS / 4:
            self.rows = min(self._most, self.rows * 2)

    def failed(self) -> bool:
        """A batch took too long to be done; whether a smaller one can be tried."""
        if self.rows == 1:
            return False
        self.rows = max(1, self.rows // 8)
        return True

    def widen(self) -> None:
        """Nothing of the batch could go without what is not in it."""
        self.rows *= 2


async def measured(database: Database, tell: Callable[[float], None]) -> None:
    """Tell the seconds since the oldest offboarding was asked for that is being carried out, whoever does that."""
    tell(await store.oldest_seconds(database))


class Offboarder:
    """The job that goes on with the offboarding that waits longest, to its end, or to where it has to wait."""

    def __init__(
        self, settings: OffboardingSettings, blobs: Blobs, cache: Cache, streams: Streams, hints: Hints,
        signer: Signer | None, lease_seconds: float = LEASE_SECONDS,
    ) -> None:  # fmt: skip
        self._settings, self._blobs, self._cache, self._streams = settings, blobs, cache, streams
        self._hints, self._signer, self._lease_seconds = hints, signer, lease_seconds
        self.runner_id = f"process {os.getpid()} {uuid4().hex}"
        self._tables = emptying.tables()
        self._counting = emptying.counting()

    async def run(self, database: Database, _limit: int) -> int:
        """Go on with one; how many there were."""
        held = await store.claim(database, self.runner_id, self._lease_seconds)
        if held is None:
            return 0
        try:
            await while_held(
                self._go_on(database, held), self._lease_seconds / RENEWALS, lambda: self._renewed(database, held)
            )
        except OffboardingLost:
            log.warning("an offboarding went to another process", offboarding_id=held.id)
        except AppError as refusal:
            await self._put_off(database, held, refusal)
        return 1

    async def release(self, database: Database) -> None:
        """Let go of what was cut off, so that another process need not wait for the lease."""
        await store.release_all(database, self.runner_id)

    async def _renewed(self, database: Database, held: Held) -> bool:
        """Hold it for another lease. Raises `OffboardingLost` as soon as that is known."""
        try:
            await store.advance(database, held, {}, self._lease_seconds)
        except Unavailable:
            return True  # It is asked again before the lease ends, and with each batch.
        return True

    async def _put_off(self, database: Database, held: Held, refusal: AppError) -> None:
        seconds = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2 ** min(held.attempt_count - 1, 10))
        log.warning(
            "an offboarding waits", offboarding_id=held.id, error=refusal.detail,
            cause=type(refusal.__cause__).__name__, seconds=seconds,
        )  # fmt: skip
        await store.wait(database, held, seconds, error={"code": refusal.code, "detail": refusal.detail})

    async def _go_on(self, database: Database, held: Held) -> None:
        found = await self._everything(database, held)
        if held.state == "deleting":
            await self._depart(database, held)
        elif found:
            # A request that was under way when the tenant was closed has written meanwhile.
            await store.wait(database, held, self._settings.settle_seconds, "verifying")
        else:
            await self._complete(database, held)

    async def _everything(self, database: Database, held: Held) -> int:
        """Remove whatever there is of the tenant but its own row; how much that was."""
        found = await self._rows(database, held, emptying.FORGET_BEST, None)
        found += await self._spaces(database, held)
        for table in self._tables:
            found += await self._rows(database, held, table.remove, table.name)
        found += await self._objects(database, held)
        for name, erase in ((VALUES, self._cache.erase), (MESSAGES, self._streams.erase)):
            erased = await erase(held.tenant_id)
            if erased:
                await self._count(database, held, name, erased)
            found += erased
        return found

    async def _rows(self, database: Database, held: Held, statement: Statement, name: str | None) -> int:
        """Take a tenant's rows out of a table, counted under a name if one is given."""
        total, pace = 0, Pace(self._settings.batch_rows)
        while True:
            started = time.monotonic()
            try:
                async with database.writing() as transaction:
                    gone = await transaction.row(statement, tenant_id=held.tenant_id, limit=pace.rows)
                    assert gone is not None
                    if gone["removed"]:
                        counts = {} if name is None else {name: gone["removed"]}
                        await store.advance(transaction, held, counts, self._lease_seconds)
            except Unavailable as refusal:
                if not isinstance(refusal.__cause__, asyncpg.QueryCanceledError | TimeoutError) or not pace.failed():
                    raise
                continue
            if not gone["seen"]:
                return total
            total += gone["removed"]
            if gone["removed"]:
                pace.took(time.monotonic() - started)
            else:
                pace.widen()

    async def _spaces(self, database: Database, held: Held) -> int:
        """Drop the partitions of the tenant's memory, each with its space."""
        total = 0
        for number in await memory.spaces_of(database, held.tenant_id):
            vectors = await memory.vectors_in(database, number)
            async with database.writing() as transaction:
                await memory.drop_space(transaction, held.tenant_id, number)
                counts = {"memory_spaces": 1, "memory_vectors": vectors}
                await store.advance(transaction, held, counts, self._lease_seconds)
            total += 1 + vectors
        # What spaces left that were deleted before.
        await memory.drop_deleted_spaces(database, memory.PARTITIONS_MAX)
        return total + await memory.vectors_left(database, held.tenant_id)

    async def _objects(self, database: Database, held: Held) -> int:
        total = gone = 0
        async for found in self._blobs.names(held.tenant_id):
            await self._blobs.delete(held.tenant_id, found.name)
            gone += 1
            if gone == OBJECTS_AT_ONCE:
                await self._count(database, held, OBJECTS, gone)
                total, gone = total + gone, 0
        if gone:
            await self._count(database, held, OBJECTS, gone)
        await self._blobs.leave(held.tenant_id)
        return total + gone

    async def _count(self, database: Database, held: Held, name: str, number: int) -> None:
        await store.advance(database, held, {name: number}, self._lease_seconds)

    async def _depart(self, database: Database, held: Held) -> None:
        """Remove the tenant's own row: from then on no row can refer to it. What is still found is looked for later."""
        async with database.writing() as transaction:
            # Whoever inserts a row for the tenant holds this one's key, and is waited for.
            await transaction.row(emptying.LOCK_TENANT, tenant_id=held.tenant_id)
            try:
                gone = await transaction.row(emptying.REMOVE_TENANT, tenant_id=held.tenant_id)
            except TenantClosed as refusal:
                raise Unavailable("Rows came while others left; they leave next.") from refusal
            assert gone is not None
            counts = {"tenants": gone["removed"]} if gone["removed"] else {}
            await store.advance(transaction, held, counts, self._lease_seconds)
            await store.wait(transaction, held, self._settings.settle_seconds, "verifying")
        tenant_id = held.tenant_id
        self._hints.publish(keys.key_of(tenant_id), versions.key_of(tenant_id), documents.key_of(tenant_id))

    async def _complete(self, database: Database, held: Held) -> None:
        async with database.writing() as transaction:
            await transaction.row(emptying.FORGET_ANSWERS, tenant_id=held.tenant_id)
            left = await emptying.left(transaction, self._counting, held.tenant_id)
            if left:
                log.warning("rows came back to a tenant that leaves", offboarding_id=held.id, tables=sorted(left))
                await store.wait(transaction, held, self._settings.settle_seconds, "deleting")
                return
            await self._sign(transaction, held)
        log.info("a tenant has left", offboarding_id=held.id)

    async def _sign(self, transaction: Transaction, held: Held) -> None:
        counts, started_at, ended_at = await store.told(transaction, held)
        said = {
            "offboarding_id": held.id,
            "tenant_sha256": tenant_sha256(held.tenant_id),
            "counts": counts,
            "started_at": started_at,
            "ended_at": ended_at,
            "verified_zero": True,
            "server_version": __version__,
        }
        await store.complete(transaction, held, signed(said, self._signer), ended_at)
