"""Dead letters, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from app.http.fields import Body, Instant, Query, Text
from app.http.paging import ListQuery, PageOf

Source = Literal["submission", "webhook"]
# Letters of one call that replays or purges: its transaction stays short.
REPLAY_DEFAULT, REPLAY_MAX = 100, 1000
PURGE_DEFAULT, PURGE_MAX = 1000, 10_000
REPLAY_EXAMPLE: JsonDict = {"source": "webhook", "webhook_id": "wh_orders", "limit": 100}


class _Matching(Query):
    """Which letters."""

    source: Source | None = None
    subject: str | None = None
    reason: str | None = None
    webhook_id: str | None = Field(None, description="Only letters of deliveries of this webhook.")
    created_after: Instant | None = None
    created_before: Instant | None = None


class DeadLetterList(_Matching, ListQuery):
    """Filters of the list of dead letters."""

    sort: Literal["created_at"] | None = None


class Purge(_Matching):
    """Which letters to remove."""

    all: bool = Field(False, description="Must be true where no filter is given.")
    limit: Annotated[int, Field(ge=1, le=PURGE_MAX)] = Field(
        PURGE_DEFAULT, description="Most letters that one call removes, the oldest first."
    )


class DeadLetterReplay(Body):
    """Which letters to replay."""

    model_config = ConfigDict(json_schema_extra={"example": REPLAY_EXAMPLE})

    source: Source | None = None
    subject: Text | None = None
    reason: Text | None = None
    webhook_id: Text | None = Field(None, description="Only letters of deliveries of this webhook.")
    created_after: Instant | None = None
    created_before: Instant | None = None
    all: bool = Field(False, description="Must be true where no filter is given.")
    limit: int = Field(REPLAY_DEFAULT, ge=1, le=REPLAY_MAX, description="Most letters that one call looks at.")
    cursor: str | None = Field(None, description="`next_cursor` of the call before; the filter is to be the same.")


class DeadLetter(BaseModel):
    """Work that nobody will try again by itself. `subject` is the id of what it was, `reason` why it was given up."""

    id: str
    source: Source
    subject: str
    reason: str
    attempts: int
    last_error: str | None
    created_at: datetime


class DeadLetterPage(PageOf[DeadLetter]):
    """A page of dead letters."""


class ReplayedLetter(BaseModel):
    """A letter that went, because what it told of is tried again."""

    id: str
    source: Source
    subject: str
    replayed_as: str = Field(description="The delivery itself; of a submission the new one.")


class RefusedLetter(BaseModel):
    """A letter that stays, and why: the code and detail of the problem that replaying it alone would be."""

    id: str
    source: Source
    subject: str
    code: str
    detail: str


class Replayed(BaseModel):
    """What replaying came to; with `next_cursor` the next call goes on behind it."""

    replayed: int
    refused: int
    items: list[ReplayedLetter]
    refusals: list[RefusedLetter]
    next_cursor: str | None


class Purged(BaseModel):
    """How many letters were removed, and whether there are more of them."""

    deleted: int
    more: bool
