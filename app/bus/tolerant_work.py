"""Streams that go on without their server: JetStream while it is there, the own process's memory while it is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from app import keeper
from app.bus.standing import Standing
from app.bus.work import EmbeddedStreams, Stream, Streams, Taken, Work
from app.errors import Unavailable
from app.keeper import Keeper

# While there is no server, or while the memory still holds something, one is waited for no longer than this at once.
GLANCE_SECONDS = 0.25


class Line(Streams, keeper.Line, Protocol):
    """Streams that break. `must_store` is whether something could not be stored, and `open` has to try it."""

    must_store: bool

    async def connect(self) -> None: ...


class TolerantStreams:
    """Keeps a line open and opens another when it breaks. While there is none, the own process keeps what is queued.

    That is taken from there, also after the line is back. `degraded` is told of each change.
    A `put` waits as long as that of a line at most.
    """

    def __init__(
        self,
        line: Callable[[], Line],
        embedded: EmbeddedStreams,
        degraded: Callable[[bool], None] = lambda _away: None,
    ) -> None:
        self._make, self._embedded = line, embedded
        self._last: Line | None = None
        self._keeper = Keeper(
            self._next,
            server="NATS",
            loss="no streams between processes; each keeps its own work",
            degraded=degraded,
        )

    def _next(self) -> Line:
        line = self._make()
        line.must_store = self._last is not None and self._last.must_store
        self._last = line
        return line

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        await self._keeper.open()

    def bytes_max(self, stream: Stream) -> int:
        """What fits into the one that is there now, and into the other."""
        embedded = self._embedded.bytes_max(stream)
        return embedded if self._keeper.line is None else min(embedded, self._keeper.line.bytes_max(stream))

    async def put(self, stream: Stream, works: Sequence[Work]) -> None:
        """Store messages where they can be stored now. Raises `Unavailable`, `WorkTooLarge`."""
        line = self._keeper.line
        if line is not None and not line.broken.is_set():
            await line.put(stream, works)
        elif stream is Stream.QUEUED:
            await self._embedded.put(stream, works)
        else:
            # Those who read dead letters read them from the server: they are told when it is back.
            raise Unavailable(self._keeper.why)

    async def take(self, stream: Stream, limit: int, seconds: float) -> Sequence[Taken]:
        """What the own process kept, or else what comes first from where messages are now."""
        ends_at = time.monotonic() + seconds
        while True:
            if found := await self._embedded.take(stream, limit, 0):
                return found
            left = max(0.0, ends_at - time.monotonic())
            line = self._keeper.line
            if line is None or line.broken.is_set():
                found = await self._embedded.take(stream, limit, min(left, GLANCE_SECONDS))
            else:
                # Broken meanwhile: the next round looks elsewhere.
                with suppress(Unavailable):
                    found = await line.take(stream, limit, left if self._embedded.empty else min(left, GLANCE_SECONDS))
            if found or time.monotonic() >= ends_at:
                return found

    async def erase(self, tenant_id: str) -> int:
        """Hold no message of a tenant any more. Raises `Unavailable` without a line: it is not known what is there."""
        erased = await self._embedded.erase(tenant_id)
        line = self._keeper.line
        if line is None or line.broken.is_set():
            raise Unavailable(self._keeper.why)
        return erased + await line.erase(tenant_id)

    async def look(self, seconds: float) -> Sequence[Standing]:
        """How the streams are, those of the server or those that stand in for them. Raises `Unavailable`."""
        if self._keeper.line is not None:
            return await self._keeper.line.look(seconds)
        if self._keeper.keeps:
            return [
                replace(one, mode="degraded", faults=(self._keeper.why,)) for one in await self._embedded.look(seconds)
            ]
        line = self._make()
        try:
            await line.connect()
            return await line.look(seconds)
        finally:
            await line.close()

    async def check(self, seconds: float) -> None:
        """Raise `Unavailable` while there is no line, or while nobody takes what waits."""
        for one in await self.look(seconds):
            if one.mode == "degraded":
                raise Unavailable(self._keeper.why)
            if one.stalled:
                raise Unavailable(f"Messages of {one.stream} wait and nobody takes them: does a `cairn worker` run?")

    async def close(self) -> None:
        """End, and close the line."""
        await self._keeper.close()
