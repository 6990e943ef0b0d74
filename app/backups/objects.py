"""Has the bytes of artifacts in the object store, before the rows are written that make them be seen.

No transaction is open meanwhile. What is put there and not used in the end is collected like an upload that was cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import asyncpg

from app.artifacts import store
from app.artifacts.errors import ArtifactDamaged
from app.backups.errors import ArtifactMissing
from app.backups.passing import Passing
from app.backups.reading import Lines
from app.backups.rows import parts_of
from app.backups.sections import ARTIFACT_BYTES
from app.backups.staged import Staged
from app.blobs.blobs import BlobMissing, Blobs
from app.db.database import Database

WANTED = (
    "CREATE TEMPORARY TABLE wanted_artifacts AS SELECT r.hash, r.size_bytes, r.part_bytes, r.part_digests"
    " FROM {rows} WHERE NOT EXISTS (SELECT FROM artifacts AS a"
    " WHERE a.tenant_id = $1 AND a.hash = r.hash AND a.state IN ('live', 'marked'))"
)
NEXT = "SELECT * FROM wanted_artifacts WHERE hash > $1 ORDER BY hash LIMIT 1"
ONE = "SELECT * FROM wanted_artifacts WHERE hash = $1"


@dataclass
class Wanted:
    """An artifact that the tenant does not have: what `artifacts.store` asks of a source."""

    digest: bytes
    size_bytes: int
    part_bytes: int
    part_digests: list[bytes]
    parts: Callable[[], AsyncIterator[bytes]]


class Objects:
    """The artifacts of a staged backup that the tenant does not have."""

    def __init__(self, connection: asyncpg.Connection, database: Database, blobs: Blobs, tenant_id: str) -> None:
        self._connection, self._database, self._blobs, self._tenant_id = connection, database, blobs, tenant_id

    async def put(self, artifacts: Staged, passing: Passing, kind: str) -> None:
        """Put their bytes, from the file where it has them; else they have to be in the store, as a copy of a bucket.

        Raises `ArtifactMissing`, `Unavailable`.
        """
        await self._connection.execute(WANTED.format(rows=artifacts.source()), self._tenant_id)
        await self._connection.execute("CREATE UNIQUE INDEX ON wanted_artifacts (hash)")
        if kind == "bytes":
            await self._from_file(passing)
        row = await self._connection.fetchrow(NEXT, b"")
        while row is not None:
            if kind != "bytes" or not row["size_bytes"]:
                await self._write(row, partial(self._as_it_is, row))
            row = await self._connection.fetchrow(NEXT, row["hash"])

    async def _from_file(self, passing: Passing) -> None:
        flow = _Flow(passing)
        while (name := await flow.next()) is not None:
            row = await self._connection.fetchrow(ONE, name)
            if row is not None:
                await self._write(row, flow.parts)
            async for _ in flow.parts():
                pass  # Nobody wants it any more.

    async def _write(self, row: asyncpg.Record, parts: Callable[[], AsyncIterator[bytes]]) -> None:
        digests: bytes = row["part_digests"]
        step = store.DIGEST_BYTES
        wanted = Wanted(
            row["hash"], row["size_bytes"], row["part_bytes"],
            [digests[at : at + step] for at in range(0, len(digests), step)], parts,
        )  # fmt: skip
        await store.written(self._database, self._blobs, self._tenant_id, wanted)

    async def _as_it_is(self, row: asyncpg.Record) -> AsyncIterator[bytes]:
        """The bytes of an object that is in the store already, each part held against its digest."""
        if not row["size_bytes"]:
            return
        try:
            async for part in store.verified(
                self._blobs, self._tenant_id, {**row, "generation": 1}, 0, row["size_bytes"]
            ):
                yield part
        except (BlobMissing, ArtifactDamaged) as error:
            raise ArtifactMissing(
                "The backup only refers to the bytes of an artifact, and they are not in the object store.",
                hash=row["hash"].hex(),
            ) from error


class _Flow:
    """The bytes of one artifact after the other, as they stand in the file."""

    def __init__(self, passing: Passing) -> None:
        self._items = _items(passing)
        self._held: tuple[bytes, bytes] | None = None
        self._name: bytes | None = None

    async def next(self) -> bytes | None:
        """The hash of the next artifact; None where there is none."""
        if self._held is None:
            self._held = await anext(self._items, None)
        self._name = None if self._held is None else self._held[0]
        return self._name

    async def parts(self) -> AsyncIterator[bytes]:
        """What is left of its bytes."""
        while self._held is not None and self._held[0] == self._name:
            part, self._held = self._held[1], None
            yield part
            self._held = await anext(self._items, None)


async def _items(passing: Passing) -> AsyncIterator[tuple[bytes, bytes]]:
    async for piece in passing.pieces():
        if isinstance(piece, Lines) and piece.section == ARTIFACT_BYTES.name:
            for item in parts_of(piece):
                yield item
