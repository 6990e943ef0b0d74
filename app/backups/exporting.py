"""The job `backup.create`: a tenant's state at one moment in one object of the store, whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import asyncpg
import msgspec

from app.artifacts.errors import ArtifactNotFound
from app.backups import store
from app.backups.encrypting import Encrypted
from app.backups.errors import BackupNotFound
from app.backups.snapshot import Snapshot
from app.blobs.blobs import Blobs
from app.db.database import Database
from app.jobs.course import Course, cut_off
from app.jobs.store import Claimed, Standing
from app.settings import DatabaseSettings
from app.signing import Signer

# So many compressed parts wait for the object store.
PARTS_MAX = 4
# An artifact that nothing refers to may be collected before its bytes are read: then another snapshot is taken.
SNAPSHOTS_MAX = 3


class Export:
    """A kind of job. `level` is that of zstd; `signer` signs the manifest, where there is a key."""

    def __init__(self, settings: DatabaseSettings, blobs: Blobs, level: int, signer: Signer | None) -> None:
        self._settings, self._blobs, self._level, self._signer = settings, blobs, level, signer

    async def perform(self, database: Database, job: Claimed, standing: Standing, course: Course) -> None:
        """Write the file, then say that it is there. Until then nobody can read it, whatever happens.

        Raises `Unavailable` where PostgreSQL or the object store went away meanwhile: it is begun again then.
        """
        tenant_id, backup_id = job.tenant_id, standing.arguments["backup_id"]
        plan = await store.plan(database, tenant_id, backup_id)
        snapshot, made = await self._stored(database, tenant_id, backup_id, plan, course)
        manifest = msgspec.json.decode(snapshot.writer.manifest)
        report = {"backup_id": backup_id, **{name: manifest[name] for name in ("rows", "bytes", "total_sha256")}}
        try:
            async with database.writing() as transaction:
                await course.finish(transaction, report, done=manifest["rows"])
                await store.complete(
                    transaction, tenant_id, backup_id, manifest=snapshot.writer.manifest, size_bytes=made.size_bytes,
                    digest=made.digest,
                )  # fmt: skip
        except BackupNotFound:
            # It was deleted while its last part was stored; whoever did that may have looked for the object too early.
            await self._blobs.delete(tenant_id, store.object_of(backup_id))
            raise

    async def _stored(
        self, database: Database, tenant_id: str, backup_id: str, plan: asyncpg.Record, course: Course
    ) -> tuple[Snapshot, Any]:
        """The snapshot whose object is in the store, and what knows the object's size and digest."""
        for left in reversed(range(SNAPSHOTS_MAX)):
            passage = Passage()
            snapshot = Snapshot(
                database, self._blobs, tenant_id, backup_id, store.chosen(plan["sections"], plan["artifacts"]),
                passage.put, course, level=self._level, signer=self._signer, artifacts=plan["artifacts"],
            )  # fmt: skip
            encrypted = Encrypted(plan["recipients"]) if plan["recipients"] else None
            parts = passage.parts() if encrypted is None else encrypted.parts(passage.parts())
            try:
                await passage.through(
                    snapshot.write(self._settings), self._blobs.put(tenant_id, store.object_of(backup_id), parts)
                )
            except ArtifactNotFound:
                if not left:
                    raise
                continue
            return snapshot, snapshot.writer if encrypted is None else encrypted
        raise AssertionError("unreachable")


class Passage:
    """Takes parts from whoever writes them to whoever stores them, a bounded number at a time."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(PARTS_MAX)
        self._failure: Exception | None = None

    async def put(self, part: bytes) -> None:
        """Hand on a part; waits while enough of them wait."""
        if part:
            await self._parts.put(part)

    async def parts(self) -> AsyncIterator[bytes]:
        """What is handed on. Raises what the writer raised, so that nothing is stored then."""
        while (part := await self._parts.get()) is not None:
            yield part
        if self._failure is not None:
            raise self._failure

    async def through(self, writing: Coroutine[Any, Any, None], storing: Coroutine[Any, Any, None]) -> None:
        """Both, to their end. Raises what the writer raised, rather than what the store made of it."""
        working = asyncio.ensure_future(self._written(writing))
        try:
            await storing
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            await cut_off(working)

    async def _written(self, writing: Coroutine[Any, Any, None]) -> None:
        try:
            await writing
        except Exception as error:
            self._failure = error
        await self._parts.put(None)
