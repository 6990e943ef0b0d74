"""Backups in SQL: asked for, made by a job, and gone with their file.

A backup stands as its job does until it has its manifest, which is written with the end of that job.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from app.backups import encrypting
from app.backups.errors import BackupNotFound, BackupNotReady
from app.backups.section import Section
from app.backups.sections import ARTIFACT_BYTES, sections, with_what_they_need
from app.blobs.blobs import Found
from app.db.database import Answer, Database, Reader, Writer
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.shape import Shape, computed, instant, verbatim
from app.db.sql import load
from app.errors import invalid

CREATE_KIND, VERIFY_KIND, RESTORE_KIND = "backup.create", "backup.verify", "backup.restore"
# Nothing of a tenant is collected while a job reads what was there at one moment, or brings what is seen at another.
HOLDER = (
    "EXISTS (SELECT FROM jobs AS j WHERE j.state IN ('queued', 'running') AND j.tenant_id = a.tenant_id"
    f" AND j.kind IN ('{CREATE_KIND}', '{RESTORE_KIND}'))"
)
STANDING = (
    "CASE WHEN b.manifest IS NOT NULL THEN 'completed' ELSE COALESCE(j.state, 'failed') END AS state,"
    " j.progress_done, j.progress_total, j.error"
)
SOURCE = (
    f"(SELECT b.*, {STANDING} FROM backups AS b"
    " LEFT JOIN jobs AS j ON j.tenant_id = b.tenant_id AND j.id = b.job_id) AS t"
)
BACKUP = Shape(
    "id",
    "state",
    "job_id",
    "label",
    "sections",
    "artifacts",
    "recipients",
    computed("progress", "json_build_object('done', COALESCE({t}.progress_done, 0), 'total', {t}.progress_total)"),
    "error",
    verbatim("manifest"),
    "size_bytes",
    computed("digest", "encode({t}.digest, 'hex')"),
    instant("created_at"),
    instant("completed_at"),
    instant("verified_at"),
)
BACKUPS = Listing(
    "backups",
    SOURCE,
    BACKUP,
    sorts={"created_at": Sort("{t}.created_at", "timestamptz")},
    default=("created_at", "desc"),
    filters={
        "state": "t.state = ANY (CAST(:state AS text[]))",
        "created_after": "t.created_at >= :created_after",
        "created_before": "t.created_at < :created_before",
    },
)

_SQL = load(
    __file__,
    backup=BACKUP.json("t"),
    whole=BACKUP.json("t", frozenset(("manifest",))),
    source=SOURCE,
    standing=STANDING,
)


async def create(
    writer: Writer,
    tenant_id: str,
    *,
    label: str | None = None,
    names: Sequence[str] | None = None,
    artifacts: str = "bytes",
    recipients: Sequence[str] | None = None,
) -> Answer:
    """A backup to be made by a job: 202. With the sections named come those that they need.

    Raises `InvalidInput` where there is no such section, or no such recipient.
    """
    if recipients:
        encrypting.require(recipients)
    answer = await writer.answer(
        _SQL["create"], tenant_id=tenant_id, id=new_id("bak"), job_id=new_id("job"), kind=CREATE_KIND, label=label,
        sections=None if names is None else _named(names), artifacts=artifacts, recipients=recipients or None,
    )  # fmt: skip
    assert answer is not None
    return answer


def _named(names: Sequence[str]) -> list[str]:
    known = {section.name for section in sections()}
    for place, name in enumerate(names):
        if name not in known:
            raise invalid(f"sections/{place}", f"must be one of {', '.join(sorted(known))}")
    return [section.name for section in with_what_they_need(names)]


async def get(reader: Reader, tenant_id: str, backup_id: str) -> Answer:
    """The backup with its manifest. Raises `BackupNotFound`."""
    return Answer(200, (await _found(reader, tenant_id, backup_id))["body"])


async def ready(reader: Reader, tenant_id: str, backup_id: str) -> asyncpg.Record:
    """The `size_bytes`, `digest` (in hexadecimal digits) and `text` (the manifest, byte for byte) of a backup's file,
    and whether it is `encrypted`.

    Raises `BackupNotFound`, `BackupNotReady`.
    """
    found = await _found(reader, tenant_id, backup_id)
    if not found["ready"]:
        raise BackupNotReady(
            "The backup has no file.", id=backup_id, current_state=found["state"], job_id=found["job_id"]
        )
    return found


async def _found(reader: Reader, tenant_id: str, backup_id: str) -> asyncpg.Record:
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=backup_id)
    if row is None:
        raise _not_found(backup_id)
    return row


def _not_found(backup_id: str) -> BackupNotFound:
    return BackupNotFound("There is no such backup.", id=backup_id)


async def delete(writer: Writer, tenant_id: str, backup_id: str) -> Answer:
    """Forget a backup, and cancel the job that makes it. Its file is for the caller to delete, afterwards.

    Raises `BackupNotFound`.
    """
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=backup_id)
    if answer is None:
        raise _not_found(backup_id)
    return answer


async def plan(reader: Reader, tenant_id: str, backup_id: str) -> asyncpg.Record:
    """What is to be in it: `sections`, `artifacts`, `recipients`. Raises `BackupNotFound`."""
    row = await reader.row(_SQL["plan"], tenant_id=tenant_id, id=backup_id)
    if row is None:
        raise _not_found(backup_id)
    return row


async def complete(
    writer: Reader, tenant_id: str, backup_id: str, *, manifest: bytes, size_bytes: int, digest: bytes
) -> None:
    """Write down that the file is there. Raises `BackupNotFound` where the backup was deleted meanwhile."""
    made = {"manifest": manifest, "size_bytes": size_bytes, "digest": digest}
    if await writer.row(_SQL["complete"], tenant_id=tenant_id, id=backup_id, **made) is None:
        raise _not_found(backup_id)


async def verified(writer: Reader, tenant_id: str, backup_id: str) -> None:
    """Write down that its file was just found to be as it was made. Raises `BackupNotFound`."""
    if await writer.row(_SQL["verified"], tenant_id=tenant_id, id=backup_id) is None:
        raise _not_found(backup_id)


def object_of(backup_id: str) -> str:
    """The name of the object in which a backup lies."""
    return f"backup-{backup_id}"


def upload_of(job_id: str) -> str:
    """The name of the object in which lies what was sent to be restored by a job."""
    return f"restore-{job_id}"


async def left_over(database: Database, found: Sequence[Found]) -> list[Found]:
    """Those of the objects that are files of no backup any more, or of a restore that has ended."""
    named = {place: one.name.split("-", 1) for place, one in enumerate(found) if not one.unfinished}
    ours = {place: name for place, name in named.items() if len(name) == 2 and name[0] in ("backup", "restore")}
    if not ours:
        return []
    rows = await database.rows(
        _SQL["left_over"],
        places=list(ours),
        tenant_ids=[found[place].tenant_id for place in ours],
        kinds=[name[0] for name in ours.values()],
        ids=[name[1] for name in ours.values()],
    )
    return [found[row["place"]] for row in rows]


def chosen(names: Sequence[str] | None, artifacts: str) -> list[Section]:
    """The sections of a backup, in order: those named, or all; the bytes of artifacts only where they are asked for."""
    wanted = None if names is None else set(names)
    return [
        section
        for section in sections()
        if (wanted is None or section.name in wanted) and (artifacts == "bytes" or section is not ARTIFACT_BYTES)
    ]
