"""Hints that go on without their server: away at the start, dying, hanging, coming back, nothing fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

import structlog

from app.bus.hints import Heard, Hints, Key, nobody
from app.errors import Unavailable

log = structlog.get_logger("cairn.bus")
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0


class Line(Hints, Protocol):
    """Hints that break: `open` raises `Unavailable`, and `broken` is set when they are over."""

    broken: asyncio.Event

    async def check(self, seconds: float) -> str: ...


class TolerantHints:
    """Keeps a line open and opens another when it breaks. While there is none, only the own process hears.

    After each gap everybody who listens is told to look at everything, once. `degraded` is called with each change.
    """

    def __init__(
        self,
        line: Callable[[], Line],
        degraded: Callable[[bool], None] = lambda _away: None,
        dropped: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._make, self._degraded, self._dropped = line, degraded, dropped
        self._heard: Heard = nobody
        self._line: Line | None = None
        self._why = "NATS does not answer."
        self._tried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    def listen(self, heard: Heard) -> None:
        """Say who is called."""
        self._heard = heard

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        self._keeping = asyncio.create_task(self._keep(), name="hints")
        await self._tried.wait()

    def publish(self, *keys: Key) -> None:
        """Tell the own process, and the others where there is a way."""
        if self._line is not None:
            self._line.publish(*keys)
            return
        self._dropped(len(keys))
        for key in keys:
            self._heard(key)

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable` while it is away."""
        if self._line is not None:
            return await self._line.check(seconds)
        if self._keeping is not None:
            raise Unavailable(self._why)
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
        if self._line is not None:
            await self._line.close()
            self._line = None

    async def _keep(self) -> None:
        failures, gap = 0, False
        while True:
            line = self._make()
            line.listen(self._heard)
            try:
                await line.open()
            except Unavailable as refusal:
                self._lost(refusal.detail, first=failures == 0 and not gap)
                failures, gap = failures + 1, True
            else:
                self._line, failures = line, 0
                self._degraded(False)
                self._tried.set()
                if gap:
                    log.info("NATS is back")
                    self._heard(None)
                await line.broken.wait()
                self._line, gap = None, True
                self._lost("NATS went away.", first=True)
                await line.close()
            self._tried.set()
            pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2 ** min(failures, 10))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    def _lost(self, why: str, *, first: bool) -> None:
        self._why = why
        self._degraded(True)
        if first:
            log.warning("no hints between processes; readers look by themselves", error=why)
