"""The cache that goes on without its server: away at the start, dying, hanging, coming back, nothing fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import structlog

from app.cache.cache import Cache, Key, Read, Script, Word, unseen
from app.errors import Unavailable

log = structlog.get_logger("cairn.cache")
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 1.0
# How often it is asked whether it still takes what is written, and the longest wait for the answer.
CHECK_SECONDS = 5.0


class Line(Cache, Protocol):
    """A cache that breaks: its calls raise `Unavailable`, and `broken` is set when it is over."""

    broken: asyncio.Event

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
        self._make, self._degraded, self._read = line, degraded, read
        self._line: Line | None = None
        self._why = "Redis does not answer."
        self._tried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        self._keeping = asyncio.create_task(self._keep(), name="cache")
        await self._tried.wait()

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

    async def run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Word]) -> Any:
        """What the program answers. Raises `Unavailable`, at once while Redis is known to be away."""
        return await self._there().run(script, keys, arguments)

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable` while it is away."""
        if self._keeping is not None:
            return await self._there().check(seconds)
        line = self._make()
        try:
            await line.open()
            return await line.check(seconds)
        finally:
            await line.close()

    async def close(self) -> None:
        """End, and close the line."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def _there(self) -> Line:
        if self._line is None or self._line.broken.is_set():
            raise Unavailable(self._why)
        return self._line

    async def _keep(self) -> None:
        failures, gap = 0, False
        while True:
            line = self._make()
            try:
                await line.open()
            except Unavailable as refusal:
                self._lost(refusal.detail, first=failures == 0 and not gap)
                failures, gap = failures + 1, True
            else:
                self._line, failures = line, 0
                self._found(gap=gap)
                await self._watch(line)
                self._line, gap = None, True
                self._lost("Redis went away.", first=True)
                await line.close()
            self._tried.set()
            pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2 ** min(failures, 10))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    async def _watch(self, line: Line) -> None:
        """Return once the line breaks; meanwhile tell when it refuses what it is for, and when that is over."""
        refused = False
        while not line.broken.is_set():
            try:
                await line.check(CHECK_SECONDS)
            except Unavailable as refusal:
                if not line.broken.is_set():
                    self._lost(refusal.detail, first=not refused)
                    refused = True
            else:
                if refused:
                    self._found(gap=True)
                refused = False
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await line.broken.wait()

    def _found(self, *, gap: bool) -> None:
        self._degraded(False)
        self._tried.set()
        if gap:
            log.info("Redis is back")

    def _lost(self, why: str, *, first: bool) -> None:
        self._why = why
        self._degraded(True)
        if first:
            log.warning("no Redis; nothing is cached, and rate limits hold for each process alone", error=why)
