"""One load for all who want the same thing at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")


class _Flight:
    """A load under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task, self.waiting = task, 0


class Flights:
    """Loads under way, by key. Nobody owns a load: who began it may be cancelled, and the others have it all the same.

    A load that fails fails for who began it; the others try once more, again together, and take what comes of that.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Flight] = {}

    async def one(self, key: Hashable, load: Callable[[], Awaitable[Loaded]]) -> Loaded:
        """What the load gives. Raises what the load raises."""
        flight = self._under_way.get(key)
        found: Loaded
        if flight is None:
            found = await self._wait(key, self._begin(key, load))
            return found
        try:
            found = await self._wait(key, flight)
        except Exception:
            found = await self._wait(key, self._under_way.get(key) or self._begin(key, load))
        return found

    def _begin(self, key: Hashable, load: Callable[[], Awaitable[Loaded]]) -> _Flight:
        async def loading() -> Loaded:
            return await load()

        flight = self._under_way[key] = _Flight(asyncio.create_task(loading(), name="load"))
        flight.task.add_done_callback(lambda _task: self._landed(key, flight))
        return flight

    def _landed(self, key: Hashable, flight: _Flight) -> None:
        if self._under_way.get(key) is flight:
            del self._under_way[key]
        if flight.task.done() and not flight.task.cancelled():
            # Where everybody has left, nobody is to be told.
            flight.task.exception()

    async def _wait(self, key: Hashable, flight: _Flight) -> Any:
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0 and not flight.task.done():
                flight.task.cancel()
                self._landed(key, flight)
