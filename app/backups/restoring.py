"""The job `backup.restore`: a backup is read, checked, staged, and then written in one transaction, or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import structlog

from app.backups import store
from app.backups.errors import BackupRefused, BackupUntrusted, RestoreConflict
from app.backups.fates import Mode, OnConflict
from app.backups.format import Section
from app.backups.merging import Interfered, Merging, Outcome
from app.backups.objects import Objects
from app.backups.passing import Passing
from app.backups.reading import Ended, Lines, Piece
from app.backups.rows import Rows
from app.backups.staged import UNACCEPTABLE, Staged
from app.backups.staging import Staging
from app.blobs.blobs import Blobs
from app.bus.hints import Hints
from app.db.apart import connected_apart
from app.db.database import Database, Transaction
from app.db.integrity import DRIVER_ERRORS, explain
from app.documents import rules as documents
from app.errors import AppError, Unavailable
from app.events import watching as events
from app.jobs.course import Course
from app.jobs.store import Claimed, Standing
from app.settings import BackupSettings, DatabaseSettings, SigningSettings
from app.submissions import watching as submissions
from app.tenants.errors import TenantClosed
from app.versions import store as versions

log = structlog.get_logger("cairn.backups")
# So often it is decided anew what is to be written, where somebody else wrote of it meanwhile.
TRIES = 5
SORT_MEMORY = "64MB"
OPEN = "SELECT closed_at IS NULL FROM tenants WHERE tenant_id = $1 FOR SHARE"
# A section that got so many rows is looked at again by whoever plans statements.
ANALYZED_ROWS_MIN = 10_000


class Restore:
    """A kind of job. Its report is `{mode, dry_run, on_conflict, sections: {name: {created, kept, …}}, backup}`."""

    def __init__(
        self,
        database: DatabaseSettings,
        backups: BackupSettings,
        signing: SigningSettings,
        blobs: Blobs,
        hints: Hints,
    ) -> None:
        self._settings, self._backups, self._trusted = database, backups, signing.trusted_keys
        self._blobs, self._hints = blobs, hints

    async def perform(self, database: Database, job: Claimed, standing: Standing, course: Course) -> None:
        """Restore, or find out what a restore would do.

        Raises what `Passing.through` does, `ArtifactMissing`, `BackupRefused`, `BackupUntrusted`, `MemorySpacesFull`,
        `RestoreConflict`, `TenantClosed`, and `Unavailable`.
        """
        told = standing.arguments
        sent = told.get("backup_id") is None
        try:
            await self._restore(database, job, told, course)
        except Unavailable:
            raise
        except AppError:
            await self._forget(job, sent=sent)
            raise
        await self._forget(job, sent=sent)

    async def _restore(self, database: Database, job: Claimed, told: dict[str, Any], course: Course) -> None:
        backup_id = told.get("backup_id")
        name = store.upload_of(job.id) if backup_id is None else store.object_of(backup_id)
        passing = Passing(self._blobs, job.tenant_id, name, self._backups.line_bytes_max)
        try:
            async with connected_apart(
                self._settings, "restore", bytea_output="hex", work_mem=SORT_MEMORY
            ) as connection:
                ended, staged = await self._staged(connection, passing, course)
                work = _Work(connection, database, job.tenant_id, staged, told["mode"], told["on_conflict"])
                # A preview of before there was a choice does not say so.
                dry_run = told.get("dry_run", work.mode == "preview")
                report = {
                    "mode": work.mode, "dry_run": dry_run, "on_conflict": work.on_conflict, "backup": _head(ended)
                }  # fmt: skip
                if dry_run:
                    await self._preview(work, course, report)
                else:
                    if "artifacts" in staged:
                        objects = Objects(connection, database, self._blobs, job.tenant_id)
                        await objects.put(staged["artifacts"], passing, ended.manifest.artifacts)
                    outcome = await self._write(work, course, report, passing.size_bytes)
                    self._tell(job.tenant_id)
                    await _analyze(connection, staged, outcome)
        except DRIVER_ERRORS as error:
            # What it says may hold what is in the rows: it is for the operator.
            log.warning("a restore met an error of PostgreSQL", job_id=job.id, error=f"{type(error).__name__}: {error}")
            raise explain(error) from error

    async def _forget(self, job: Claimed, *, sent: bool) -> None:
        """Delete the file that was sent for the job; where that cannot be, it is swept up later."""
        if sent:
            with suppress(Unavailable):
                await self._blobs.delete(job.tenant_id, store.upload_of(job.id))

    async def _staged(
        self, connection: asyncpg.Connection, passing: Passing, course: Course
    ) -> tuple[Ended, dict[str, Staged]]:
        staging, last = Staging(connection), list[Ended]()
        await staging.begin()

        async def take(piece: Piece, rows: Rows) -> None:
            if isinstance(piece, Section):
                await staging.section(piece)
            elif isinstance(piece, Lines):
                await staging.rows(piece)
            elif isinstance(piece, Ended):
                last.append(piece)
            if rows.wholes:
                await staging.wholes(rows.wholes)

        await passing.through(course, take)
        (ended,) = last
        self._require_trust(ended)
        manifest = ended.manifest
        return ended, await staging.end(manifest.schema_revision, with_bytes=manifest.artifacts == "bytes")

    def _require_trust(self, ended: Ended) -> None:
        signed = None if ended.signature is None else ended.signature.public_key
        if self._trusted and signed not in self._trusted:
            raise BackupUntrusted("The backup is not signed by a key that this service trusts.", public_key=signed)

    async def _preview(self, work: _Work, course: Course, report: dict[str, Any]) -> None:
        transaction = work.connection.transaction()
        await transaction.start()
        try:
            outcome = await work.merging().decide()
        except UNACCEPTABLE as error:
            raise _refused(error) from error
        finally:
            await transaction.rollback()
        async with work.database.writing() as ending:
            await course.finish(ending, {**report, "sections": outcome.shown()})

    async def _write(self, work: _Work, course: Course, report: dict[str, Any], done: int) -> Outcome:
        """All rows, with the end of the job, in one transaction; decided anew where others wrote meanwhile.

        Where nothing is otherwise than when it was tried before, nobody did, and it is the file that cannot be stored.
        Raises `TenantClosed` where the tenant is on its way out by then.
        """
        before: Outcome | None = None
        for _ in range(TRIES):
            merging = work.merging()
            try:
                async with work.connection.transaction():
                    await merging.alone()
                    outcome = await merging.decide()
                    if work.on_conflict == "fail" and outcome.conflicts:
                        raise _conflict(outcome)
                    await merging.write(outcome)
                    # Whoever closes the tenant waits for the commit: what is restored is in the export that follows.
                    if not await work.connection.fetchval(OPEN, work.tenant_id):
                        raise TenantClosed("The tenant was closed while this was restored; nothing was.")
                    await course.finish(
                        Transaction(work.connection), {**report, "sections": outcome.shown()}, done=done
                    )
                return outcome
            except UNACCEPTABLE as error:
                raise _refused(error) from error
            except (asyncpg.IntegrityConstraintViolationError, Interfered) as error:
                if merging.decided == before:
                    raise _refused(error) from error
                before = merging.decided
            except asyncpg.TransactionRollbackError:
                # PostgreSQL let somebody else go first.
                before = None
        raise Unavailable("Others wrote what was to be restored, each time anew; try again.")

    def _tell(self, tenant_id: str) -> None:
        """Whoever waits looks, and what processes remember of the tenant is asked for again."""
        self._hints.publish(
            versions.key_of(tenant_id), documents.key_of(tenant_id), events.key_of(tenant_id),
            submissions.key_of(tenant_id, None),
        )  # fmt: skip


@dataclass(frozen=True)
class _Work:
    connection: asyncpg.Connection
    database: Database
    tenant_id: str
    staged: dict[str, Staged]
    mode: Mode
    on_conflict: OnConflict

    def merging(self) -> Merging:
        return Merging(self.connection, self.tenant_id, self.staged, self.mode, self.on_conflict)


def _head(ended: Ended) -> dict[str, Any]:
    manifest = ended.manifest
    return {
        "tenant": manifest.tenant,
        "backup_id": manifest.backup_id,
        "snapshot_at": manifest.snapshot_at,
        "schema_revision": manifest.schema_revision,
        "rows": manifest.rows,
        "total_sha256": manifest.total_sha256,
        "public_key": None if ended.signature is None else ended.signature.public_key,
    }


def _conflict(outcome: Outcome) -> RestoreConflict:
    return RestoreConflict(
        f"Rows that are there already with other content: {outcome.conflicts}.",
        sections={name: c.shown() for name, c in outcome.sections.items() if c.conflicts},
    )


def _refused(error: asyncpg.PostgresError | Interfered) -> BackupRefused:
    """What PostgreSQL refused, without its words: they hold what is in the rows."""
    if isinstance(error, Interfered):
        return BackupRefused("rows", "Rows refer to what is not there.", section=error.section)
    return BackupRefused(
        "rows", "PostgreSQL refuses a row.", section=error.table_name or "", constraint=error.constraint_name or ""
    )


async def _analyze(connection: asyncpg.Connection, staged: dict[str, Staged], outcome: Outcome) -> None:
    for name, one in staged.items():
        if outcome.sections[name].created >= ANALYZED_ROWS_MIN:
            await connection.execute(f"ANALYZE {one.section.table}")
