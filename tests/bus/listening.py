"""Listeners of the tests: what a process hears, and hints of each kind between two processes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from app.bus.hints import EmbeddedHints, Hints, Key
from app.bus.nats import NatsHints
from app.bus.tolerant import TolerantHints

BOUND_SECONDS = 20.0


class Heard:
    """What was heard, in order."""

    def __init__(self) -> None:
        self.keys: list[Key | None] = []
        self._more = asyncio.Event()

    def __call__(self, key: Key | None) -> None:
        """Hear a key."""
        self.keys.append(key)
        self._more.set()

    async def until(self, key: Key | None) -> None:
        """Return once this was heard; fails after a bound."""
        async with asyncio.timeout(BOUND_SECONDS):
            while key not in self.keys:
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def pair(kind: str, url: str) -> AsyncIterator[tuple[Hints, Heard, Hints, Heard]]:
    """The hints of two processes that share a bus, and what each hears; where they are embedded it is one process."""
    prefix = f"t{uuid.uuid4().hex}"

    def made() -> Hints:
        if kind == "embedded":
            return EmbeddedHints()
        if kind == "nats":
            return NatsHints(url, prefix)
        return TolerantHints(lambda: NatsHints(url, prefix))

    here, there = Heard(), Heard()
    async with AsyncExitStack() as stack:
        first = made()
        second = first if kind == "embedded" else made()
        for hints, heard in ((first, here),) if first is second else ((first, here), (second, there)):
            hints.listen(heard)
            await hints.open()
            stack.push_async_callback(hints.close)
        yield first, here, second, here if first is second else there
