"""Submissions and what belongs to them, as the service answers them."""

from __future__ import annotations

from datetime import datetime

from app.client.exact import Json
from app.client.record import Record


class Submission(Record):
    """A piece of work in the queue of its session; `input` is the exact text that was sent."""

    id: str
    sequence: int
    session_key: str
    kind: str
    agent: str
    instance_id: str
    input: Json | None
    status: str
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
    outcome: str | None
    error: str | None
    priority: int
    not_before: datetime | None
    on_lapse: str
    created_at: datetime
    updated_at: datetime


class Receipt(Record):
    """What is left of a submission that retention removed."""

    submission_id: str
    accepted_at: datetime


class Admission(Record):
    """What an admission came to: `kind` is submission, or retained_receipt where only a receipt is left of it."""

    kind: str
    submission: Submission | None
    receipt: Receipt | None


class Settlement(Record):
    """How a submission will settle; `record` is the exact text that was sent."""

    submission_id: str
    session_key: str
    attempt_id: str
    record_id: str
    record: Json | None


class LeaseRenewal(Record):
    """Which leases were renewed, and which submissions are no longer the owner's."""

    renewed: list[str]
    skipped: list[str]


class AttemptMarker(Record):
    """That an attempt has begun."""

    submission_id: str
    attempt_id: str
    created_at: datetime


class DeadLetter(Record):
    """Work that was given up, with the reason."""

    id: str
    source: str
    subject: str
    reason: str
    attempts: int
    last_error: str | None
    created_at: datetime


class FormatStamp(Record):
    """Which format a client's data has."""

    name: str
    value: str
    created_at: datetime
    updated_at: datetime
