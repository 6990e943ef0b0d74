"""Contents in SQL: written whole in one transaction, read chunk by chunk, each against its digest."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from app.contents.errors import ContentDamaged
from app.db.database import Reader, Writer
from app.db.sql import load

# How many chunks one statement writes, examines and removes: each a bounded time, and a bounded memory of both sides.
WRITTEN_MAX, EXAMINED_MAX, REMOVED_MAX = 4, 64, 256

_SQL = load(__file__)


class Source(Protocol):
    """Bytes to store: all there, with the digests (SHA-256) of the whole and of each part, read as often as needed."""

    part_bytes: int
    size_bytes: int
    digest: bytes
    part_digests: list[bytes]

    def parts(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True)
class Content:
    """Stored bytes: `size_bytes` of them, in chunks of `chunk_bytes` of which the last may be shorter."""

    number: int
    size_bytes: int
    digest: bytes
    chunk_bytes: int

    def is_true(self, whole: bytes) -> bool:
        """Whether these are the bytes that were stored."""
        return len(whole) == self.size_bytes and hashlib.sha256(whole).digest() == self.digest

    def length(self, position: int) -> int:
        """How many bytes the chunk at a position has."""
        return min(self.chunk_bytes, self.size_bytes - position * self.chunk_bytes)


async def write(transaction: Writer, tenant_id: str, source: Source) -> tuple[int, datetime]:
    """Store the bytes; their number, and when that was."""
    key = {"tenant_id": tenant_id}
    added = await transaction.row(
        _SQL["add"], **key, size_bytes=source.size_bytes, digest=source.digest, chunk_bytes=source.part_bytes
    )
    assert added is not None
    chunks: list[bytes] = []
    position = 0
    async for part in source.parts():
        chunks.append(part)
        position += 1
        if len(chunks) == WRITTEN_MAX or position == len(source.part_digests):
            first = position - len(chunks)
            await transaction.rows(
                _SQL["add_chunks"], **key, number=added["number"], chunks=chunks,
                positions=list(range(first, position)), digests=source.part_digests[first:position],
            )  # fmt: skip
            chunks = []
    return added["number"], added["created_at"]


async def is_sound(reader: Reader, tenant_id: str, content: Content, start: int, end: int) -> bool:
    """Whether each chunk that holds bytes from `start` to before `end` is there and as long as it should be.

    The first 64 MiB are held against their digests as well; what follows is when it is read. To examine a gigabyte
    takes as long as to send it, and its reader would have to wait for the first byte until then.
    """
    if start >= end:
        return True
    first, last = start // content.chunk_bytes, (end - 1) // content.chunk_bytes
    found = await reader.row(
        _SQL["examine"], tenant_id=tenant_id, number=content.number, first=first, last=last, until=first + EXAMINED_MAX
    )
    wanted = (last - first + 1, (last - first) * content.chunk_bytes + content.length(last), True)
    return found is not None and (found["chunks"], found["size_bytes"], found["true_to_digest"]) == wanted


async def read(reader: Reader, tenant_id: str, content: Content, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes from `start` to before `end`, a chunk at a time, with no connection held between two of them.

    Raises `ContentDamaged` before it gives a byte of a chunk that is not true; where everything is read, the last
    chunk is given only if the whole is true too.
    """
    whole = hashlib.sha256()
    complete = (start, end) == (0, content.size_bytes)
    for position in range(start // content.chunk_bytes, -(-end // content.chunk_bytes)):
        chunk = await _chunk(reader, tenant_id, content, position)
        if complete:
            await asyncio.to_thread(whole.update, chunk)
            if (position + 1) * content.chunk_bytes >= end and whole.digest() != content.digest:
                raise ContentDamaged("The stored bytes do not fit their digest.")
        offset = position * content.chunk_bytes
        yield chunk[max(0, start - offset) : end - offset]


async def _chunk(reader: Reader, tenant_id: str, content: Content, position: int) -> bytes:
    row = await reader.row(_SQL["chunk"], tenant_id=tenant_id, number=content.number, position=position)
    if row is None:
        raise ContentDamaged("A stored chunk is missing.")
    chunk: bytes = row["bytes"]
    digest = await asyncio.to_thread(hashlib.sha256, chunk)
    if len(chunk) != content.length(position) or digest.digest() != row["digest"]:
        raise ContentDamaged("A stored chunk does not fit its digest.")
    return chunk


async def remove(transaction: Writer, tenant_id: str, numbers: list[int]) -> None:
    """Remove contents that nothing refers to, in bounded statements."""
    key = {"tenant_id": tenant_id, "numbers": numbers}
    while len(await transaction.rows(_SQL["remove_chunks"], **key, limit=REMOVED_MAX)) == REMOVED_MAX:
        pass
    await transaction.rows(_SQL["remove"], **key)
