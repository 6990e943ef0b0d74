"""Work that one process of many does: it has a lease of the service, and another takes over when it is gone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from uuid import uuid4

import msgspec
import structlog

from app.background.runner import Entry
from app.bus.bell import Bell
from app.cache.embedded import EmbeddedCache
from app.db.database import Database
from app.db.fences import LeaseFence
from app.db.leased import Leased
from app.errors import StaleLease
from app.leases import store
from app.leases.errors import LeaseHeld, LeaseLost
from app.leases.liveness import Liveness

log = structlog.get_logger("cairn.background")
# The tenant of the service's own leases; no key acts for it.
OURS = ""
# Renewed every few seconds, so PostgreSQL alone is enough, and a takeover waits for nothing else.
_POSTGRESQL_ALONE = Liveness(EmbeddedCache())


class _Token(msgspec.Struct):
    fencing_token: int


class ServiceLease:
    """A lease of the service under a name: `keep` takes and renews it, and `only` makes a job run under it alone."""

    def __init__(self, name: str, seconds: int) -> None:
        self.name, self.seconds = name, seconds
        self.holder = f"process {os.getpid()} {uuid4().hex}"
        self._token: int | None = None
        self._until = 0.0
        self._bells: list[Bell] = []

    @property
    def fence(self) -> LeaseFence | None:
        """The lease and its token, as long as this process has reason to think that it holds."""
        held = self._token is not None and time.monotonic() < self._until
        return LeaseFence(self.name, self._token or 0) if held else None

    def keeping(self) -> Entry:
        """The line of the timetable that keeps the lease: three looks in its length."""
        return Entry(f"keep the lease of {self.name}", self.keep, self.seconds / 3, limit=2)

    async def keep(self, database: Database, _limit: int) -> int:
        """Take the lease where it is free, or renew it; 1 where this process has taken it over."""
        begun, before = time.monotonic(), self._token
        try:
            self._token = await self._asked(database)
        except (LeaseHeld, LeaseLost):
            self._token = None
        self._until = begun + self.seconds
        if self._token in (before, None):
            return 0
        log.info("this process does the work of one", lease=self.name, fencing_token=self._token)
        for bell in self._bells:
            bell.ring()
        return 1

    async def _asked(self, database: Database) -> int:
        writer, given = database.once(OURS), (_POSTGRESQL_ALONE, OURS, self.name, self.holder)
        if self._token is not None:
            await store.renew(writer, *given, self._token, apart=False)
            return self._token
        answer = await store.acquire(writer, *given, self.seconds)
        return msgspec.json.decode(answer.body or b"", type=_Token).fencing_token

    def only(self, entry: Entry) -> Entry:
        """The entry, where it runs under the lease alone: at once when the lease is taken over, then as ever.

        What it writes it writes while the token holds; elsewhere, and once it is another's, it does nothing.
        """

        async def run(database: Database, limit: int) -> int:
            fence = self.fence
            if fence is None:
                return 0
            try:
                return await entry.job(Leased(database, OURS, fence), limit)
            except StaleLease:
                log.warning("the work of one went to another process", lease=self.name, job=entry.name)
                self._token = None
                return 0

        bell = entry.bell or Bell()
        self._bells.append(bell)
        return replace(entry, job=run, bell=bell)

    async def release(self, database: Database) -> None:
        """Give the lease up, so that another process need not wait until it lapses."""
        if self._token is None:
            return
        token, self._token = self._token, None
        try:
            await store.release(database.once(OURS), OURS, self.name, self.holder, token)
        except LeaseLost:
            log.warning("the work of one went to another process", lease=self.name)
