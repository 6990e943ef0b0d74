"""What can be wrong with a session."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class SessionNotFound(NotFound):
    """There is no such session for this tenant."""

    code, title = "session_not_found", "There is no such session"


class SessionConflict(Conflict):
    """The id belongs to a session that was created with other fields."""

    code, title = "session_conflict", "The id belongs to another session"


class SessionEnded(Conflict):
    """The session has ended or expired; it can only be archived, and its owner and metadata changed."""

    code, title = "session_ended", "The session has ended"
