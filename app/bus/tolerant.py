"""Hints that go on without their server: away at the start, dying, hanging, coming back, nothing fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from app import keeper
from app.bus.hints import Heard, Hints, Key, nobody
from app.errors import Unavailable
from app.keeper import Keeper


class Line(Hints, keeper.Line, Protocol):
    """Hints that break."""

    async def check(self, seconds: float) -> str: ...


class TolerantHints:
    """Keeps a line open and opens another when it breaks. While there is none, only the own process hears.

    After each gap everybody who listens is told to look at everything, once. `degraded` is told of each change.
    """

    def __init__(
        self,
        line: Callable[[], Line],
        degraded: Callable[[bool], None] = lambda _away: None,
        dropped: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._make, self._dropped = line, dropped
        self._heard: Heard = nobody
        self._keeper = Keeper(
            self._listening,
            server="NATS",
            loss="no hints between processes; readers look by themselves",
            degraded=degraded,
            back=lambda: self._heard(None),
        )

    def listen(self, heard: Heard) -> None:
        """Say who is called."""
        self._heard = heard

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        await self._keeper.open()

    def publish(self, *keys: Key) -> None:
        """Tell the own process, and the others where there is a way."""
        if self._keeper.line is not None:
            self._keeper.line.publish(*keys)
            return
        self._dropped(len(keys))
        for key in keys:
            self._heard(key)

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable` while it is away."""
        if self._keeper.line is not None:
            return await self._keeper.line.check(seconds)
        if self._keeper.keeps:
            raise Unavailable(self._keeper.why)
        line = self._make()
        try:
            await line.open()
            return await line.check(seconds)
        finally:
            await line.close()

    async def close(self) -> None:
        """End, and close the line."""
        await self._keeper.close()

    def _listening(self) -> Line:
        line = self._make()
        line.listen(self._heard)
        return line
