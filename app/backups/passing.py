"""One pass over a backup that lies in the object store, from its first byte to its seal."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable

from app.backups.crossing import Pulled, in_thread
from app.backups.errors import BackupMissing, BackupRefused
from app.backups.format import Head, Section
from app.backups.reading import Lines, Piece, Reader
from app.backups.rows import Rows
from app.backups.sections import sections
from app.blobs.blobs import BlobMissing, Blobs
from app.jobs.course import Course


class Passing:
    """The pieces of a file, as often as needed: each time it is read anew."""

    def __init__(self, blobs: Blobs, tenant_id: str, name: str, line_bytes_max: int) -> None:
        self.digest, self.size_bytes, self.taken_bytes = b"", 0, 0
        self._blobs, self._tenant_id, self._name, self._line_bytes_max = blobs, tenant_id, name, line_bytes_max

    async def pieces(self) -> AsyncIterator[Piece]:
        """Every piece; whoever takes it to its end knows that the file is as it was written, and its digest.

        Raises `BackupDamaged`, `BackupNewer`, `BackupEncrypted`, `BackupMissing` and `Unavailable`.
        """
        self.size_bytes = await self._size()
        source = Pulled(self._blobs.open(self._tenant_id, self._name, 0, self.size_bytes))
        reader = Reader(source, self._line_bytes_max)
        try:
            async for piece in in_thread(reader.pieces, source):
                self.taken_bytes = reader.size_bytes
                yield piece
        except BlobMissing as error:
            raise _missing() from error
        self.digest = reader.digest

    async def through(self, course: Course, take: Callable[[Piece, Rows], Awaitable[None]]) -> None:
        """Give every piece to `take`, once each row was held against what it says of itself.

        `course` is told how far it is in bytes. Raises what `pieces` does, and `BackupRefused` where what was written
        is not what is restored; a file that is damaged as well is `BackupDamaged`.
        """
        known = {section.name: {field.name: field for field in section.fields} for section in sections()}
        rows: Rows | None = None
        refusal: BackupRefused | None = None
        async for piece in self.pieces():
            rows = rows or Rows(_head(piece), known)
            if refusal is None:
                try:
                    await _check(rows, piece)
                    await take(piece, rows)
                except BackupRefused as error:
                    refusal = error
            await course.tell(self.taken_bytes, self.size_bytes)
        if refusal is not None:
            raise refusal

    async def only_digest(self) -> bytes:
        """SHA-256 of the file, whatever is in it. Raises `BackupMissing`, `Unavailable`."""
        sha256, self.size_bytes = hashlib.sha256(), await self._size()
        try:
            async for part in self._blobs.open(self._tenant_id, self._name, 0, self.size_bytes):
                await asyncio.to_thread(sha256.update, part)
        except BlobMissing as error:
            raise _missing() from error
        return sha256.digest()

    async def _size(self) -> int:
        size = await self._blobs.size(self._tenant_id, self._name)
        if size is None:
            raise _missing()
        return size


def _head(piece: Piece) -> Head:
    assert isinstance(piece, Head)
    return piece


async def _check(rows: Rows, piece: Piece) -> None:
    if isinstance(piece, Section):
        rows.begin(piece)
    elif isinstance(piece, Lines):
        await asyncio.to_thread(rows.check, piece)
    elif not isinstance(piece, Head):
        rows.end()


def _missing() -> BackupMissing:
    return BackupMissing("The file of the backup is not in the object store.")
