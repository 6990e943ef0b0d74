"""Uploads, references, their end and every step of collection cross in any order, paused between any two steps."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.artifacts import reference_store as references
from app.artifacts import store
from app.artifacts.errors import ArtifactNotFound
from app.artifacts.jobs import Collection
from app.blobs.blobs import Blobs
from app.db.database import Database, Transaction
from app.db.sql import Statement
from app.errors import Unavailable
from app.http.received import Received
from app.http.service import Service
from app.surface import HOLDERS
from tests.artifacts.collecting import AGE, GRACE_SECONDS
from tests.conftest import Make, new_tenant

CONTENTS = [b"one", b"two"]
# How many use artifacts, and how many collect them: both begin with an upload or a collection at whichever step.
STEPS, USERS, COLLECTORS = 500, 3, 3
# One that goes on has this long to come to its next pause; else it waits for a lock, and the others go on.
LOCKED_SECONDS = 0.05
CONTEXT = Statement(f"""
WITH held AS MATERIALIZED ({store.HOLDING})
INSERT INTO contexts (tenant_id, invocation_id, scope, key, summary, summary_given, content_type, size_bytes, digest,
  artifact_hash)
SELECT :tenant_id, :invocation_id, 's', :key, '', false, 'a/b', 3, hash, hash FROM held RETURNING key""")
CLEAR = Statement("DELETE FROM contexts WHERE tenant_id = :tenant_id AND invocation_id = :invocation_id AND key = :key")


class Turns:
    """Whoever takes part pauses before each step, and goes on when it is drawn."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.paused: list[asyncio.Future[None]] = []
        self.moved = asyncio.Event()

    async def pause(self) -> None:
        """Wait to be drawn."""
        turn = asyncio.get_running_loop().create_future()
        self.paused.append(turn)
        self.moved.set()
        await turn

    async def next(self) -> None:
        """Let one go on, up to its next pause or its end, or until it waits for a lock."""
        self.moved.clear()
        if self.paused:
            self.paused.pop(self.random.randrange(len(self.paused))).set_result(None)
        try:
            await asyncio.wait_for(self.moved.wait(), LOCKED_SECONDS)
        except TimeoutError:
            return


class PausedDatabase(Database):
    """The same database, with a pause before each statement and each commit."""

    def __init__(self, database: Database, turns: Turns) -> None:
        self.settings, self.url, self._connections = database.settings, database.url, database._connections
        self.turns = turns

    async def rows(self, statement: Statement, **arguments: Any) -> Any:
        await self.turns.pause()
        return await super().rows(statement, **arguments)

    @asynccontextmanager
    async def writing(self, *, snapshot: bool = False) -> AsyncIterator[Transaction]:
        async with super().writing(snapshot=snapshot) as transaction:
            yield PausedTransaction(transaction.connection, self.turns)
            await self.turns.pause()


class PausedTransaction(Transaction):
    """A transaction with a pause before each statement."""

    def __init__(self, connection: Any, turns: Turns) -> None:
        super().__init__(connection)
        self.turns = turns

    async def rows(self, statement: Statement, **arguments: Any) -> Any:
        await self.turns.pause()
        return await super().rows(statement, **arguments)


class PausedBlobs:
    """The same objects, with a pause before each call."""

    def __init__(self, blobs: Blobs, turns: Turns) -> None:
        self.blobs, self.turns = blobs, turns

    def __getattr__(self, name: str) -> Any:
        async def paused(*arguments: Any) -> Any:
            await self.turns.pause()
            return await getattr(self.blobs, name)(*arguments)

        return paused


class World:
    """What the actors do, and what must be true of it: what is referred to can be read, and what was just sent."""

    def __init__(self, service: Service, tenant_id: str, invocation_id: str, seed: int) -> None:
        self.turns, self.service = Turns(seed), service
        self.tenant_id, self.invocation_id = tenant_id, invocation_id
        self.database = PausedDatabase(service.ground.database, self.turns)
        # Two processes: each with its own way to the same objects.
        self.blobs: list[Any] = [PausedBlobs(service.ground.blobs, self.turns) for _ in range(2)]
        self.collections = [Collection(blobs, HOLDERS, GRACE_SECONDS) for blobs in self.blobs]
        self.held: dict[str, bytes] = {}
        self.busy: set[str] = set()
        self.ages = 0
        self.sent: dict[bytes, int] = {}

    async def upload(self) -> bytes:
        content, begun = self.turns.random.choice(CONTENTS), self.ages
        received = Received()
        await received.take(content)
        await received.finish()
        await store.keep(self.database, self.turns.random.choice(self.blobs), self.tenant_id, received)
        self.sent[content] = begun
        return content

    async def refer(self, kind: str) -> None:
        name = f"{kind} {self.turns.random.randrange(3)}"
        if name in self.busy:
            return
        self.busy.add(name)
        # Half of them trust that it is still there.
        content = await self.upload() if self.turns.random.random() < 0.5 else self.turns.random.choice(CONTENTS)
        # From here on the name stands for nothing that is checked, until it does again.
        before = self.held.pop(name, None)
        try:
            if kind == "name":
                await references.put(
                    self.database.once(self.tenant_id), self.tenant_id, self.invocation_id, name,
                    {"hash": digest(content).hex()}, None, may_create=True,
                )  # fmt: skip
                self.held[name] = content
            elif before is None:
                key = {"tenant_id": self.tenant_id, "invocation_id": self.invocation_id, "key": name}
                if await self.database.rows(CONTEXT, **key, artifact_hash=digest(content)):
                    self.held[name] = content
            else:
                self.held[name] = before
        except ArtifactNotFound:
            if before is not None:
                self.held[name] = before
        finally:
            self.busy.discard(name)

    async def let_go(self) -> None:
        names = sorted(self.held.keys() - self.busy)
        if not names:
            return
        name = self.turns.random.choice(names)
        self.busy.add(name)
        del self.held[name]
        if name.startswith("name"):
            await references.delete(self.database.once(self.tenant_id), self.tenant_id, self.invocation_id, name, None)
        else:
            key = {"tenant_id": self.tenant_id, "invocation_id": self.invocation_id, "key": name}
            await self.database.rows(CLEAR, **key)
        self.busy.discard(name)

    async def age(self) -> None:
        """Time passes, after which nothing need stay that nothing refers to."""
        self.ages += 1
        await self.database.rows(AGE)

    async def collect(self) -> None:
        """A whole collection, or what a killed one had done of it."""
        collection = self.turns.random.choice(self.collections)
        phases = [
            self.age, lambda: collection.mark(self.database, 10), self.age,
            lambda: collection.take(self.database, 10), lambda: collection.delete(self.database, 10),
            lambda: collection.give_up(self.database, 10),
        ]  # fmt: skip
        for phase in phases[: self.turns.random.choice([2, 4, 6, 6])]:
            await phase()

    async def actor(self, ways: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        """Do one thing after the other."""
        while True:
            await self.turns.pause()
            try:
                await self.turns.random.choice(ways)()
            except Unavailable:
                # Others were in the way; nothing was stored.
                continue

    def actors(self) -> list[asyncio.Task[None]]:
        """Begin."""
        using = [self.upload, lambda: self.refer("name"), lambda: self.refer("context"), self.let_go, self.let_go]
        ways = [using] * USERS + [[self.collect]] * COLLECTORS
        return [asyncio.create_task(self.actor(one)) for one in ways]

    async def check(self) -> None:
        """Whatever is referred to can be read, and so can what was sent since time last passed."""
        must = {name: content for name, content in self.held.items() if name not in self.busy}
        must |= {f"sent {content!r}": content for content, ages in self.sent.items() if ages == self.ages}
        for name, content in must.items():
            assert await self.read(content) == content, name

    async def read(self, content: bytes) -> Any:
        database, blobs = self.service.ground.database, self.service.ground.blobs
        found = await store.find(database, self.tenant_id, digest(content))
        return await store.opened(database, blobs, self.tenant_id, found, 0, len(content))


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_referred_to_or_was_just_sent_is_there(fresh: Service, seed: int) -> None:
    async with await new_tenant(fresh) as client:
        invocation = (await Make(client).invocation())["id"]
        world = World(fresh, client.headers["x-test-tenant"], invocation, seed)
        actors = world.actors()
        try:
            for _ in range(STEPS):
                await world.turns.next()
                await world.check()
                for actor in actors:
                    if actor.done():
                        actor.result()
        finally:
            for actor in actors:
                actor.cancel()
            await asyncio.gather(*actors, return_exceptions=True)
        await world.check()
