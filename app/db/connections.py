"""The open connections between one use and the next.

The pool of the driver makes a task for each acquisition and another for each release, which a profile of a hot request
shows. So a connection that was left clean is kept beside the pool, and taken from there or handed to who waits. All
else stays the pool's: opening them, and those that an error, a time-out or a cancellation met.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from time import monotonic

import asyncpg

# How long a connection is kept without use, and how often that is looked at.
IDLE_SECONDS = 300
SWEEP_SECONDS = 60


class Connections:
    """Connections of a pool, kept open and at hand; who finds none free waits in line."""

    def __init__(self, pool: asyncpg.Pool, acquire_seconds: float) -> None:
        self._pool, self._acquire_seconds = pool, acquire_seconds
        self._kept: deque[tuple[float, asyncpg.Connection]] = deque()
        # How many of the pool's are here: kept, or taken by somebody.
        self._out = 0
        # Each gets a connection, or None where the pool may have one again.
        self._line: deque[asyncio.Future[asyncpg.Connection | None]] = deque()
        self._sweeping: asyncio.Task[None] | None = None
        self._closing = False

    async def take(self) -> asyncpg.Connection:
        """A connection for the caller alone. Raises what the driver does, `TimeoutError` where none is free in time."""
        while self._kept:
            _since, connection = self._kept.pop()
            if not _gone(connection):
                return connection
            await self._release(connection)
        deadline = monotonic() + self._acquire_seconds
        while True:
            if self._out < self._pool.get_max_size() or self._closing:
                return await self._acquire(deadline)
            handed = await self._wait(deadline)
            if handed is not None:
                return handed

    async def give(self, connection: asyncpg.Connection, *, clean: bool) -> None:
        """Give a connection back; `clean` where its last use ended without an error and in no transaction."""
        if clean and not self._closing and not _gone(connection):
            self._hand(connection)
        else:
            await self._release(connection)

    async def _acquire(self, deadline: float) -> asyncpg.Connection:
        self._out += 1
        try:
            return await self._pool.acquire(timeout=max(0, deadline - monotonic()))
        except BaseException:
            self._out -= 1
            self._hand(None)
            raise

    async def _wait(self, deadline: float) -> asyncpg.Connection | None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[asyncpg.Connection | None] = loop.create_future()
        self._line.append(turn)
        # A timer of the loop is less work than a time-out around the wait.
        late = loop.call_later(deadline - monotonic(), _give_up, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            # What was handed over in that very moment is for the next.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand(turn.result())
            raise
        finally:
            late.cancel()

    def _hand(self, connection: asyncpg.Connection | None) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is not None:
            self._kept.append((monotonic(), connection))
            if self._sweeping is None:
                self._sweeping = asyncio.create_task(self._sweep(), name="close idle connections")

    async def expire(self) -> None:
        """Open every connection again at its next use."""
        await self._pool.expire_connections()
        await self._let_go(0)

    @property
    def counts(self) -> tuple[int, int]:
        """Open connections, and those of them that are idle."""
        return self._pool.get_size(), self._pool.get_idle_size() + len(self._kept)

    async def close(self, seconds: float) -> None:
        """Wait for running statements, so many seconds at most, and close every connection."""
        self._closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        while self._line:
            self._hand(None)
        try:
            async with asyncio.timeout(seconds):
                await self._let_go(0)
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def _sweep(self) -> None:
        try:
            while self._kept:
                await asyncio.sleep(SWEEP_SECONDS)
                await self._let_go(IDLE_SECONDS)
        finally:
            self._sweeping = None

    async def _let_go(self, idle_seconds: float) -> None:
        """Give back to the pool what has not been used for so long; the longest unused are first."""
        before = monotonic() - idle_seconds
        while self._kept and self._kept[0][0] <= before:
            await self._release(self._kept.popleft()[1])

    async def _release(self, connection: asyncpg.Connection) -> None:
        try:
            # Where PostgreSQL does not even take the cancellation, the pool has given the connection up: that is all.
            with suppress(TimeoutError):
                await self._pool.release(connection, timeout=self._acquire_seconds)
        finally:
            self._out -= 1
            self._hand(None)


def _give_up(turn: asyncio.Future[asyncpg.Connection | None]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())


def _gone(connection: asyncpg.Connection) -> bool:
    """Whether it was closed; the pool takes one back by itself that the server has closed, and then it only raises."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True
