"""What is said of a submission while it is worked on, joined and settled, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, Instant, Name, Query, Score, Text, Verbatim
from app.http.paging import IncludingListQuery, ListQuery, PageOf
from app.submissions.schemas import INT_MAX, Lease, Submission

DELAY_SECONDS_MAX = 365 * 24 * 3600


class Owned(Body):
    """The attempt that the submission is running under."""

    attempt_id: Id = Field(examples=["att_2"])


class InputApplied(Owned):
    """What the attempt may use from now on; what is not given stays as it was."""

    max_attempts: Annotated[int, Field(ge=1, le=INT_MAX)] | None = None
    timeout_at: Instant | None = None


class Requeue(Owned):
    """Why the submission is given back, and how long it is to wait for the next attempt."""

    delay_seconds: Annotated[Score, Field(ge=0, le=DELAY_SECONDS_MAX)] | None = None
    error: Text | None = Field(None, examples=["The tool is not reachable."])


class Replacement(Owned, Lease):
    """The attempt that goes on; owner and lease stay unless they are given."""

    next_attempt_id: Id = Field(examples=["att_3"])
    owner_id: Id | None = Field(None, examples=["worker-3"])


class FailedAttempt(Owned):
    """Why the attempt, and with it the submission, has failed."""

    error: Text = Field(examples=["The tool is not reachable."])


class QueuedEnd(Body):
    """How a submission ends that was never claimed, or was given back."""

    outcome: Literal["failed", "aborted"] = Field(examples=["aborted"])
    error: Text = Field(examples=["Nobody needs it any more."])


class Reservation(Owned):
    """The record that is to settle the submission: an object with `id`, the `record_id`, and `outcome`.

    `error.message` is read too; whatever else it holds is kept as it is.
    """

    record_id: Id = Field(examples=["r9"])
    record: Verbatim = Field(examples=[{"id": "r9", "type": "submission_settled", "outcome": "completed"}])


class Finalization(Owned):
    """The record that settles; `error_message` goes before the record's own unless it completed."""

    record_id: Id = Field(examples=["r9"])
    error_message: Text | None = Field(None, examples=["The model refused."])


class JoinClaim(Owned):
    """The agent whose queued submissions may join."""

    agent: Name = Field(examples=["researcher"])


class SessionAbort(Body):
    """The session whose submissions are asked to stop."""

    session_key: Name = Field(examples=["user-42"])


class JoinQuery(IncludingListQuery):
    """How what joined is paged."""

    sort: Literal["sequence"] | None = None


class SettlementQuery(ListQuery):
    """How settlements are paged."""

    sort: Literal["sequence"] | None = None


class MarkerQuery(Query):
    """Which attempt."""

    submission_id: Id = Field(examples=["sub_9"])
    attempt_id: Id = Field(examples=["att_2"])


class MarkerList(ListQuery):
    """Which attempts are listed."""

    submission_id: Id | None = None
    attempt_id: Id | None = None
    sort: Literal["created_at"] | None = None


class JoinedSubmissions(BaseModel):
    """What joined, by sequence, with its input."""

    items: list[Submission]


class AbortedSession(BaseModel):
    """The submissions that are asked to stop, by sequence."""

    submission_ids: list[str]


class Obligation(BaseModel):
    """A record that is still to be appended before its submission is settled."""

    submission_id: str
    session_key: str
    attempt_id: str
    record_id: str
    record: Any


class ObligationPage(PageOf[Obligation]):
    """A page of them, by the sequence of their submissions."""


class AttemptMarker(BaseModel):
    """That an attempt was begun."""

    submission_id: str
    attempt_id: str
    created_at: datetime


class MarkerPage(PageOf[AttemptMarker]):
    """A page of markers."""
