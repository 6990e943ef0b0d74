"""Submissions over HTTP: admission, reading, claiming."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.live import LiveReadersFull
from app.http.paging import IncludeQuery, page
from app.submissions import claiming, listing, store
from app.submissions.errors import (
    AlreadyJoined,
    AlreadyRunning,
    AlreadySettled,
    AlreadyTerminalizing,
    NotDue,
    NotHeadOfSession,
    NotReady,
    NotSettled,
    SubmissionConflict,
    SubmissionNotFound,
)
from app.submissions.schemas import (
    Admission,
    Claim,
    ClaimNext,
    NewSubmission,
    Renewed,
    RenewLeases,
    Submission,
    SubmissionList,
    SubmissionPage,
    Submissions,
    Unsettled,
)
from app.submissions.watching import key_of, keys_of

routes = Routes("submissions")
INCLUDING = Including(store.SUBMISSION, "submissions AS t")
# Their answers have the input; a replay reads it again.
WITH_INPUT = Including(store.SUBMISSION, "submissions AS t", always=store.INPUT)
ADMITTED = Including(store.SUBMISSION, "submissions AS t", within="submission", always=store.INPUT)
NOT_QUEUED = (AlreadyRunning, AlreadyTerminalizing, AlreadyJoined, AlreadySettled)


def told(call: Call, answer: Answer) -> Answer:
    """The answer; who waits for what it has made runnable is told, once it is committed."""
    call.moved += keys_of(call.tenant_id, answer.moved)
    return answer


@routes.post(
    "/v1/submissions",
    scope="submissions:write",
    including=ADMITTED,
    response_model=Admission,
    status_code=201,
    errors=(SubmissionConflict,),
)
async def admit_submission(call: Call, _query: IncludeQuery, body: NewSubmission) -> Answer:
    """Admit a submission to the queue of its session, ready to be claimed unless `ready` is false.

    The same id with the same fields answers 200 with the submission as it now is; one that was settled and removed
    since answers 200 with its receipt. Within a session submissions run one after the other, in the order of their
    `sequence`, which is that of their commits.
    """
    return told(call, await store.admit(call.writer, call.tenant_id, body.given()))


@routes.post(
    "/v1/submissions/claim-next",
    scope="submissions:write",
    batchable=False,
    including=WITH_INPUT,
    response_model=Submissions,
    errors=(LiveReadersFull,),
)
async def claim_next_submissions(call: Call, _query: IncludeQuery, body: ClaimNext) -> Answer:
    """Claim what is next: heads of sessions that are ready and due, by priority and then by sequence.

    Each runs under a new attempt, made by the service; no two are of one session. They are fewer than `limit` where
    those before one have 16 MiB of inputs already. Where there is nothing it waits up to `wait_seconds` for
    something, and then answers no items. A claim whose answer is lost runs until its lease lapses: send an
    Idempotency-Key, and the repeat answers the same items.
    """
    given = body.given()
    found = await call.ground.live.first(
        call,
        key_of(call.tenant_id, body.agent),
        body.wait_seconds,
        lambda last: claiming.claim_next(call.writer, call.tenant_id, given, last=last),
    )
    return Answer(200, claiming.EMPTY, kept=claiming.EMPTY) if found is None else found


@routes.post("/v1/submissions/renew-leases", scope="submissions:write", response_model=Renewed)
async def renew_leases(call: Call, body: RenewLeases) -> Answer:
    """Renew the leases of running submissions that the owner holds: a sign of life, which moves no ETag.

    A lease that has lapsed and that nobody took is renewed too. What is not running, or not the owner's, is skipped.
    """
    return await claiming.renew(call.writer, call.tenant_id, body.given())


@routes.get("/v1/submissions", scope="submissions:read", response_model=SubmissionPage)
async def list_submissions(call: Call, query: SubmissionList) -> Answer:
    """The submissions of this tenant by `sequence`, the order in which they were admitted."""
    return await page(call, listing.SUBMISSIONS, query, listing.filters(query))


@routes.get("/v1/submissions/unsettled", scope="submissions:read", response_model=Unsettled)
async def get_unsettled(call: Call) -> Answer:
    """Whether any submission is not settled."""
    unsettled = await store.has_unsettled(call.reader, call.tenant_id)
    return Answer(200, b'{"unsettled":true}' if unsettled else b'{"unsettled":false}')


@routes.get(
    "/v1/submissions/{submission_id}",
    scope="submissions:read",
    response_model=Submission,
    errors=(SubmissionNotFound,),
)
async def get_submission(call: Call, submission_id: str, query: IncludeQuery) -> Answer:
    """A submission with its input, byte for byte; `include=` with nothing named leaves it out."""
    include = store.SUBMISSION.shown(query.include)
    return await store.get(call.reader, call.tenant_id, submission_id, include)


@routes.delete(
    "/v1/submissions/{submission_id}",
    scope="submissions:write",
    status_code=204,
    errors=(SubmissionNotFound, NotSettled),
)
async def delete_submission(call: Call, submission_id: str) -> Answer:
    """Remove a settled submission. Its receipt stays: the id admits nothing again."""
    return await store.delete(call.writer, call.tenant_id, submission_id, call.if_match)


@routes.post(
    "/v1/submissions/{submission_id}/ready",
    scope="submissions:write",
    including=INCLUDING,
    response_model=Submission,
    errors=(SubmissionNotFound, *NOT_QUEUED),
)
async def ready_submission(call: Call, submission_id: str, _query: IncludeQuery) -> Answer:
    """Mark a queued submission ready, so that it can be claimed; again is the same."""
    return told(call, await store.ready(call.writer, call.tenant_id, submission_id, call.if_match))


@routes.post(
    "/v1/submissions/{submission_id}/claim",
    scope="submissions:write",
    including=WITH_INPUT,
    response_model=Submission,
    errors=(SubmissionNotFound, NotReady, NotHeadOfSession, NotDue, *NOT_QUEUED),
)
async def claim_submission(call: Call, submission_id: str, _query: IncludeQuery, body: Claim) -> Answer:
    """Claim a ready submission that is the head of its session: it runs under the attempt until its lease lapses.

    The lease is `lease_seconds` by the service's clock, or lasts until `lease_expires_at` on the clock that shows
    `client_time`; it is judged by the service's clock. The first claim sets `timeout_at`. A claim that is repeated
    without its Idempotency-Key is 409, the answer naming the attempt that runs.
    """
    return await store.claim(call.writer, call.tenant_id, submission_id, body.given(), call.if_match)
