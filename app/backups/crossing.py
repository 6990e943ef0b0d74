"""Between the event loop and threads: bytes arrive there and are read here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import TypeVar

_Item = TypeVar("_Item")


class Pulled:
    """Parts of an asynchronous iterator, as a file that threads read; one reader at a time."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts, self._loop = parts, asyncio.get_running_loop()
        self._rest = memoryview(b"")
        # Whoever closes it sees whoever waits, and nobody begins to wait afterwards.
        self._changing, self._closed = Lock(), False
        self._waiting: Future[bytes | None] | None = None
        self._under_way: asyncio.Task[bytes | None] | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, or none at the end. Raises what the iterator raises."""
        while not self._rest:
            with self._changing:
                if self._closed:
                    break
                waiting = self._waiting = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            part = waiting.result()
            if part is None:
                self._closed = True
            else:
                self._rest = memoryview(part)
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return bytes(taken)

    async def close(self) -> None:
        """Cut off whoever waits for a part, to the end of that; whoever reads on finds the end."""
        with self._changing:
            self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    async def _next(self) -> bytes | None:
        self._under_way = asyncio.current_task()
        return await anext(self._parts, None)


async def in_thread(items: Callable[[], Iterator[_Item]], source: Pulled) -> AsyncIterator[_Item]:
    """What an iterator gives that reads from `source`, each item made in a thread. Nothing of it runs on afterwards."""
    iterator = items()
    try:
        while True:
            making = asyncio.ensure_future(asyncio.to_thread(next, iterator, None))
            try:
                item = await asyncio.shield(making)
            except asyncio.CancelledError:
                await source.close()
                with suppress(Exception):
                    await making
                raise
            if item is None:
                return
            yield item
    finally:
        await source.close()
