"""What can be wrong with a conversation."""

from __future__ import annotations

from app.errors import AppError, Conflict, NotFound


class ConversationNotFound(NotFound):
    """There is no conversation under this path."""

    code, title = "conversation_not_found", "There is no such conversation"


class CheckpointNotFound(NotFound):
    """The path has no checkpoint, or only one that lies after the offset asked for."""

    code, title = "conversation_checkpoint_not_found", "There is no such checkpoint of the conversation"


class ConversationConflict(Conflict):
    """The path belongs to a conversation of another agent or instance; `identity` is whose it is."""

    code, title = "conversation_conflict", "The path belongs to another conversation"


class StaleProducer(Conflict):
    """Another producer has acquired the conversation since; `producer_epoch` is the current one."""

    code, title = "stale_producer", "Another producer writes this conversation"


class SequenceConflict(Conflict):
    """The number is not the next of this producer, or holds another batch; `expected` is the next one."""

    code, title = "sequence_conflict", "The producer's sequence does not continue"


class AppendUnauthorized(Conflict):
    """The submission does not let these records be appended; `reason` says why."""

    code, title = "append_unauthorized", "The submission does not permit these records"


class OffsetBeyondHead(Conflict):
    """The offset lies after the last batch; `head` is the offset of that one."""

    code, title = "offset_beyond_head", "The offset lies after the last batch"


class StreamReplaced(AppError):
    """The conversation that the position belongs to was deleted; `incarnation` is the one now under its path."""

    status, code, title = 410, "stream_replaced", "The conversation was deleted"


class BadOffset(AppError):
    """The text is no offset."""

    status, code, title = 400, "bad_offset", "The offset cannot be read"
