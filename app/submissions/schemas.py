"""Submissions, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from app.http.fields import Body, Id, Instant, Name, Verbatim
from app.http.paging import IncludingListQuery, PageOf

Status = Literal["queued", "running", "terminalizing", "settled", "joining", "joined"]
Outcome = Literal["completed", "failed", "aborted"]
View = Literal["runnable", "unready", "running", "expired", "unsettled"]
INT_MAX = 2**31 - 1
LEASE_SECONDS_MAX = 365 * 86_400
# The most that one claim-next gives, and that one call renews.
CLAIM_MAX, RENEW_MAX = 100, 1000
WAIT_SECONDS_MAX = 60


def _client_time(value: datetime) -> datetime:
    # What is reckoned from it must stay within the years that RFC 3339 has.
    if value.year > 9000:
        raise ValueError("must be an instant before the year 9001")
    return value


ClientTime = Annotated[Instant, AfterValidator(_client_time)]
LeaseSeconds = Annotated[int, Field(ge=1, le=LEASE_SECONDS_MAX)]
# Bodies that can be sent as they are: one made of every member's own example holds what excludes or hides another.
ADMISSION_EXAMPLE: JsonDict = {
    "id": "sub_9", "session_key": "user-42", "kind": "direct", "agent": "researcher", "instance_id": "researcher-1",
    "input": {"message": {"kind": "user", "body": "Why is the sky blue?"}},
}  # fmt: skip
CLAIM_EXAMPLE: JsonDict = {"attempt_id": "att_2", "owner_id": "worker-3", "lease_seconds": 30}
CLAIM_NEXT_EXAMPLE: JsonDict = {"owner_id": "worker-3", "agent": "researcher", "limit": 1, "lease_seconds": 30}
RENEWAL_EXAMPLE: JsonDict = {"owner_id": "worker-3", "submission_ids": ["sub_9"], "lease_seconds": 30}


class NewSubmission(Body):
    """A submission to admit to the queue of its session."""

    model_config = ConfigDict(json_schema_extra={"example": ADMISSION_EXAMPLE})

    id: Id | None = Field(None, examples=["sub_9"])
    session_key: Name = Field(examples=["user-42"])
    kind: Id = Field(examples=["direct"])
    agent: Name = Field(examples=["researcher"])
    instance_id: Name = Field(examples=["researcher-1"])
    accepted_at: Instant | None = Field(None, description="When the client accepted it; now unless given.")
    input: Verbatim = Field(examples=[{"message": {"kind": "user", "body": "Why is the sky blue?"}}])
    ready: bool = Field(True, description="False: nobody can claim it before `POST …/ready`.")
    max_attempts: int = Field(10, ge=1, le=INT_MAX)
    timeout_seconds: int = Field(3600, ge=1, le=INT_MAX, description="Time for all attempts, from the first claim on.")
    priority: int = Field(0, ge=-INT_MAX, le=INT_MAX, description="Greater goes first, among heads of sessions.")
    not_before: Instant | None = Field(None, description="Until then it blocks its session.")
    on_lapse: Literal["requeue", "hold"] = Field(
        "requeue",
        description="`requeue`: when the lease lapses the service returns it to the queue, or settles it as failed once"
        " no attempt or no time is left. `hold`: the service never changes it by itself.",
    )


class Lease(Body):
    """How long the claim holds: so many seconds, or until an instant that the caller names with its own time."""

    lease_seconds: LeaseSeconds | None = Field(None, description="From now on, by the service's clock.", examples=[30])
    lease_expires_at: Instant | None = Field(None, description="By the caller's clock; needs `client_time`.")
    client_time: ClientTime | None = Field(
        None, description="What the caller's clock shows now. With it, instants that it is told are by its clock."
    )


class Claim(Lease):
    """Who claims, under which attempt, and for how long."""

    model_config = ConfigDict(json_schema_extra={"example": CLAIM_EXAMPLE})

    attempt_id: Id = Field(examples=["att_2"])
    owner_id: Id = Field(examples=["worker-3"])


class ClaimNext(Body):
    """Who asks for work, how much of it, and how long to wait while there is none."""

    model_config = ConfigDict(json_schema_extra={"example": CLAIM_NEXT_EXAMPLE})

    owner_id: Id = Field(examples=["worker-3"])
    agent: Name | None = Field(None, description="Only submissions of this agent.", examples=["researcher"])
    limit: int = Field(1, ge=1, le=CLAIM_MAX)
    lease_seconds: LeaseSeconds = Field(30, description="From the claim on, by the service's clock.")
    wait_seconds: int = Field(0, ge=0, le=WAIT_SECONDS_MAX)


class RenewLeases(Body):
    """Whose leases to renew, which, and for how long from now."""

    model_config = ConfigDict(json_schema_extra={"example": RENEWAL_EXAMPLE})

    owner_id: Id = Field(examples=["worker-3"])
    submission_ids: list[Id] = Field(max_length=RENEW_MAX, examples=[["sub_9"]])
    lease_seconds: LeaseSeconds = Field(examples=[30])
    client_time: ClientTime | None = Field(
        None, description="What the caller's clock shows now; with it `lease_expires_at` is by its clock."
    )


class SubmissionList(IncludingListQuery):
    """Which submissions; every filter narrows."""

    view: View | None = Field(
        None,
        description="`runnable`: ready heads of sessions. `unready`: queued and not ready. `running`. `expired`:"
        " running, and the lease has lapsed. `unsettled`: all that are not settled.",
    )
    session_key: Name | None = None
    agent: str | None = None
    status: list[Status] | None = None
    sort: Literal["sequence"] | None = None


class Submission(BaseModel):
    """A piece of work in the queue of its session. `input` is shown on its own and where `include` names it."""

    id: str
    sequence: int
    session_key: str
    kind: str
    agent: str
    instance_id: str
    status: Status
    accepted_at: datetime
    canonical_ready_at: datetime | None
    attempt_id: str | None
    attempt_count: int
    max_attempts: int
    timeout_seconds: int
    timeout_at: datetime | None
    owner_id: str | None
    lease_expires_at: datetime | None
    input_applied_at: datetime | None
    abort_requested_at: datetime | None
    recovery_requested_at: datetime | None
    started_at: datetime | None
    joined_into: str | None
    settled_at: datetime | None
    outcome: Outcome | None
    error: str | None
    priority: int
    not_before: datetime | None
    on_lapse: Literal["requeue", "hold"]
    created_at: datetime
    updated_at: datetime
    input: Any = None


class Receipt(BaseModel):
    """What is left of a submission that was settled and removed."""

    submission_id: str
    accepted_at: datetime


class Admission(BaseModel):
    """The submission, its `input` included; or the receipt of one that was removed after it was settled."""

    kind: Literal["submission", "retained_receipt"]
    submission: Submission | None = None
    receipt: Receipt | None = None


class Submissions(BaseModel):
    """Submissions, each with its `input`."""

    items: list[Submission]


class SubmissionPage(PageOf[Submission]):
    """A page of submissions."""


class Unsettled(BaseModel):
    """Whether any submission is not settled."""

    unsettled: bool


class Renewed(BaseModel):
    """Which leases were renewed; the others are held by nobody, or by another owner."""

    renewed: list[str]
    skipped: list[str]
