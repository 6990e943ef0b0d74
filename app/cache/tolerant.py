"""The cache that goes on without its server: away at the start, dying, hanging, coming back, nothing fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from app import keeper
from app.cache.cache import Cache, Key, Read, Script, Word, unseen
from app.errors import Unavailable
from app.keeper import Keeper

PAUSE_SECONDS_MAX = 1.0
# How often it is asked whether it still takes what is written, and the longest wait for the answer.
CHECK_SECONDS = 5.0


class Line(Cache, keeper.Line, Protocol):
    """A cache that breaks: its calls raise `Unavailable`."""

    async def check(self, seconds: float) -> str: ...


class TolerantCache:
    """Keeps a line open and opens another when it breaks. While there is none, every read is a miss, at once.

    `degraded` is called with each look at a line: whether it is away.
    """

    def __init__(
        self,
        line: Callable[[], Line],
        degraded: Callable[[bool], None] = lambda _away: None,
        read: Read = unseen,
    ) -> None:
        self._make, self._read = line, read
        self._keeper = Keeper(
            line,
            server="Redis",
            loss="no Redis; nothing is cached, and rate limits hold for each process alone",
            pause_seconds_max=PAUSE_SECONDS_MAX,
            degraded=degraded,
            watch=self._watch,
        )

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        await self._keeper.open()

    async def get(self, key: Key) -> bytes | None:
        """The value, or None where there is none, or no Redis."""
        try:
            found = await self._there().get(key)
        except Unavailable:
            self._read(key.kind, "away")
            return None
        self._read(key.kind, "miss" if found is None else "hit")
        return found

    async def put(self, key: Key, value: bytes, ttl_seconds: float) -> None:
        """Keep the value for so long at most, if there is a Redis."""
        try:
            await self._there().put(key, value, ttl_seconds)
        except Unavailable:
            return

    async def delete(self, key: Key) -> None:
        """Keep it no more, if there is a Redis: one that was away may show it again, until its time is over."""
        try:
            await self._there().delete(key)
        except Unavailable:
            return

    async def erase(self, tenant_id: str) -> int:
        """Keep nothing of a tenant any more. Raises `Unavailable`: while it is away, nobody knows what it keeps."""
        return await self._there().erase(tenant_id)

    async def run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Word]) -> Any:
        """What the program answers. Raises `Unavailable`, at once while Redis is known to be away."""
        return await self._there().run(script, keys, arguments)

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable` while it is away."""
        if self._keeper.keeps:
            return await self._there().check(seconds)
        line = self._make()
        try:
            await line.open()
            return await line.check(seconds)
        finally:
            await line.close()

    async def close(self) -> None:
        """End, and close the line."""
        await self._keeper.close()

    def _there(self) -> Line:
        line = self._keeper.line
        if line is None or line.broken.is_set():
            raise Unavailable(self._keeper.why)
        return line

    async def _watch(self, line: Line) -> None:
        """Return once the line breaks; meanwhile tell when it refuses what it is for, and when that is over."""
        refused = False
        while not line.broken.is_set():
            try:
                await line.check(CHECK_SECONDS)
            except Exception as error:
                # Whatever it was: the line is asked again, and kept for what it does.
                if not line.broken.is_set():
                    self._keeper.lost(error, first=not refused)
                    refused = True
            else:
                if refused:
                    self._keeper.found(gap=True)
                refused = False
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await line.broken.wait()
