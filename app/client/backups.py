"""Calls about backups: a tenant's whole state at one moment, in one file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Any, BinaryIO, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.download import Wanted
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.operations import Job
from app.client.record import Record
from app.client.streamed import RAW, Source, download, download_async, upload, upload_async
from app.client.transport import AsyncTransport, SyncTransport

M = TypeVar("M")


class Backup(Record):
    """A backup; `state` is that of the job that makes it, and the file is there when it is completed.

    `digest` is the SHA-256 of the file. `manifest` says what is in it: the rows, bytes and SHA-256 of each section.
    """

    id: str
    state: str
    job_id: str
    label: str | None
    sections: list[str] | None
    artifacts: str
    recipients: list[str] | None
    progress: dict[str, Any]
    error: dict[str, Any] | None
    manifest: dict[str, Any] | None
    size_bytes: int | None
    digest: str | None
    created_at: datetime
    completed_at: datetime | None
    verified_at: datetime | None


class BackupFields(TypedDict, total=False):
    """What is to be in a backup; everything, unless sections are named."""

    label: str | None
    sections: Sequence[str] | None
    artifacts: str
    recipients: Sequence[str] | None


class BackupFilter(Paging, total=False):
    """Which backups to list."""

    state: str | Sequence[str]
    created_after: Instant
    created_before: Instant


class RestoreFields(TypedDict, total=False):
    """How a backup is restored: `mode` (`merge`, `replace`, `preview`), `on_conflict` (`skip`, `fail`, `overwrite`).

    With `dry_run` the job's report says what that would do, and nothing is written; `preview` is a `merge` so.
    """

    mode: str
    dry_run: bool
    on_conflict: str


class Backups(Resource[M]):
    """Backups: made by a job, downloaded, verified, restored, deleted."""

    @endpoint
    def create(self, **fields: Unpack[BackupFields]) -> Call[Backup]:
        """Have a backup made; look at it with `get` until it is completed."""
        return Call("POST", path("backups"), one(Backup), body=dump(fields))

    @endpoint
    def get(self, backup_id: str) -> Call[Backup]:
        """A backup, with its manifest when it is completed."""
        return Call("GET", path("backups", backup_id), one(Backup))

    @listing
    def list(self, **filters: Unpack[BackupFilter]) -> Call[Page[Backup]]:
        """The backups of this tenant, the newest first."""
        return Call("GET", path("backups"), page_of(Backup), query(filters))

    @endpoint
    def content(self, backup_id: str) -> Call[bytes]:
        """The whole file of a backup, in memory."""
        return Call("GET", path("backups", backup_id, "content"), lambda reply: reply.body)

    @endpoint
    def verify(self, backup_id: str) -> Call[Job]:
        """Have the file of a backup held against what it says of itself, by a job."""
        return Call("POST", path("backups", backup_id, "verify"), one(Job))

    @endpoint
    def restore(self, file: bytes, **fields: Unpack[RestoreFields]) -> Call[Job]:
        """Have a file restored, which is in memory as a whole; see `upload`."""
        return Call("POST", path("backups", "restore"), one(Job), query(fields), body=file, content_type=RAW)

    @endpoint
    def restore_own(self, backup_id: str, **fields: Unpack[RestoreFields]) -> Call[Job]:
        """Have one of this tenant's own backups restored."""
        return Call("POST", path("backups", "restore"), one(Job), query({"backup_id": backup_id, **fields}))

    @endpoint
    def delete(self, backup_id: str) -> Call[None]:
        """Delete a backup and its file, whether it is completed or still being made."""
        return Call("DELETE", path("backups", backup_id), nothing)


class SyncBackups(Backups[SyncTransport]):
    """Backups, with files that are never in memory as a whole."""

    def upload(self, file: BinaryIO, **fields: Unpack[RestoreFields]) -> Job:
        """Have what is in a file restored, from where it stands: it is read once to be measured, once to be sent."""
        return upload(self._mode, _restore(fields), Source.of(file))

    def download(self, backup_id: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The file from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download(self._mode, _content(backup_id), Wanted(start, end))


class AsyncBackups(Backups[AsyncTransport]):
    """Backups, with files that are never in memory as a whole."""

    async def upload(self, file: BinaryIO, **fields: Unpack[RestoreFields]) -> Job:
        """Have what is in a file restored, from where it stands: it is read once to be measured, once to be sent."""
        source = await asyncio.to_thread(Source.of, file)
        content, retry = source.chunks_as_they_come, self._mode.manner.retry
        return await upload_async(self._mode, _restore(fields), content, source.size, retry)

    def download(self, backup_id: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The file from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download_async(self._mode, _content(backup_id), Wanted(start, end))


def _restore(fields: RestoreFields) -> Call[Job]:
    return Call("POST", path("backups", "restore"), one(Job), query(fields), content_type=RAW)


def _content(backup_id: str) -> Call[None]:
    return Call("GET", path("backups", backup_id, "content"), nothing)
