"""Between the event loop and threads: bytes that arrive there and are read here, and encryption as they pass."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import pyrage

from app.errors import invalid

# What is encrypted leaves in parts of this, about.
PART_BYTES = 1024 * 1024

_Item = TypeVar("_Item")


class Pulled:
    """Parts of an asynchronous iterator, as a file that threads read; one reader at a time.

    `failure` is what the iterator raised, which some readers only tell in words.
    """

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self.failure: BaseException | None = None
        self._parts, self._loop = parts, asyncio.get_running_loop()
        self._rest = memoryview(b"")
        self._closed = False
        self._waiting: Future[bytes | None] | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, or none at the end. Raises what the iterator raises."""
        while not self._rest and not self._closed:
            self._waiting = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            try:
                part = self._waiting.result()
            except BaseException as error:
                self.failure = error
                raise
            if part is None:
                self._closed = True
            else:
                self._rest = memoryview(part)
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return bytes(taken)

    def close(self) -> None:
        """Cut off whoever waits for a part; whoever reads on finds the end."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _next(self) -> bytes | None:
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
                source.close()
                with suppress(Exception):
                    await making
                raise
            if item is None:
                return
            yield item
    finally:
        source.close()


class Tallied:
    """Parts as they pass, counted and digested."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self.size_bytes, self._sha256, self._parts = 0, hashlib.sha256(), parts

    @property
    def digest(self) -> bytes:
        """SHA-256 of what has passed."""
        return self._sha256.digest()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            self.size_bytes += len(part)
            self._sha256.update(part)
            yield part


def recipients_of(keys: Sequence[str], pointer: str = "/recipients") -> list[pyrage.x25519.Recipient]:
    """The recipients with these public keys of age. Raises `InvalidInput` that names the first that is none."""
    recipients = []
    for number, key in enumerate(keys):
        try:
            recipients.append(pyrage.x25519.Recipient.from_str(key))
        except pyrage.RecipientError as error:
            raise invalid(f"{pointer}/{number}", "is no public key of age; it begins with `age1`") from error
    return recipients


class _Leaving:
    """Where a thread writes what is to leave: it waits until there is room for each part."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self.closed, self._put, self._gathered = False, put, bytearray()

    def write(self, part: bytes) -> int:
        """Take a part; nobody wants it any more once this is closed."""
        self._gathered += part
        if len(self._gathered) >= PART_BYTES:
            self.send()
        return len(part)

    def flush(self) -> None:
        """What is written is a file, whose readers want no small parts."""

    def send(self) -> None:
        """Let what is gathered leave."""
        if not self.closed:
            self._put(bytes(self._gathered))
        self._gathered.clear()


async def encrypted(parts: AsyncIterator[bytes], recipients: Sequence[str]) -> AsyncIterator[bytes]:
    """The same bytes encrypted with age for everybody named, as a stream: a few MiB of them are in memory."""
    loop, source = asyncio.get_running_loop(), Pulled(parts)
    ready: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2)

    def put(part: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(ready.put(part), loop).result()

    leaving = _Leaving(put)

    def encrypt() -> None:
        try:
            pyrage.encrypt_io(source, leaving, recipients_of(recipients))
            leaving.send()
        finally:
            if not leaving.closed:
                put(None)

    working = asyncio.ensure_future(asyncio.to_thread(encrypt))
    try:
        while (part := await ready.get()) is not None:
            yield part
        await asyncio.wait({working})
        if source.failure is not None:
            raise source.failure
        await working
    finally:
        leaving.closed = True
        source.close()
        # One put may still wait for room.
        while not ready.empty():
            ready.get_nowait()
        await asyncio.gather(working, return_exceptions=True)
