"""Restoring a backup over HTTP."""

from __future__ import annotations

from typing import Any

from app.backups import store
from app.backups.errors import BackupEncrypted, BackupNotFound, BackupNotReady
from app.backups.restore_schemas import RestoreQuery
from app.db.database import Answer
from app.db.ids import new_id
from app.errors import invalid
from app.http.call import Call
from app.http.endpoint import Endpoint, Routes
from app.http.received import Received
from app.jobs import store as jobs
from app.jobs.schemas import Job
from app.settings import BackupSettings


def routes_of(settings: BackupSettings) -> list[Endpoint]:
    """The operation, with how much it takes."""
    routes = Routes("backups")

    @routes.post(
        "/v1/backups/restore",
        scope="backups:write",
        response_model=Job,
        status_code=202,
        batchable=False,
        upload_bytes_max=settings.upload_bytes_max,
        errors=(BackupNotFound, BackupNotReady, BackupEncrypted),
    )
    async def restore_backup(call: Call, query: RestoreQuery, body: Received) -> Answer:
        """Have a job restore a backup: the file that is sent, of any tenant and server, or one of this tenant's own.

        The file is read and checked whole before anything is written, and then everything is written in one
        transaction, or nothing is. No event is written and no webhook is told. Where the job fails, its `error` says
        why: `backup_damaged`, `backup_refused`, `backup_newer`, `backup_untrusted`, `backup_encrypted`,
        `restore_conflict`. The report counts for each section what was `created`, `kept` (it was there, and the same),
        `changed`, in `conflicts`, and `skipped`.
        """
        dry_run = query.dry_run or query.mode == "preview"
        arguments: dict[str, Any] = {"mode": query.mode, "dry_run": dry_run, "on_conflict": query.on_conflict}
        job_id = new_id("job")
        if query.backup_id is not None:
            if body.size_bytes:
                raise invalid("backup_id", "cannot be given together with a body")
            found = await store.ready(call.reader, call.tenant_id, query.backup_id)
            if found["encrypted"]:
                raise BackupEncrypted(
                    "This backup is encrypted: download it; `cairn backup restore FILE --identity` does the rest."
                )
            arguments["backup_id"] = query.backup_id
        elif not body.size_bytes:
            raise invalid("", "must be a backup, unless backup_id names one")
        else:
            await call.ground.blobs.put(call.tenant_id, store.upload_of(job_id), body.parts())
        return await jobs.create(call.writer, call.tenant_id, store.RESTORE_KIND, arguments, job_id)

    return list(routes)
