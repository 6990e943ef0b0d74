"""Events, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from app.http.fields import Query, Text
from app.http.paging import LIMIT

WAIT_SECONDS_MAX = 60


class EventQuery(Query):
    """From where to read, and what."""

    after: str | None = Field(
        None,
        max_length=255,
        description="`next_cursor` of an earlier answer, or the `id` of an event of a stream. Without it: from the"
        " earliest kept; `now` shows none, and starts behind the latest.",
    )
    type: list[Text] | None = Field(
        None,
        max_length=100,
        description="Only events of these types; repeat the parameter. A type that there is not is 422.",
        examples=[["invocation.ended"]],
    )
    include: str | None = Field(
        None, description="Verbatim fields of the subjects to show in `data`, separated by commas, as they are now."
    )
    limit: Annotated[int, LIMIT] | None = None
    wait_seconds: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX)] | None = Field(
        None, description="How long to wait until there is an event, where there is none yet."
    )


class Event(BaseModel):
    """A change, and what its subject was after it."""

    id: str
    type: str = Field(examples=["invocation.ended"])
    subject_type: str = Field(examples=["invocation"])
    subject_id: str
    subject_parent_id: str | None = Field(description="The invocation, where the subject is within one.")
    occurred_at: datetime
    position: int = Field(description="The place in the tenant's order: 1, 2, 3 and so on, without gaps.")
    data: dict[str, Any] = Field(description="The subject after the change, without its verbatim fields.")
    gone: bool = Field(
        False, description="Present and true when `include` asked for a subject that is no longer there."
    )


class EventPage(BaseModel):
    """Events in their order; `next_cursor` is always there, to ask again with."""

    items: list[Event]
    next_cursor: str
