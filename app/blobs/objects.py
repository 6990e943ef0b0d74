"""What a folder and a bucket have in common: both are reached through obstore."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import obstore
import structlog
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from app.blobs.blobs import BlobMissing
from app.errors import Unavailable

log = structlog.get_logger("cairn.blobs")
MIB = 1024 * 1024
# A larger object is written in chunks of so much, so many at once: three of them are in memory. S3 takes 10,000.
CHUNK_BYTES, CHUNKS_AT_ONCE = 8 * MIB, 2
# So many large objects are written at once in a process; the others wait, with their bytes on disk.
LARGE_PUTS_MAX = 4
# A read asks for so much at once.
READ_BYTES = 4 * MIB


class Objects:
    """Objects in a store of obstore, as `<tenant>/<name>`; `told` is what a caller hears where it does not answer.

    The store is made when it is first needed: a folder that cannot be made is no reason not to start.
    """

    def __init__(self, make: Callable[[], LocalStore | S3Store], wait_seconds: float, told: str) -> None:
        self.wait_seconds, self._make, self._told = wait_seconds, make, told
        self._large = asyncio.Semaphore(LARGE_PUTS_MAX)

    @cached_property
    def store(self) -> LocalStore | S3Store:
        """The store, as obstore knows it."""
        return self._make()

    async def put(self, tenant_id: str, name: str, parts: AsyncIterator[bytes]) -> None:
        """Store an object, whole or not at all."""
        path = f"{tenant_id}/{name}"
        head = bytearray()
        with self._answering():
            async for part in parts:
                head += part
                if len(head) >= CHUNK_BYTES:
                    break
            else:
                await obstore.put_async(self.store, path, bytes(head), use_multipart=False)
                return
            async with self._large:
                await obstore.put_async(
                    self.store, path, _following(head, parts), use_multipart=True, chunk_size=CHUNK_BYTES,
                    max_concurrency=CHUNKS_AT_ONCE,
                )  # fmt: skip

    async def open(self, tenant_id: str, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, in pieces. Raises `BlobMissing`."""
        while start < end:
            upto = min(end, start + READ_BYTES)
            with self._answering():
                try:
                    async with asyncio.timeout(self.wait_seconds):
                        piece = await obstore.get_range_async(self.store, f"{tenant_id}/{name}", start=start, end=upto)
                except FileNotFoundError as error:
                    raise BlobMissing(name) from error
            yield bytes(piece)
            start = upto

    async def size(self, tenant_id: str, name: str) -> int | None:
        """How many bytes the object has; None where there is none."""
        with self._answering():
            try:
                async with asyncio.timeout(self.wait_seconds):
                    return (await obstore.head_async(self.store, f"{tenant_id}/{name}"))["size"]
            except FileNotFoundError:
                return None

    async def delete(self, tenant_id: str, name: str) -> None:
        """Delete the object. None of that name is no error."""
        with self._answering():
            try:
                async with asyncio.timeout(self.wait_seconds):
                    await obstore.delete_async(self.store, f"{tenant_id}/{name}")
            except FileNotFoundError:
                return

    async def close(self) -> None:
        """Nothing is held between two calls."""

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, TimeoutError) as error:
            # What it says may hold paths and the names of buckets: it is for the operator.
            log.warning("the object store does not answer", error=f"{type(error).__name__}: {error}"[:500])
            raise Unavailable(self._told) from error


async def _following(head: bytearray, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield bytes(head)
    head.clear()
    async for part in parts:
        yield part
