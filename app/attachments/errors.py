"""What can be wrong with an attachment."""

from __future__ import annotations

from app.errors import AppError, Conflict, NotFound


class AttachmentNotFound(NotFound):
    """There is no such attachment under this path and in this conversation."""

    code, title = "attachment_not_found", "There is no such attachment"


class AttachmentConflict(Conflict):
    """The id belongs to an attachment with another type, other bytes or another conversation; that one stays."""

    code, title = "attachment_conflict", "The id belongs to another attachment"


class AttachmentIntegrity(AppError):
    """The bytes are not those that their size and digest promise; `reason` says which of them does not fit.

    On a write (422) nothing was stored. On a read (500) what is stored has been damaged.
    """

    status, code, title = 422, "attachment_integrity", "The bytes are not those that were promised"


class AttachmentDamaged(AttachmentIntegrity):
    """The stored bytes do not fit their size or digest; none of them was sent."""

    status = 500
