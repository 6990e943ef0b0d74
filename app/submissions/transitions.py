"""What happens to a submission that is worked on: each call is one statement that decides, and says why where not."""

from __future__ import annotations

import asyncio
from typing import Any

from app.db.database import Answer, Writer
from app.db.page import Listing
from app.db.race import decided
from app.db.shape import Column, Shape, items, plain, stored_bytes
from app.db.sql import load
from app.errors import AppError, invalid
from app.submissions.errors import AlreadyTerminalizing, NotTerminalizing, SettlementConflict
from app.submissions.record import read_settlement
from app.submissions.standing import (
    IfMatch,
    Refusal,
    changed_by,
    facts_of,
    standing_of,
    unless_current,
    unless_owned,
    unless_queued,
)
from app.submissions.store import BY_SEQUENCE, FRAGMENTS, INPUT, SUBMISSION, lease_of

_OBLIGATION = (
    plain("submission_id", "id"),
    next(column for column in SUBMISSION.columns if column.name == "session_key"),
    plain("attempt_id"),
    plain("record_id", "settlement_record_id"),
)
RECORD = frozenset({"record"})
OBLIGATION = Shape(*_OBLIGATION, Column("record", "{t}.settlement_record", verbatim=True))
SQL = load(
    __file__,
    "transition_queries.sql",
    **FRAGMENTS,
    obligation=OBLIGATION.json("s"),
    obligation_with_record=OBLIGATION.json("s", RECORD),
    joined_items=items(SUBMISSION.json("s"), "s.sequence"),
    joined_with_input=items(SUBMISSION.json("s", INPUT), "s.sequence"),
)
SETTLEMENTS = Listing(
    "settlements",
    "(SELECT * FROM submissions AS s WHERE s.status = 'terminalizing') AS t",
    Shape(*_OBLIGATION, plain("record", "settlement_record")),
    sorts=BY_SEQUENCE,
    default=("sequence", "asc"),
    weights={"record": stored_bytes("t.settlement_record")},
)
LARGE_BYTES = 1024 * 1024


async def apply_input(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Say that the input is in the conversation; again is the same. Raises as `unless_owned`."""
    attempt_id = given["attempt_id"]

    def refusal(standing: Any) -> AppError | None:
        refused = unless_owned(standing, submission_id, attempt_id)
        return refused or (None if standing["input_applied_at"] else unless_current(standing, if_match))

    return await changed_by(
        writer, SQL["apply_input"], tenant_id, submission_id, refusal, if_match=if_match, attempt_id=attempt_id,
        max_attempts=given.get("max_attempts"), timeout_at=given.get("timeout_at"),
    )  # fmt: skip


async def request_recovery(
    writer: Writer, tenant_id: str, submission_id: str, attempt_id: str, if_match: IfMatch
) -> Answer:
    """Ask whoever owns the session's runtime to recover the attempt; again is the same. Raises as `unless_owned`."""

    def refusal(standing: Any) -> AppError | None:
        refused = unless_owned(standing, submission_id, attempt_id)
        return refused or (None if standing["recovery_requested_at"] else unless_current(standing, if_match))

    return await changed_by(
        writer, SQL["request_recovery"], tenant_id, submission_id, refusal, if_match=if_match, attempt_id=attempt_id
    )


async def requeue(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Give a running submission back; settled as failed where no attempt or no time is left. Raises as `unless_owned`.

    The answer shows which of the two it was.
    """
    return await changed_by(
        writer, SQL["requeue"], tenant_id, submission_id,
        lambda standing: unless_owned(standing, submission_id, given["attempt_id"]),
        if_match=if_match, attempt_id=given["attempt_id"], delay_seconds=given.get("delay_seconds") or 0,
        error=given.get("error"), dead=True,
    )  # fmt: skip


async def replace_attempt(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Go on under another attempt, after what is being written under this one. Raises as `unless_owned`."""

    def refusal(standing: Any) -> AppError | None:
        return unless_owned(standing, submission_id, given["attempt_id"]) or unless_current(standing, if_match)

    if given["next_attempt_id"] == given["attempt_id"]:
        raise invalid("/next_attempt_id", "must be another attempt")
    return await changed_by(
        writer, SQL["replace_attempt"], tenant_id, submission_id, refusal, if_match=if_match,
        **{name: given.get(name) for name in ("attempt_id", "next_attempt_id", "owner_id")},
        **lease_of(given, required=False),
    )  # fmt: skip


async def complete(writer: Writer, tenant_id: str, submission_id: str, attempt_id: str, if_match: IfMatch) -> Answer:
    """Settle a running submission, and what joined it, as completed. Raises as `unless_owned`."""
    return await _settled(
        writer, tenant_id, submission_id, lambda standing: unless_owned(standing, submission_id, attempt_id), if_match,
        from_status="running", attempt_id=attempt_id, outcome="completed",
    )  # fmt: skip


async def fail(
    writer: Writer, tenant_id: str, submission_id: str, attempt_id: str, error: str, if_match: IfMatch
) -> Answer:
    """Settle a running submission, and what joined it, as failed. Raises as `unless_owned`."""
    return await _settled(
        writer, tenant_id, submission_id, lambda standing: unless_owned(standing, submission_id, attempt_id), if_match,
        from_status="running", attempt_id=attempt_id, outcome="failed", error=error,
    )  # fmt: skip


async def settle_queued(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Settle a submission that is in the queue, as failed or aborted.

    Raises `SubmissionNotFound`, `PreconditionFailed`, and what else the submission is by now.
    """
    return await _settled(
        writer, tenant_id, submission_id, unless_queued, if_match,
        from_status="queued", outcome=given["outcome"], error=given["error"],
    )  # fmt: skip


async def reserve(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Reserve the record that settles a submission which is owned, or has joined one that is; the same again is 200.

    Raises `SettlementConflict` where another record is reserved, and as `unless_owned`.
    """
    attempt_id, record_id, record = given["attempt_id"], given["record_id"], given["record"]
    if len(record) > LARGE_BYTES:
        settlement = await asyncio.to_thread(read_settlement, record, record_id)
    else:
        settlement = read_settlement(record, record_id)

    async def why() -> None:
        standing = await standing_of(writer, tenant_id, submission_id)
        refused = unless_owned(standing, submission_id, attempt_id)
        if standing["status"] == "terminalizing" and standing["attempt_id"] == attempt_id:
            refused = _another_record(standing)
        elif standing["status"] == "joined":
            host_id = standing["joined_into"]
            host = await standing_of(writer, tenant_id, host_id)
            refused = unless_owned(host, host_id, attempt_id)
        refused = refused or unless_current(standing, if_match)
        if refused is not None:
            raise refused

    return await decided(
        writer, SQL["reserve"], why, tenant_id=tenant_id, id=submission_id, if_match=if_match, attempt_id=attempt_id,
        record_id=record_id, record=record, outcome=settlement.outcome, error=settlement.error,
    )  # fmt: skip


async def finalize(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch
) -> Answer:
    """Settle a submission by its reserved record, and what joined it alike.

    Raises `SubmissionNotFound`, `AlreadySettled`, `StaleAttempt`, `NotTerminalizing`, `SettlementConflict`,
    `PreconditionFailed`.
    """

    def refusal(standing: Any) -> AppError | None:
        refused = unless_owned(standing, submission_id, given["attempt_id"])
        if isinstance(refused, AlreadyTerminalizing):
            return None if standing["settlement_record_id"] == given["record_id"] else _another_record(standing)
        return refused or NotTerminalizing("No settlement is reserved.", **facts_of(standing))

    return await _settled(
        writer, tenant_id, submission_id, refusal, if_match, from_status="terminalizing",
        attempt_id=given["attempt_id"], record_id=given["record_id"], outcome=None, error=given.get("error_message"),
    )  # fmt: skip


async def abort_session(writer: Writer, tenant_id: str, session_key: str) -> Answer:
    """Ask everything of a session to stop that is not settled or being settled; in a transaction."""
    await writer.row(SQL["lock_session"], tenant_id=tenant_id, session_key=session_key)
    answer = await writer.answer(SQL["abort_session"], tenant_id=tenant_id, session_key=session_key)
    assert answer is not None
    return answer


def _another_record(standing: Any) -> SettlementConflict:
    return SettlementConflict(
        "Another record is reserved, or one of this id with another text.", **facts_of(standing),
        record_id=standing["settlement_record_id"],
    )  # fmt: skip


async def _settled(
    writer: Writer, tenant_id: str, submission_id: str, refusal: Refusal, if_match: IfMatch, **arguments: Any
) -> Answer:
    """Settle by the one statement that settles; what is not said is null."""
    said = {**dict.fromkeys(("attempt_id", "record_id", "error")), **arguments}
    return await changed_by(
        writer, SQL["settle"], tenant_id, submission_id, refusal, if_match=if_match, dead=False, **said
    )
