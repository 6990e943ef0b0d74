"""What happens to a submission after its claim, over HTTP."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Writer
from app.db.fences import Fence
from app.errors import StaleAttempt
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.idempotency import owned_by
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.submissions import transitions
from app.submissions.errors import (
    AlreadyJoined,
    AlreadyRunning,
    AlreadySettled,
    AlreadyTerminalizing,
    NotTerminalizing,
    SettlementConflict,
    SubmissionNotFound,
)
from app.submissions.routes import INCLUDING, WITH_INPUT, told
from app.submissions.schemas import Submission
from app.submissions.transition_schemas import (
    AbortedSession,
    FailedAttempt,
    Finalization,
    InputApplied,
    Obligation,
    ObligationPage,
    Owned,
    QueuedEnd,
    Replacement,
    Requeue,
    Reservation,
    SessionAbort,
    SettlementQuery,
)

routes = Routes("submissions")
# A replay reads the record again, as it does an input.
WITH_RECORD = Including(
    transitions.OBLIGATION,
    "(SELECT s.*, s.id AS submission_id FROM submissions AS s) AS t",
    key=("submission_id", "text"),
    always=transitions.RECORD,
)
WRITE: dict[str, Any] = {"scope": "submissions:write"}
# The statement looks whether the attempt owns the submission, once it has the locks that go before.
OWNS: dict[str, Any] = {**WRITE, "fences_itself": True}
OF_OWNER: dict[str, Any] = {
    **OWNS,
    "including": INCLUDING,
    "response_model": Submission,
    "errors": (SubmissionNotFound, StaleAttempt, AlreadyTerminalizing, AlreadySettled),
}


async def owner(call: Call, submission_id: str, body: Owned) -> Writer:
    """Where the owner of a submission writes."""
    return await owned_by(call, Fence(submission_id, body.attempt_id))


@routes.post("/v1/submissions/{submission_id}/input-applied", **OF_OWNER)
async def apply_submission_input(call: Call, submission_id: str, _query: IncludeQuery, body: InputApplied) -> Answer:
    """Say that the input is in the conversation, and what the attempts may use from now on; repeating it answers 200.

    `max_attempts` and `timeout_at` are stored as they are given, by the first of these calls; what it leaves out stays.
    """
    return await transitions.apply_input(
        await owner(call, submission_id, body), call.tenant_id, submission_id, body.given(), call.if_match
    )


@routes.post("/v1/submissions/{submission_id}/recovery-request", **OF_OWNER)
async def request_submission_recovery(call: Call, submission_id: str, _query: IncludeQuery, body: Owned) -> Answer:
    """Ask for the recovery of a running attempt; the first request's instant stays, repeating it answers 200."""
    return await transitions.request_recovery(
        await owner(call, submission_id, body), call.tenant_id, submission_id, body.attempt_id, call.if_match
    )


@routes.post("/v1/submissions/{submission_id}/requeue", **OF_OWNER)
async def requeue_submission(call: Call, submission_id: str, _query: IncludeQuery, body: Requeue) -> Answer:
    """Give a running submission back to the queue, to its old place, for the next attempt after `delay_seconds`.

    Unless it is admitted with `on_lapse: hold`, one that has no attempt or no time left is settled as failed instead,
    and listed under the dead letters; the answer shows which of the two it was.
    """
    return told(
        call,
        await transitions.requeue(
            await owner(call, submission_id, body), call.tenant_id, submission_id, body.given(), call.if_match
        ),
    )


@routes.post("/v1/submissions/{submission_id}/replace-attempt", **{**OF_OWNER, "including": WITH_INPUT})
async def replace_submission_attempt(call: Call, submission_id: str, _query: IncludeQuery, body: Replacement) -> Answer:
    """Go on with a running submission under another attempt; what is being written under the old one is waited for.

    Owner and lease stay unless they are given. The answer has the submission's `input`.
    """
    return await transitions.replace_attempt(
        await owner(call, submission_id, body), call.tenant_id, submission_id, body.given(), call.if_match
    )


@routes.post("/v1/submissions/{submission_id}/complete", **OF_OWNER)
async def complete_submission(call: Call, submission_id: str, _query: IncludeQuery, body: Owned) -> Answer:
    """Settle a running submission as completed.

    What joined it is settled alike, and what was still joining goes back to the queue, at the same time.
    """
    return told(
        call,
        await transitions.complete(
            await owner(call, submission_id, body), call.tenant_id, submission_id, body.attempt_id, call.if_match
        ),
    )


@routes.post("/v1/submissions/{submission_id}/fail", **OF_OWNER)
async def fail_submission(call: Call, submission_id: str, _query: IncludeQuery, body: FailedAttempt) -> Answer:
    """Settle a running submission as failed, with an error; and with it what joined it, as `complete` does."""
    return told(
        call,
        await transitions.fail(
            await owner(call, submission_id, body),
            call.tenant_id,
            submission_id,
            body.attempt_id,
            body.error,
            call.if_match,
        ),
    )


@routes.post(
    "/v1/submissions/{submission_id}/settle-queued",
    **WRITE,
    including=INCLUDING,
    response_model=Submission,
    errors=(SubmissionNotFound, AlreadyRunning, AlreadyTerminalizing, AlreadyJoined, AlreadySettled),
)
async def settle_queued_submission(call: Call, submission_id: str, _query: IncludeQuery, body: QueuedEnd) -> Answer:
    """Settle a submission that is in the queue, ready or not, without an attempt."""
    return told(
        call,
        await transitions.settle_queued(call.writer, call.tenant_id, submission_id, body.given(), call.if_match),
    )


@routes.post(
    "/v1/submissions/{submission_id}/settlement/reserve",
    **OWNS,
    including=WITH_RECORD,
    response_model=Obligation,
    errors=(SubmissionNotFound, StaleAttempt, AlreadyTerminalizing, SettlementConflict, AlreadySettled),
)
async def reserve_submission_settlement(
    call: Call, submission_id: str, _query: IncludeQuery, body: Reservation
) -> Answer:
    """Reserve the record that is to settle a submission; from now on only that may be written under the attempt.

    The submission is running under the attempt, or has joined one that is. The same record by the same attempt again
    answers 200.
    """
    return await transitions.reserve(
        await owner(call, submission_id, body), call.tenant_id, submission_id, body.given(), call.if_match
    )


@routes.post(
    "/v1/submissions/{submission_id}/settlement/finalize",
    **OWNS,
    including=INCLUDING,
    response_model=Submission,
    errors=(SubmissionNotFound, StaleAttempt, NotTerminalizing, SettlementConflict, AlreadySettled),
)
async def finalize_submission_settlement(
    call: Call, submission_id: str, _query: IncludeQuery, body: Finalization
) -> Answer:
    """Settle a submission by its reserved record, and with it what joined it, as `complete` does.

    The error is null where the record's outcome is completed; else `error_message`, else the record's
    `error.message`, else a general one.
    """
    return told(
        call,
        await transitions.finalize(
            await owner(call, submission_id, body), call.tenant_id, submission_id, body.given(), call.if_match
        ),
    )


@routes.get("/v1/settlements", scope="submissions:read", response_model=ObligationPage)
async def list_settlements(call: Call, query: SettlementQuery) -> Answer:
    """The settlements that are reserved and not final, by the sequence of their submissions, each with its record."""
    return await page(call, transitions.SETTLEMENTS, query)


@routes.post("/v1/submissions/abort-session", **WRITE, transactional=True, response_model=AbortedSession)
async def abort_session(call: Call, body: SessionAbort) -> Answer:
    """Ask every submission of a session to stop that is queued, running, joining or joined; the first instant stays.

    What they are does not change: their owners see `abort_requested_at`. An unknown session has none of them.
    """
    return await transitions.abort_session(call.writer, call.tenant_id, body.session_key)
