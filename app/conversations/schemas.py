"""Conversations, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from app.conversations.records import Records
from app.http.fields import Body, Count, Id, Name, Query, Verbatim
from app.http.paging import ListQuery, PageOf

WAIT_SECONDS_DEFAULT, WAIT_SECONDS_MAX = 30, 60
READ_LIMIT_DEFAULT, READ_LIMIT_MAX = 100, 1000

# What does not fit the pattern is refused as `bad_offset`, not by the model.
Offset = Annotated[
    str,
    Field(
        examples=["0000000000000000_0000000000000007"],
        json_schema_extra={"pattern": "^(-1|[0-9]{1,64}_[0-9]{1,64})$"},
    ),
]
ReadLimit = Annotated[int, Field(ge=1, le=READ_LIMIT_MAX)]
# Can be sent as it is; under `submission` an attempt would have to run.
APPEND_EXAMPLE: JsonDict = {
    "path": "agents/echo/i1", "producer_id": "p1", "producer_epoch": 3,
    "incarnation": "inc_019b1e2f3a4b7c5d8e9f0a1b2c3d4e5f", "producer_sequence": 7,
    "records": [{"v": 1, "id": "r1", "type": "user_message"}],
}  # fmt: skip


class Identity(Body):
    """Whose conversation it is."""

    agent_name: Name = Field(examples=["echo"])
    instance_id: Name = Field(examples=["i1"])


class NewConversation(Body):
    """A conversation to create under a path."""

    path: Name = Field(examples=["agents/echo/i1"])
    identity: Identity


class Acquisition(Body):
    """A producer that takes the conversation over."""

    path: Name = Field(examples=["agents/echo/i1"])
    producer_id: Name = Field(examples=["p1"])


class Attempt(Body):
    """The attempt under which records are appended."""

    submission_id: Id = Field(examples=["sub_9"])
    attempt_id: Id = Field(examples=["att_2"])


class Append(Body):
    """A batch of records to append: all of them under one offset, or none."""

    model_config = ConfigDict(json_schema_extra={"example": APPEND_EXAMPLE})

    path: Name = Field(examples=["agents/echo/i1"])
    producer_id: Name = Field(examples=["p1"])
    producer_epoch: Count = Field(examples=[3])
    incarnation: Name = Field(examples=["inc_019b1e2f3a4b7c5d8e9f0a1b2c3d4e5f"])
    producer_sequence: Count = Field(examples=[7])
    submission: Attempt | None = None
    records: Records = Field(examples=[[{"v": 1, "id": "r1", "type": "user_message"}]])


class NewCheckpoint(Body):
    """The folded state of a conversation up to an offset."""

    offset: Offset
    incarnation: Name = Field(examples=["inc_019b1e2f3a4b7c5d8e9f0a1b2c3d4e5f"])
    format_version: Count = Field(examples=[1])
    data: Verbatim = Field(examples=["{}"])


class PathQuery(Query):
    """Which conversation."""

    path: Name = Field(examples=["agents/echo/i1"])


class ReadQuery(PathQuery):
    """Which batches of a conversation."""

    offset: str | None = Field(None, description="Only batches after it; `now` answers none, and the head.")
    before: str | None = Field(None, description="Only batches before it, the newest first; `now` starts at the head.")
    limit: ReadLimit = READ_LIMIT_DEFAULT
    live: Literal["long-poll"] | None = Field(None, description="Wait until there is a batch.")
    wait_seconds: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX)] = Field(
        WAIT_SECONDS_DEFAULT, description="How long a live read waits."
    )


class EventsQuery(PathQuery):
    """Where a stream of a conversation starts."""

    offset: str | None = Field(None, description="Only batches after it; `now` starts at the head.")


class CheckpointQuery(PathQuery):
    """Which checkpoint of a conversation."""

    at_or_before: str | None = Field(None, description="Only a checkpoint that is not after this offset.")


class ConversationList(ListQuery):
    """Filters of the list of conversations."""

    agent_name: str | None = None
    sort: Literal["created_at"] | None = None


class ConversationIdentity(BaseModel):
    """Whose conversation it is."""

    agent_name: str
    instance_id: str


class Conversation(BaseModel):
    """A conversation: `next_offset` is the offset of its last batch, `-1` while there is none."""

    path: str
    identity: ConversationIdentity
    incarnation: str
    next_offset: str
    producer_id: str | None
    producer_epoch: int
    next_producer_sequence: int
    created_at: datetime
    updated_at: datetime


class ConversationPage(PageOf[Conversation]):
    """A page of conversations."""


class ProducerClaim(BaseModel):
    """What a producer appends with; `offset` is the head that it starts from."""

    producer_id: str
    producer_epoch: int
    incarnation: str
    next_producer_sequence: int
    offset: str


class Appended(BaseModel):
    """Where the batch stands."""

    offset: str


class StoredBatch(BaseModel):
    """The records of one append, byte for byte, under their offset."""

    offset: str
    records: list[dict[str, Any]]


class Batches(BaseModel):
    """A page of batches; `next_offset` is where the next one goes on from, `up_to_date` that nothing is left."""

    batches: list[StoredBatch]
    next_offset: str
    up_to_date: bool


class Checkpoint(BaseModel):
    """The folded state of a conversation; answers to writes leave `data` out."""

    path: str
    offset: str
    incarnation: str
    format_version: int
    data: Any = None
    updated_at: datetime
