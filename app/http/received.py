"""Bytes that a route takes as its body: received without a connection, beyond a small size into a file without a name.

The file is unlinked from the start, so nothing is left of an upload that is cut, whatever ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from starlette.types import Receive

from app.errors import Unavailable
from app.http.body import check_declared, next_part, too_large
from app.settings import HttpSettings

PART_BYTES = 1024 * 1024


class Received:
    """A whole body, to be read as often as needed, in parts of `part_bytes`; the last one may be shorter.

    `digest` is the SHA-256 of all of it, `part_digests` are those of its parts. What does not fit one part waits in a
    file of the folder; without one, of the system's temporary folder.
    """

    part_bytes = PART_BYTES

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
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
            self._file = _unnamed_file(self._folder)
        written = memoryview(part)
        while written:
            written = written[self._file.write(written) :]

    def _count(self, part: bytearray) -> None:
        self._whole.update(part)
        if part:
            self.part_digests.append(hashlib.sha256(part).digest())


def require_folder(folder: Path | None) -> None:
    """Make the folder in which bodies wait, and try it. Raises `Unavailable`, which says what to do.

    The system's temporary folder (None) is not tried: a process that receives nothing large needs none.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _unnamed_file(folder).close()
    except OSError as error:
        raise Unavailable(
            f"Uploads cannot wait in {folder.absolute()} ({error.strerror or error}): let this user write there, or"
            " name another folder in CAIRN_HTTP__UPLOADS_FOLDER."
        ) from error


def _unnamed_file(folder: Path | None) -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="cairn-upload-", dir=folder, buffering=0)


@asynccontextmanager
async def receiving(
    receive: Receive, declared: str | None, settings: HttpSettings, bytes_max: int
) -> AsyncIterator[Received]:
    """The body, of up to `bytes_max`, once it is whole; it is gone when the block ends.

    Raises `PayloadTooLarge` as soon as that is known, `RequestTimeout` after a long silence, `Disconnected`, and
    `Unavailable` where there is no room for the file.
    """
    check_declared(declared, bytes_max)
    received = Received(settings.uploads_folder)
    try:
        try:
            await _receive(received, receive, bytes_max, settings.receive_seconds)
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
