"""What can be wrong with a message."""

from __future__ import annotations

from app.db.integrity import NotNew, constraint
from app.errors import Conflict, NotFound


class MessageNotFound(NotFound):
    """There is no such message in this invocation."""

    code, title = "message_not_found", "There is no such message"


class MessageConflict(Conflict):
    """An id belongs to a message that was created with other fields; `ids` names each, and nothing was stored."""

    code, title = "message_conflict", "The id belongs to another message"


constraint("pk_messages", lambda: NotNew("Of the messages, one is there already."))
