"""Conversations and attachments, as the service answers them."""

from __future__ import annotations

from datetime import datetime

from app.client.exact import Json
from app.client.record import Record


class StreamIdentity(Record):
    """Whose conversation a stream is."""

    agent_name: str
    instance_id: str


class Conversation(Record):
    """A stream: `next_offset` is the offset of its last batch, `-1` before the first."""

    path: str
    identity: StreamIdentity
    incarnation: str
    next_offset: str
    producer_id: str | None
    producer_epoch: int
    next_producer_sequence: int
    created_at: datetime | None
    updated_at: datetime | None


class ProducerClaim(Record):
    """The right to append, until somebody else acquires it."""

    producer_id: str
    producer_epoch: int
    incarnation: str
    next_producer_sequence: int
    offset: str


class ConversationBatch(Record):
    """What one append wrote; `records` is the exact text that was sent."""

    offset: str
    records: Json


class ConversationPage(Record):
    """Batches in a row. `next_offset` is where to read on; `up_to_date` says that nothing lay behind it."""

    batches: list[ConversationBatch]
    next_offset: str
    up_to_date: bool


class ConversationCheckpoint(Record):
    """What was folded of a stream up to an offset; `data` is the exact text that was sent."""

    path: str
    offset: str
    incarnation: str
    format_version: int
    data: Json | None
    updated_at: datetime


class Attachment(Record):
    """What an attachment's bytes are."""

    path: str
    id: str
    conversation_id: str
    mime_type: str
    size: int
    digest: str
    filename: str | None
    created_at: datetime
