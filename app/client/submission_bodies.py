"""What may be sent about submissions: the fields of each body and filter."""

from __future__ import annotations

from typing import Literal, Required, TypeAlias, TypedDict

from app.client.bodies import Instant, Paging, Payload, Texts

Outcome: TypeAlias = Literal["completed", "failed", "aborted"]
View: TypeAlias = Literal["runnable", "unready", "running", "expired", "unsettled"]
Status: TypeAlias = Literal["queued", "running", "terminalizing", "settled", "joining", "joined"]


class SubmissionFields(TypedDict, total=False):
    """A submission to admit. It may be claimed at once unless `ready` is false."""

    id: str
    session_key: Required[str]
    kind: Required[str]
    agent: Required[str]
    instance_id: Required[str]
    accepted_at: Instant
    input: Required[Payload]
    ready: bool
    max_attempts: int
    timeout_seconds: int
    priority: int
    not_before: Instant | None
    on_lapse: Literal["requeue", "hold"]


class SubmissionFilter(Paging, total=False):
    """Which submissions to list."""

    view: View
    session_key: str
    agent: str
    status: Texts


class SettlementFilter(TypedDict, total=False):
    """How the list of reserved settlements is cut."""

    limit: int
    cursor: str


class MarkerFilter(Paging, total=False):
    """Which marks of attempts to list."""

    submission_id: str


class Lease(TypedDict, total=False):
    """How long a claim holds: `lease_seconds` by the service's clock, or until an instant by the caller's clock."""

    lease_seconds: int
    lease_expires_at: Instant
    client_time: Instant


class NextClaim(TypedDict, total=False):
    """Which work to claim, how much of it, for how long, and how long to wait for it."""

    agent: str
    limit: int
    lease_seconds: int
    wait_seconds: int


class Requeueing(TypedDict, total=False):
    """When what is given back may be claimed again, at once unless said, and why it was."""

    delay_seconds: float
    error: str
