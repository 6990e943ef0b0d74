"""Calls about conversations: streams of batches with one fenced producer each."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging, Payload
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.conversation_models import (
    Conversation,
    ConversationCheckpoint,
    ConversationPage,
    ProducerClaim,
)
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import decode_exactly, dump, members
from app.client.reply import Reply

M = TypeVar("M")
# How long a live read waits for the next batch; the service answers an empty page then.
LIVE_WAIT_SECONDS = 30.0


class ConversationFilter(Paging, total=False):
    """Which conversations to list."""

    agent_name: str


class CheckpointFields(TypedDict):
    """What was folded of a conversation up to an offset."""

    offset: str
    incarnation: str
    format_version: int
    data: Payload


class Conversations(Resource[M]):
    """Streams of batches. What a producer may no longer write raises `ConflictError`, of it `StaleProducerError`."""

    @endpoint
    def create(self, stream: str, *, agent_name: str, instance_id: str) -> Call[Conversation]:
        """Create the stream at a path; the same identity again changes nothing."""
        identity = {"agent_name": agent_name, "instance_id": instance_id}
        return Call("PUT", path("conversations"), one(Conversation), body=dump({"path": stream, "identity": identity}))

    @endpoint
    def acquire(self, stream: str, producer_id: str) -> Call[ProducerClaim]:
        """Become the producer; every earlier claim is dead from here on."""
        body = dump({"path": stream, "producer_id": producer_id})
        return Call("POST", path("conversations", "acquire"), one(ProducerClaim), body=body)

    @endpoint
    def append(
        self,
        stream: str,
        records: Payload,
        *,
        producer_id: str,
        producer_epoch: int,
        incarnation: str,
        producer_sequence: int,
        attempt: tuple[str, str] | None = None,
    ) -> Call[str]:
        """Append one batch, all or nothing, and return its offset; the same again returns the same offset.

        `attempt` is `(submission_id, attempt_id)`: the batch is written only while that attempt owns its submission.
        """
        body: dict[str, Any] = {
            "path": stream,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "incarnation": incarnation,
            "producer_sequence": producer_sequence,
            "records": records,
        }
        if attempt is not None:
            body["submission"] = {"submission_id": attempt[0], "attempt_id": attempt[1]}
        return Call("POST", path("conversations", "append"), _offset, body=dump(body))

    @endpoint
    def read(
        self,
        stream: str,
        *,
        offset: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        live: Literal["long-poll"] | None = None,
    ) -> Call[ConversationPage]:
        """The batches after an offset (from the start unless given), or with `before` backward, the newest first.

        With `live` the answer comes when there is a batch, or empty after a while.
        """
        asked = query({"path": stream, "offset": offset, "before": before, "limit": limit, "live": live})
        wait_seconds = LIVE_WAIT_SECONDS if live else 0
        return Call("GET", path("conversations", "read"), one(ConversationPage), asked, wait_seconds=wait_seconds)

    @endpoint
    def meta(self, stream: str) -> Call[Conversation]:
        """The stream itself: its identity, head and producer."""
        return Call("GET", path("conversations", "meta"), one(Conversation), query({"path": stream}))

    @endpoint
    def delete(self, stream: str) -> Call[None]:
        """Delete a stream with its batches."""
        return Call("DELETE", path("conversations"), nothing, query({"path": stream}))

    @listing
    def list(self, **filters: Unpack[ConversationFilter]) -> Call[Page[Conversation]]:
        """Streams that meet every condition."""
        return Call("GET", path("conversations"), page_of(Conversation), query(filters))

    @endpoint
    def put_checkpoint(self, stream: str, **fields: Unpack[CheckpointFields]) -> Call[ConversationCheckpoint]:
        """Keep what was folded of a stream; the last one stays. The stream need not exist."""
        target = path("conversations", "checkpoint")
        return Call("PUT", target, one(ConversationCheckpoint), query({"path": stream}), dump(fields))

    @endpoint
    def checkpoint(self, stream: str, *, at_or_before: str | None = None) -> Call[ConversationCheckpoint]:
        """What was folded of a stream; `NotFoundError` when that is nothing, or later than `at_or_before`."""
        asked = query({"path": stream, "at_or_before": at_or_before})
        return Call("GET", path("conversations", "checkpoint"), one(ConversationCheckpoint), asked)


def _offset(reply: Reply) -> str:
    return str(decode_exactly(members(reply.body)["offset"]))
