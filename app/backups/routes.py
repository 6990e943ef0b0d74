"""Backups over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from app.backups import store
from app.backups.errors import BackupMissing, BackupNotFound, BackupNotReady
from app.backups.forgetting import forget
from app.backups.format import MEDIA_TYPE
from app.backups.schemas import Backup, BackupList, BackupPage, NewBackup
from app.blobs.blobs import BlobMissing
from app.db.database import Answer
from app.http import ranged
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.immutable import IMMUTABLE, is_held
from app.http.paging import page
from app.jobs import store as jobs
from app.jobs.schemas import Job

routes = Routes("backups")
CONTENT_ERRORS = (BackupNotFound, BackupNotReady, BackupMissing, ranged.RangeNotSatisfiable)
HEADERS = {"Content-Disposition": "Always `attachment`, with a name for the file.", "Accept-Ranges": "`bytes`."}


@routes.post("/v1/backups", scope="backups:write", response_model=Backup, status_code=202, batchable=False)
async def create_backup(call: Call, body: NewBackup) -> Answer:
    """Have a job write everything of this tenant into one file, as it is at one moment.

    Writers go on meanwhile. The manifest, with the rows and the SHA-256 of each section, is the last line of the file:
    without it the file is cut. Credentials, and what belongs to this server, are not in it.
    """
    return await store.create(
        call.writer, call.tenant_id, label=body.label, names=body.sections, artifacts=body.artifacts,
        recipients=body.recipients,
    )  # fmt: skip


@routes.get("/v1/backups", scope="backups:read", response_model=BackupPage)
async def list_backups(call: Call, query: BackupList) -> Answer:
    """The backups of this tenant, the newest first."""
    return await page(call, store.BACKUPS, query)


@routes.get("/v1/backups/{backup_id}", scope="backups:read", response_model=Backup, errors=(BackupNotFound,))
async def get_backup(call: Call, backup_id: str) -> Answer:
    """A backup: how far it is, and its manifest when it is done."""
    return await store.get(call.reader, call.tenant_id, backup_id)


@routes.get(
    "/v1/backups/{backup_id}/content",
    scope="backups:read",
    response_class=Response,
    batchable=False,
    errors=CONTENT_ERRORS,
    responses=ranged.documented(HEADERS),
    openapi_extra={"parameters": ranged.RANGE_HEADERS},
)
async def get_backup_content(call: Call, backup_id: str) -> Answer | Response:
    """The file of a backup, as a download; one range of it if asked, so that a download can be taken up again.

    The ETag is the SHA-256 of the file. Where a part is missing the connection is cut: an answer that is as long as it
    said it would be is whole.
    """
    return await content_of(call, call.tenant_id, backup_id)


async def content_of(call: Call, tenant_id: str, backup_id: str) -> Answer | Response:
    """The file of a tenant's backup, or what is asked of it. Raises one of `CONTENT_ERRORS`."""
    found = await store.ready(call.reader, tenant_id, backup_id)
    tag, size_bytes = f'"{found["digest"]}"', found["size_bytes"]
    if is_held(call, tag):
        return Answer(304, None, headers={"ETag": tag, **IMMUTABLE})
    span = ranged.asked(call, tag, size_bytes)
    start, end = (0, size_bytes) if span is None else (span.start, span.end)
    body = b"" if call.method == "HEAD" else await _opened(call, tenant_id, backup_id, start, end)
    media_type, ending = ("application/octet-stream", ".age") if found["encrypted"] else (MEDIA_TYPE, "")
    name = f"cairn-{tenant_id}-{backup_id}.ndjson.zst{ending}"
    return ranged.answered(call, ranged.head_of(tag, media_type, name), size_bytes, span, body)


@routes.post(
    "/v1/backups/{backup_id}/verify",
    scope="backups:write",
    response_model=Job,
    status_code=202,
    batchable=False,
    errors=(BackupNotFound, BackupNotReady),
)
async def verify_backup(call: Call, backup_id: str) -> Answer:
    """Have a job read the whole file of a backup, and hold it against its digests and its signature."""
    await store.ready(call.reader, call.tenant_id, backup_id)
    return await jobs.create(call.writer, call.tenant_id, store.VERIFY_KIND, {"backup_id": backup_id})


@routes.delete(
    "/v1/backups/{backup_id}", scope="backups:write", status_code=204, batchable=False, errors=(BackupNotFound,)
)
async def delete_backup(call: Call, backup_id: str) -> Answer:
    """Delete a backup and its file, whatever its state; a job that makes it is cancelled."""
    answer = await store.delete(call.writer, call.tenant_id, backup_id)
    call.afterwards.append(lambda: forget(call.ground.blobs, call.tenant_id, backup_id))
    return answer


async def _opened(call: Call, tenant_id: str, backup_id: str, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes of the file; the first of them are there when this returns."""
    pieces = call.ground.blobs.open(tenant_id, store.object_of(backup_id), start, end)
    try:
        first = await anext(pieces, b"")
    except BlobMissing as error:
        # Raises where the backup left in between.
        await store.ready(call.reader, tenant_id, backup_id)
        raise BackupMissing("The file of the backup is not in the object store.", id=backup_id) from error
    return _following(first, pieces)


async def _following(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece
