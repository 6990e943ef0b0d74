"""A tenant's rows at one moment, as the lines of a backup, while others write.

PostgreSQL writes the lines (`COPY` of `row_to_json`), and Python passes them on in pieces: counted, digested and
compressed in a thread while the next are read. So its memory does not grow with the rows.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal

import asyncpg

from app.artifacts import store as artifact_store
from app.backups.declared import LIVE
from app.backups.format import FORMAT_VERSION, Head, Writer
from app.backups.section import Section
from app.blobs.blobs import Blobs
from app.db.apart import connected_apart
from app.db.database import Database
from app.db.integrity import DRIVER_ERRORS, explain
from app.errors import Unavailable
from app.jobs.course import Course, cut_off
from app.settings import DatabaseSettings
from app.signing import Signer

# Their partitions are dropped once they are empty, and with them what an older moment sees there: not from before this
# moment on. A lock is no look, so the moment is after it.
KEPT_WHOLE = "LOCK TABLE events, memory_vectors IN ACCESS SHARE MODE"
# So much text is digested and compressed at a time.
TEXT_BYTES = 2 * 1024 * 1024
# So much PostgreSQL takes to sort a section by its key, before it takes its disk.
SORT_MEMORY = "64MB"
# What COPY's binary form begins and ends with, and what it has before each value of a row of one column.
COPY_HEAD, COPY_END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
_values = re.compile(rb"\x00\x01.{4}", re.DOTALL).split
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
        self._under_way: asyncio.Future[None] | None = None

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
                    await self._caught_up()
                await self._put(await asyncio.to_thread(self.writer.end))
        except DRIVER_ERRORS as error:
            raise explain(error) from error
        finally:
            if self._under_way is not None:
                await cut_off(self._under_way)

    async def _begin(self, connection: asyncpg.Connection) -> None:
        await connection.execute(KEPT_WHOLE)
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
        chunks: list[bytes] = []
        size = 0

        async def take(chunk: bytes) -> None:
            nonlocal chunks, size
            chunks.append(chunk)
            size += len(chunk)
            if size >= TEXT_BYTES:
                copied, chunks, size = chunks, [], 0
                await self._hand_on(_lines, copied)

        await connection.copy_from_query(section.select(), self._tenant_id, output=take, format="binary")
        await self._hand_on(_lines, chunks)

    async def _artifact_bytes(self, connection: asyncpg.Connection) -> None:
        async for stored in connection.cursor(ARTIFACTS, self._tenant_id, prefetch=100):
            position = 0
            async for part in self._parts(stored):
                line = b'{"hash":"\\\\x%b","position":%d,"bytes":"%b"}\n'
                text = line % (stored["hash"].hex().encode(), position, base64.b64encode(part))
                await self._hand_on(b"".join, [text])
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

    async def _hand_on(self, work: Callable[[list[bytes]], bytes], given: list[bytes]) -> None:
        """Have lines made and compressed while the next are read, one piece of them at a time."""
        await self._caught_up()
        self._under_way = asyncio.ensure_future(self._handed_on(work, given))

    async def _caught_up(self) -> None:
        if self._under_way is not None:
            await self._under_way

    async def _handed_on(self, work: Callable[[list[bytes]], bytes], given: list[bytes]) -> None:
        def compressed() -> tuple[int, bytes]:
            text = work(given)
            return text.count(b"\n"), self.writer.rows(text)

        rows, part = await asyncio.to_thread(compressed)
        await self._put(part)
        self._done += rows
        await self._course.tell(self._done, self._total)


def _lines(chunks: list[bytes]) -> bytes:
    """The lines in a piece of COPY's binary form, of rows with one column of JSON: nothing is escaped there.

    Before each value stand how many columns there are and how long it is; JSON that PostgreSQL writes has no null byte,
    and UTF-8 none of the bytes at the end.
    """
    copied = b"".join(chunks).removeprefix(COPY_HEAD).removesuffix(COPY_END)
    return b"\n".join([*_values(copied)[1:], b""])
