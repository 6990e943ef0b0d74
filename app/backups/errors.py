"""What can be wrong with a backup, and what stands in the way of a restore."""

from __future__ import annotations

from typing import Any, Literal

from app.errors import AppError, Conflict, NotFound

# What is looked at when a file is read; `app.backups.verifying` says in words what each means.
Check = Literal["file", "frames", "lines", "sections", "rows", "counts", "digests", "manifest", "seal", "signature"]


class BackupDamaged(AppError):
    """The file is not whole, or not as it was written; `check` names what found it, further facts say where.

    Nothing was restored. Take another copy of the file.
    """

    status, code, title = 422, "backup_damaged", "The backup is damaged"

    def __init__(self, check: Check, detail: str, **facts: Any) -> None:
        super().__init__(detail, check=check, **facts)
        self.check = check


class BackupRefused(BackupDamaged):
    """The file is whole, but holds what no export of this service writes; nothing was restored."""

    code, title = "backup_refused", "The backup holds what is not restored"


class BackupNewer(Conflict):
    """The file was made by a newer release than this one; restore it there, or update this service first."""

    code, title = "backup_newer", "The backup was made by a newer release"


class BackupUntrusted(Conflict):
    """The file is not signed by a key that this service trusts (`CAIRN_SIGNING__TRUSTED_KEYS`)."""

    code, title = "backup_untrusted", "The backup is not signed by a trusted key"


class BackupEncrypted(Conflict):
    """The file is encrypted, and the service has no key for it: `cairn backup restore --identity` decrypts it first."""

    code, title = "backup_encrypted", "The backup is encrypted"


class RestoreConflict(Conflict):
    """Other rows are there under the same keys; `sections` says how many, and names some. Nothing was restored."""

    code, title = "restore_conflict", "Rows of the backup are there already, with other content"


class ArtifactMissing(Conflict):
    """The file only refers to the bytes of artifacts, and the object store does not have them; nothing was restored."""

    code, title = "artifact_missing", "The bytes of an artifact are not there"


class BackupNotFound(NotFound):
    """There is no such backup for this tenant."""

    code, title = "backup_not_found", "There is no such backup"


class BackupNotReady(Conflict):
    """The backup has no file: it is still being made (`current_state`), or its job ended without one."""

    code, title = "backup_not_ready", "The backup has no file"


class BackupMissing(AppError):
    """The file of the backup is not in the object store any more, or not all of it."""

    status, code, title = 500, "backup_missing", "The file of the backup is missing"
