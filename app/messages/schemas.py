"""Messages, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import INTEGER_MAX, Body, Id, Text, Verbatim
from app.http.paging import IncludingListQuery, PageOf

MESSAGES_MAX = 1000

Seq = Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Role = Annotated[Text, Field(min_length=1)]


class NewMessage(Body):
    """A message to record. Without an id the service makes one; without `seq` its counter gives the next number."""

    id: Id | None = Field(None, examples=["msg_1"])
    seq: Seq | None = Field(None, examples=[1])
    from_node_id: Id | None = Field(None, examples=["researcher"])
    to_node_id: Id | None = Field(None, examples=["writer"])
    origin_node_invocation_id: Id | None = Field(None, examples=["ni_1"])
    target_node_invocation_id: Id | None = Field(None, examples=["ni_2"])
    role: Role = Field(examples=["delegation"])
    payload: Verbatim | None = Field(None, examples=[{"text": "Three sources, quoted."}])


class NewMessages(Body):
    """Messages to record together: all of them, or none."""

    items: list[NewMessage] = Field(min_length=1, max_length=MESSAGES_MAX)


class MessageChange(Body):
    """Which node invocation read the message."""

    target_node_invocation_id: Id | None = Field(examples=["ni_2"])


class MessageList(IncludingListQuery):
    """Filters of the list of messages; its order is `(seq, id)`."""

    role: list[str] | None = None
    node_id: list[str] | None = Field(None, description="The sending or the receiving node.")
    origin: list[str] | None = Field(None, description="The node invocation that sent it.")
    target: list[str] | None = Field(None, description="The node invocation that read it.")
    after_seq: Seq | None = Field(None, description="Only messages with a greater `seq`. No lossless tail.")
    sort: Literal["seq"] | None = None


class Message(BaseModel):
    """A message between two nodes. `payload` is shown on its own and where `include` names it."""

    id: str
    invocation_id: str
    seq: int
    from_node_id: str | None
    to_node_id: str | None
    origin_node_invocation_id: str | None
    target_node_invocation_id: str | None
    role: str
    payload: Any = None
    created_at: datetime


class Messages(BaseModel):
    """Messages in the order in which they were sent."""

    items: list[Message]


class MessagePage(PageOf[Message]):
    """A page of messages."""
