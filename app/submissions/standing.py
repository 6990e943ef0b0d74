"""Where a submission stands, and what that refuses: a statement decides, this says why where it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.race import decided
from app.db.sql import Statement
from app.errors import AppError, StaleAttempt, changed
from app.submissions.errors import (
    AlreadyJoined,
    AlreadyRunning,
    AlreadySettled,
    AlreadyTerminalizing,
    NotDue,
    NotHeadOfSession,
    NotReady,
    SubmissionNotFound,
)

STANDING = Statement(
    "SELECT s.status, s.is_head, s.canonical_ready_at, s.not_before, s.due_at <= clock_timestamp() AS due,"
    " s.attempt_id, s.owner_id, s.joined_into, s.outcome, s.settlement_record_id, s.input_applied_at,"
    " s.recovery_requested_at, s.revision, s.digest"
    " FROM submissions AS s WHERE s.tenant_id = :tenant_id AND s.id = :id",
    "standing",
)
_NOT_QUEUED: dict[str, tuple[type[AppError], str]] = {
    "running": (AlreadyRunning, "The submission runs under an attempt."),
    "terminalizing": (AlreadyTerminalizing, "The settlement of the submission is reserved."),
    "joining": (AlreadyJoined, "The submission joins another."),
    "joined": (AlreadyJoined, "The submission has joined another."),
    "settled": (AlreadySettled, "The submission is settled; its outcome stays."),
}
IfMatch = list[int] | None
Refusal = Callable[[Any], AppError | None]
"""Why a submission that stands so does not allow a change; None where it does, or shows the repeat of one."""


async def standing_of(reader: Reader, tenant_id: str, submission_id: str) -> Any:
    """Where the submission stands. Raises `SubmissionNotFound`."""
    row = await reader.row(STANDING, tenant_id=tenant_id, id=submission_id)
    if row is None:
        raise SubmissionNotFound("There is no such submission.", id=submission_id)
    return row


async def changed_by(
    writer: Writer, statement: Statement, tenant_id: str, submission_id: str, refusal: Refusal, **arguments: Any
) -> Answer:
    """What the statement answers that changes the submission. Raises `SubmissionNotFound`, and the refusal.

    Where there is none of them, another writer was faster, and the submission now allows it or shows its repeat.
    """

    async def why() -> None:
        refused = refusal(await standing_of(writer, tenant_id, submission_id))
        if refused is not None:
            raise refused

    return await decided(writer, statement, why, tenant_id=tenant_id, id=submission_id, **arguments)


def facts_of(standing: Any) -> dict[str, Any]:
    """What a refusal says of where the submission stands."""
    named = ("attempt_id", "owner_id", "joined_into", "outcome")
    return {"current_status": standing["status"], **{name: standing[name] for name in named if standing[name]}}


def unless_queued(standing: Any) -> AppError | None:
    """The refusal of what only a queued submission allows."""
    if standing["status"] not in _NOT_QUEUED:
        return None
    kind, detail = _NOT_QUEUED[standing["status"]]
    return kind(detail, **facts_of(standing))


def unless_runnable(standing: Any) -> AppError | None:
    """The refusal of a claim: not queued, not ready, not the head of its session, or not due."""
    facts = facts_of(standing)
    if standing["status"] != "queued":
        return unless_queued(standing)
    if standing["canonical_ready_at"] is None:
        return NotReady("The submission is not marked ready.", **facts)
    if not standing["is_head"]:
        return NotHeadOfSession("An earlier submission of the session is not settled.", **facts)
    if not standing["due"]:
        not_before = standing["not_before"].isoformat().replace("+00:00", "Z")
        return NotDue("The submission is not due before `not_before`.", not_before=not_before, **facts)
    return None


def unless_owned(standing: Any, submission_id: str, attempt_id: str) -> AppError | None:
    """The refusal of what only the attempt allows that the submission is running under.

    It is `AlreadySettled`, `AlreadyTerminalizing` under this very attempt, or `StaleAttempt` with the current one.
    """
    status = standing["status"]
    if status == "settled" or (status == "terminalizing" and standing["attempt_id"] == attempt_id):
        return unless_queued(standing)
    if status == "running" and standing["attempt_id"] == attempt_id:
        return None
    facts = {**facts_of(standing), "attempt_id": standing["attempt_id"]}
    return StaleAttempt("The submission does not run under this attempt.", submission_id=submission_id, **facts)


def unless_current(standing: Any, if_match: IfMatch) -> AppError | None:
    """The refusal of a change whose `If-Match` does not name the submission's revision."""
    if if_match is None or standing["revision"] in if_match:
        return None
    return changed("submission", standing["revision"])
