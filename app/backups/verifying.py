"""The job `backup.verify`: reads the whole file of a backup, and tells what was looked at and what is wrong with it."""

from __future__ import annotations

from typing import Any

from app.backups import store
from app.backups.errors import BackupDamaged, BackupEncrypted, BackupNewer, Check
from app.backups.passing import Passing
from app.backups.reading import Ended, Piece
from app.backups.rows import Rows
from app.blobs.blobs import Blobs
from app.db.database import Database
from app.jobs.course import Course
from app.jobs.store import Claimed, Standing

# What it means that what is looked at is as it should be.
CHECKS: dict[Check, str] = {
    "file": "The file has the size and the SHA-256 that were written down when it was made.",
    "frames": "Each frame is zstd with its checksum, and the file ends where it says.",
    "lines": "The head, the sections and the manifest are there, in their order.",
    "sections": "Every section and every column is known.",
    "rows": "Every row is a JSON object of its section's columns; hashes are those of their contents.",
    "counts": "Each section has the rows and the bytes that the manifest tells.",
    "digests": "Each section has the SHA-256 that the manifest tells.",
    "manifest": "The manifest is there, and is the one that was written down when the backup was made.",
    "seal": "The last bytes are the SHA-256 of all before them.",
    "signature": "The signature of the manifest is right.",
}


class Verify:
    """A kind of job; its report is `{valid, checks: [{name, passed, message}]}`; `passed` is null for what was
    not seen.

    A backup that was found right has `verified_at`.
    """

    def __init__(self, blobs: Blobs, line_bytes_max: int) -> None:
        self._blobs, self._line_bytes_max = blobs, line_bytes_max

    async def perform(self, database: Database, job: Claimed, standing: Standing, course: Course) -> None:
        """Look at all of it. Raises `BackupNotFound`, `BackupMissing`."""
        tenant_id, backup_id = job.tenant_id, standing.arguments["backup_id"]
        made = await store.ready(database, tenant_id, backup_id)
        passing = Passing(self._blobs, tenant_id, store.object_of(backup_id), self._line_bytes_max)
        if made["encrypted"]:
            checks = await self._of_encrypted(passing, made["digest"])
        else:
            checks = await self._of(passing, made, course)
        valid = all(check["passed"] is not False for check in checks)
        async with database.writing() as transaction:
            if valid:
                await store.verified(transaction, tenant_id, backup_id)
            await course.finish(transaction, {"valid": valid, "checks": checks}, done=passing.size_bytes)

    async def _of(self, passing: Passing, made: Any, course: Course) -> list[dict[str, Any]]:
        last: list[Ended] = []

        async def take(piece: Piece, rows: Rows) -> None:
            rows.wholes.clear()
            if isinstance(piece, Ended):
                last.append(piece)

        try:
            await passing.through(course, take)
        except (BackupDamaged, BackupNewer, BackupEncrypted) as refusal:
            check: Check = refusal.check if isinstance(refusal, BackupDamaged) else "lines"
            return _failed(check, refusal.detail, refusal.facts)
        (ended,) = last
        checks: dict[str, dict[str, Any]] = {name: _check(name, True, message) for name, message in CHECKS.items()}
        if (passing.digest.hex(), passing.size_bytes) != (made["digest"], made["size_bytes"]):
            checks["file"] = _check("file", False, "The file is another one than was made.")
        if ended.text != made["text"]:
            checks["manifest"] = _check("manifest", False, "The manifest is not the one that was written down.")
        if ended.signature is None:
            checks["signature"] = _check("signature", None, "The backup is not signed.")
        else:
            checks["signature"]["message"] += f" Its public key: {ended.signature.public_key}"
        return list(checks.values())

    async def _of_encrypted(self, passing: Passing, digest: str) -> list[dict[str, Any]]:
        whole = (await passing.only_digest()).hex() == digest
        return [
            _check("file", whole, CHECKS["file"] if whole else "The file is another one than was made."),
            _check("content", None, "It is encrypted: `cairn backup verify --identity` looks at the content, too."),
        ]


def _failed(check: Check, detail: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The check that failed; whatever was not seen to its end is neither right nor wrong."""
    where = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "check")
    return [
        _check(name, False, f"{detail} ({where})" if where else detail)
        if name == check
        else _check(name, None, "It was not seen to its end.")
        for name in CHECKS
    ]


def _check(name: str, passed: bool | None, message: str) -> dict[str, Any]:
    return {"name": name, "passed": passed, "message": message}
