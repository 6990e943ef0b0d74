"""A tenant's rows at one moment, as the lines of a backup, while others write.

PostgreSQL writes the lines (`COPY` of `row_to_json`), and Python passes them on in pieces: counted, digested and
compressed in a thread. So neither the memory nor the work of Python grows with what a row holds.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal

import asyncpg

from app.artifacts import store as artifact_store
from app.backups.format import FORMAT_VERSION, Head, Writer
from app.backups.section import Section
from app.backups.sections import LIVE
from app.blobs.blobs import Blobs
from app.db.apart import connected_apart
from app.db.database import Database
from app.db.integrity import DRIVER_ERRORS, explain
from app.errors import Unavailable
from app.jobs.course import Course
from app.settings import DatabaseSettings
from app.signing import Signer

# So much text is digested and compressed at a time.
TEXT_BYTES = 1024 * 1024
# So much PostgreSQL takes to sort a section by its key, before it takes its disk.
SORT_MEMORY = "64MB"
MOMENT = (
    "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS snapshot_at,"
    " (SELECT version_num FROM alembic_version) AS schema_revision"
)
UNCUT = "SELECT EXISTS (SELECT FROM document_collections WHERE tenant_id = $1 AND uncut)"
ARTIFACTS = (
    "SELECT t.hash, t.generation, t.size_bytes, t.part_bytes, t.part_digests FROM artifacts AS t"
    f" WHERE t.tenant_id = $1 AND {LIVE} ORDER BY t.hash"
)
PARTS = (
    "SELECT COALESCE(sum((t.size_bytes + t.part_bytes - 1) / t.part_bytes), 0)::bigint FROM artifacts AS t"
    f" WHERE t.tenant_id = $1 AND {LIVE}"
)


class Snapshot:
    """The lines of some sections. `put` takes the parts of the file; `course` is told the rows that are in it.

    `writer` is there as soon as the moment is known, and knows the manifest at the end.
    """

    writer: Writer

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        tenant_id: str,
        backup_id: str,
        sections: Sequence[Section],
        put: Callable[[bytes], Awaitable[None]],
        course: Course,
        *,
        artifacts: Literal["bytes", "references"],
        level: int,
        signer: Signer | None,
    ) -> None:
        self._database, self._blobs, self._tenant_id, self._backup_id = database, blobs, tenant_id, backup_id
        self._sections, self._put, self._course = sections, put, course
        self._artifacts, self._level, self._signer = artifacts, level, signer
        self._done, self._total = 0, 0

    async def write(self, settings: DatabaseSettings) -> None:
        """Write the whole file, from one transaction that only reads.

        Raises `Unavailable` where PostgreSQL ends it, or secrets are still being cut from documents; `ArtifactNotFound`
        where one was collected since the moment of the snapshot; `ArtifactDamaged`.
        """
        try:
            async with (
                connected_apart(settings, "backup", bytea_output="hex", work_mem=SORT_MEMORY) as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                await self._begin(connection)
                for section in self._sections:
                    await self._put(await asyncio.to_thread(self.writer.section, section.name, section.columns))
                    if section.table is None:
                        await self._artifact_bytes(connection)
                    else:
                        await self._rows(connection, section)
                await self._put(await asyncio.to_thread(self.writer.end))
        except DRIVER_ERRORS as error:
            raise explain(error) from error

    async def _begin(self, connection: asyncpg.Connection) -> None:
        moment = await connection.fetchrow(MOMENT)
        names = [section.name for section in self._sections]
        if "documents" in names and await connection.fetchval(UNCUT, self._tenant_id):
            raise Unavailable("What a collection calls secret is still being cut from its documents.")
        for section in self._sections:
            counting = PARTS if section.table is None else section.count()
            self._total += await connection.fetchval(counting, self._tenant_id)
        head = Head(
            FORMAT_VERSION, moment["schema_revision"], self._tenant_id, self._backup_id, moment["snapshot_at"],
            self._artifacts, names,
        )  # fmt: skip
        self.writer = Writer(head, self._level, self._signer)
        await self._put(await asyncio.to_thread(self.writer.begin))

    async def _rows(self, connection: asyncpg.Connection, section: Section) -> None:
        held = bytearray()

        async def take(chunk: bytes) -> None:
            held.extend(chunk)
            if len(held) >= TEXT_BYTES and held.endswith(b"\n"):
                copied = bytes(held)
                held.clear()
                await self._lines(self._copied, copied)

        await connection.copy_from_query(section.select(), self._tenant_id, output=take)
        if held:
            await self._lines(self._copied, bytes(held))

    def _copied(self, text: bytes) -> bytes:
        """COPY doubles backslashes, and has nothing else to escape in JSON without raw control characters."""
        return self.writer.rows(text.replace(b"\\\\", b"\\"))

    async def _artifact_bytes(self, connection: asyncpg.Connection) -> None:
        async for stored in connection.cursor(ARTIFACTS, self._tenant_id, prefetch=100):
            position = 0
            async for part in self._parts(stored):
                line = b'{"hash":"\\\\x%b","position":%d,"bytes":"%b"}\n'
                text = line % (stored["hash"].hex().encode(), position, base64.b64encode(part))
                await self._lines(self.writer.rows, text)
                position += 1

    async def _parts(self, stored: asyncpg.Record) -> AsyncIterator[bytes]:
        """The bytes of an artifact, each part held against its digest."""
        opened = await artifact_store.opened(
            self._database, self._blobs, self._tenant_id, stored, 0, stored["size_bytes"]
        )
        if not isinstance(opened, bytes):
            async for part in opened:
                yield part
        elif opened:
            yield opened

    async def _lines(self, work: Callable[[bytes], bytes], text: bytes) -> None:
        """Hand on what whole lines become, and tell how many there were."""
        await self._put(await asyncio.to_thread(work, text))
        self._done += text.count(b"\n")
        await self._course.tell(self._done, self._total)
