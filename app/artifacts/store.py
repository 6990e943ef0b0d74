"""Artifacts: rows that say which objects there are, and the objects themselves, written and read against their digests.

No transaction is open, and no connection held, while the object store is spoken to.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

import asyncpg

from app.artifacts.errors import ArtifactDamaged, ArtifactNotFound
from app.blobs.blobs import BlobMissing, Blobs
from app.db.database import Answer, Database, Reader, Writer
from app.db.integrity import IN_THE_WAY
from app.db.page import Listing, Sort
from app.db.race import TRIES
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.errors import Unavailable

DIGEST_BYTES = 32
ARTIFACT = Shape(computed("hash", "encode({t}.hash, 'hex')"), "size_bytes", instant("created_at"))
ARTIFACTS = Listing(
    "artifacts",
    "(SELECT * FROM artifacts WHERE state IN ('live', 'marked')) AS t",
    ARTIFACT,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={"created_after": "t.created_at >= :created_after", "created_before": "t.created_at < :created_before"},
    ids=("encode(t.hash, 'hex') COLLATE \"C\"",),
)
TOUCHED = (
    "state = 'live', touched_at = clock_timestamp(),"
    " changed_at = CASE a.state WHEN 'live' THEN a.changed_at ELSE clock_timestamp() END"
)
# For the statement of another domain that writes a row which refers to an artifact: what a WITH query does to hold
# `:artifact_hash` to the commit. It gives one row, or none where no live artifact has this hash, or the hash is null.
HOLDING = (
    f"UPDATE artifacts AS a SET {TOUCHED}"
    " WHERE a.tenant_id = :tenant_id AND a.hash = :artifact_hash AND a.state IN ('live', 'marked') RETURNING a.hash"
)

_SQL = load(__file__, artifact=ARTIFACT.json("a"), touched=TOUCHED)
# Who writes an object in this process: others with the same bytes wait, and find it there.
_writing: WeakValueDictionary[tuple[int, str, bytes], asyncio.Lock] = WeakValueDictionary()


class Source(Protocol):
    """Bytes to store: all there, with the SHA-256 of the whole and of each part, read as often as needed."""

    part_bytes: int
    size_bytes: int
    digest: bytes
    part_digests: list[bytes]

    def parts(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True)
class Kept:
    """An artifact that is there from now on, and untouched by collection for the grace period; `created` if it is new.

    Who refers to it holds it in the statement that says so: by `HOLDING`, or by `hold`.
    """

    hash: bytes
    created: bool


async def keep(database: Database, blobs: Blobs, tenant_id: str, source: Source) -> Kept:
    """Store the bytes, unless they are there. Call it with no transaction open.

    Raises `Unavailable` where the object store is away.
    """
    answer = await put(database, database.once(tenant_id), blobs, tenant_id, source)
    return Kept(source.digest, answer.status == 201)


async def put(database: Database, writer: Writer, blobs: Blobs, tenant_id: str, source: Source) -> Answer:
    """Store the bytes: 201, or 200 where they were there; the writer runs the statement after which they can be read.

    Raises `Unavailable` where the object store is away.
    """
    key = {"tenant_id": tenant_id, "hash": source.digest}
    lock = _writing.setdefault((id(blobs), tenant_id, source.digest), asyncio.Lock())
    async with lock:
        for _ in range(TRIES):
            generation = await written(database, blobs, tenant_id, source)
            answer = await writer.answer(_SQL["finish"], **key, generation=generation)
            if answer is not None:
                return answer
    raise Unavailable(IN_THE_WAY)


async def written(database: Database, blobs: Blobs, tenant_id: str, source: Source) -> int:
    """Have the object there; its generation. Nobody sees it until its row is live: the caller says so, or it is given
    up after the grace period.
    """
    begun = await database.row(
        _SQL["begin"], tenant_id=tenant_id, hash=source.digest, size_bytes=source.size_bytes,
        part_bytes=source.part_bytes, part_digests=b"".join(source.part_digests),
    )  # fmt: skip
    assert begun is not None
    generation: int = begun["generation"]
    name = name_of(source.digest, generation)
    # A live one whose object was lost is mended by whoever sends its bytes again.
    if begun["state"] != "live" or await blobs.size(tenant_id, name) != source.size_bytes:
        await blobs.put(tenant_id, name, source.parts())
    return generation


async def hold(writer: Writer, tenant_id: str, hashes: Sequence[bytes]) -> None:
    """Keep the artifacts from being collected until the writer's transaction ends; for rows that refer to them.

    Raises `ArtifactNotFound` where one of them is not there.
    """
    held = await writer.rows(_SQL["hold"], tenant_id=tenant_id, hashes=sorted(set(hashes)))
    missing = set(hashes) - {row["hash"] for row in held}
    if missing:
        raise not_found(min(missing).hex())


async def find(reader: Reader, tenant_id: str, digest: bytes) -> asyncpg.Record:
    """The artifact with its `size_bytes`, for `opened`. Raises `ArtifactNotFound`."""
    stored = await reader.row(_SQL["find"], tenant_id=tenant_id, hash=digest)
    if stored is None:
        raise not_found(digest.hex())
    return stored


def not_found(digest: str) -> ArtifactNotFound:
    """The refusal where an artifact is not there."""
    return ArtifactNotFound("There is no artifact with this hash; send its bytes first.", hash=digest)


async def opened(
    reader: Reader, blobs: Blobs, tenant_id: str, stored: asyncpg.Record, start: int, end: int
) -> bytes | AsyncIterator[bytes]:
    """The bytes from `start` to before `end`, whole where they are few, else part by part.

    Each part is held against its digest before a byte of it is given, the first of them before this returns; where
    everything is read, the last part is given only if the whole is true. Raises `ArtifactDamaged`, `ArtifactNotFound`
    where it was collected meanwhile, and `Unavailable`.
    """
    for _ in range(TRIES):
        parts = verified(blobs, tenant_id, stored, start, end)
        try:
            first = await anext(parts, b"")
        except BlobMissing as error:
            again = await find(reader, tenant_id, stored["hash"])
            if again["generation"] == stored["generation"]:
                raise _damaged(stored) from error
            stored = again
            continue
        return first if len(first) == end - start else _following(first, parts)
    raise Unavailable(IN_THE_WAY)


async def _following(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part


async def verified(
    blobs: Blobs, tenant_id: str, stored: Mapping[str, Any], start: int, end: int
) -> AsyncIterator[bytes]:
    """The parts that hold the bytes from `start` to before `end`, each held against its digest before it is given.

    `stored` has the hash, generation, size and digests of an artifact. Raises `BlobMissing`, `ArtifactDamaged`.
    """
    step, size = stored["part_bytes"], stored["size_bytes"]
    whole = hashlib.sha256() if (start, end) == (0, size) else None
    at, last = start - start % step, min(size, -(-end // step) * step)
    pending = bytearray()
    async for piece in blobs.open(tenant_id, name_of(stored["hash"], stored["generation"]), at, last):
        pending += piece
        while at < last and len(pending) >= (length := min(step, size - at)):
            part = bytes(memoryview(pending)[:length])
            del pending[:length]
            true = await asyncio.to_thread(_is_true, stored, at // step, part, whole)
            if not true or (whole is not None and at + length == size and whole.digest() != stored["hash"]):
                raise _damaged(stored)
            yield part[max(0, start - at) : end - at]
            at += length
    if at < last:
        raise _damaged(stored)


def _is_true(stored: Mapping[str, Any], position: int, part: bytes, whole: hashlib._Hash | None) -> bool:
    if whole is not None:
        whole.update(part)
    digests: bytes = stored["part_digests"]
    wanted = digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]
    return hashlib.sha256(part).digest() == wanted


def _damaged(stored: Mapping[str, Any]) -> ArtifactDamaged:
    return ArtifactDamaged("The stored bytes do not fit their hash; none of them is sent.", hash=stored["hash"].hex())


def name_of(digest: bytes, generation: int) -> str:
    """The name of the object in which a generation of an artifact lies."""
    return digest.hex() if generation == 1 else f"{digest.hex()}.{generation}"
