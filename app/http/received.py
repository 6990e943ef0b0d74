"""Bytes that a route takes as its body: received without a connection, beyond a small size into a file without a name.

The file is unlinked from the start, so nothing is left of an upload that is cut, whatever ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO

from starlette.types import Receive

from app.errors import Unavailable
from app.http.body import check_declared, next_part, too_large

PART_BYTES = 1024 * 1024


class Received:
    """A whole body, to be read as often as needed, in parts of `part_bytes`; the last one may be shorter.

    `digest` is the SHA-256 of all of it, `part_digests` are those of its parts.
    """

    part_bytes = PART_BYTES

    def __init__(self) -> None:
        self.size_bytes = 0
        self.digest = b""
        self.part_digests: list[bytes] = []
        self._whole = hashlib.sha256()
        self._pending = bytearray()
        self._file: IO[bytes] | None = None

    async def parts(self) -> AsyncIterator[bytes]:
        """The parts in order. One reader at a time."""
        if self._file is None:
            if self._pending:
                yield bytes(self._pending)
            return
        await asyncio.to_thread(self._file.seek, 0)
        while part := await asyncio.to_thread(self._file.read, PART_BYTES):
            yield part

    async def take(self, part: bytes) -> None:
        """Add what has arrived."""
        self.size_bytes += len(part)
        self._pending += part
        while len(self._pending) > PART_BYTES:
            await asyncio.to_thread(self._put_away)

    async def finish(self) -> None:
        """Everything has arrived: the digests are known from now on."""
        if self._file is None:
            self._count(self._pending)
        elif self._pending:
            await asyncio.to_thread(self._put_away)
        self.digest = self._whole.digest()

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()

    def _put_away(self) -> None:
        part = self._pending[:PART_BYTES]
        del self._pending[:PART_BYTES]
        self._count(part)
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="cairn-upload-", buffering=0)  # noqa: SIM115 - closed by `close`
        written = memoryview(part)
        while written:
            written = written[self._file.write(written) :]

    def _count(self, part: bytearray) -> None:
        self._whole.update(part)
        if part:
            self.part_digests.append(hashlib.sha256(part).digest())


@asynccontextmanager
async def receiving(
    receive: Receive, declared: str | None, bytes_max: int, silence_seconds: float
) -> AsyncIterator[Received]:
    """The body, once it is whole; it is gone when the block ends.

    Raises `PayloadTooLarge` as soon as that is known, `RequestTimeout` after a long silence, `Disconnected`, and
    `Unavailable` where there is no room for the file.
    """
    check_declared(declared, bytes_max)
    received = Received()
    try:
        try:
            await _receive(received, receive, bytes_max, silence_seconds)
        except OSError as error:
            raise Unavailable("There is no room to receive the bytes; nothing was stored.") from error
        yield received
    finally:
        received.close()


async def _receive(received: Received, receive: Receive, bytes_max: int, silence_seconds: float) -> None:
    more = True
    while more:
        message = await next_part(receive, silence_seconds)
        part: bytes = message.get("body", b"")
        if received.size_bytes + len(part) > bytes_max:
            raise too_large(bytes_max)
        await received.take(part)
        more = message.get("more_body", False)
    await received.finish()
