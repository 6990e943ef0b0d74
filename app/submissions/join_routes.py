"""Submissions that join one that is running, over HTTP."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer
from app.errors import StaleAttempt
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import IncludeQuery, page
from app.submissions import joins
from app.submissions.errors import AlreadySettled, AlreadyTerminalizing, NotJoining, SubmissionNotFound
from app.submissions.routes import WITH_INPUT
from app.submissions.schemas import SubmissionPage, Submissions
from app.submissions.standing import standing_of
from app.submissions.transition_routes import OF_OWNER, OWNS, owner
from app.submissions.transition_schemas import JoinClaim, JoinQuery, Owned

routes = Routes("submissions")


@routes.post(
    "/v1/submissions/{submission_id}/joins/claim",
    **OWNS,
    including=WITH_INPUT,
    response_model=Submissions,
    errors=(SubmissionNotFound, StaleAttempt, AlreadyTerminalizing, AlreadySettled),
)
async def claim_submission_joins(call: Call, submission_id: str, _query: IncludeQuery, body: JoinClaim) -> Answer:
    """Claim what queues behind a running submission, to work on it together; each has its `input`.

    They are taken from the front of the session's queue, 1,000 at most, up to the first that is not ready, not due,
    asked to stop, or another agent's, and no more once those before have 16 MiB of inputs.
    """
    return await joins.claim(
        await owner(call, submission_id, body),
        call.tenant_id,
        submission_id,
        body.attempt_id,
        body.agent,
        call.if_match,
    )


JOIN: dict[str, Any] = {
    **OF_OWNER,
    "errors": (SubmissionNotFound, NotJoining, StaleAttempt, AlreadyTerminalizing),
}


@routes.post("/v1/submissions/{submission_id}/joins/{child_id}/finalize", **JOIN)
async def finalize_submission_join(
    call: Call, submission_id: str, child_id: str, _query: IncludeQuery, body: Owned
) -> Answer:
    """Say that the input of a joining submission is in the conversation: it is settled with what it joined."""
    return await joins.finalize(
        await owner(call, submission_id, body), call.tenant_id, submission_id, child_id, body.attempt_id, call.if_match
    )


@routes.post("/v1/submissions/{submission_id}/joins/{child_id}/revert", **JOIN)
async def revert_submission_join(
    call: Call, submission_id: str, child_id: str, _query: IncludeQuery, body: Owned
) -> Answer:
    """Give a joining submission back to the queue, to its old place; what is being written for it is waited for."""
    return await joins.revert(
        await owner(call, submission_id, body), call.tenant_id, submission_id, child_id, body.attempt_id, call.if_match
    )


@routes.get(
    "/v1/submissions/{submission_id}/joins",
    scope="submissions:read",
    response_model=SubmissionPage,
    errors=(SubmissionNotFound,),
)
async def list_submission_joins(call: Call, submission_id: str, query: JoinQuery) -> Answer:
    """What is joining a submission or has joined it, and is not settled, by sequence."""
    return await page(
        call,
        joins.JOINS,
        query,
        {"host": submission_id},
        if_empty=lambda: standing_of(call.reader, call.tenant_id, submission_id),
    )
