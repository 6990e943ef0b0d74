"""Calls about the queue: submissions, their leases, joins and settlement, and the markers of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from app.client.bodies import Instant, Payload
from app.client.call import Call, Items, Page, items_of, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import decode_exactly, dump, members
from app.client.reply import Reply
from app.client.submission_bodies import (
    Lease,
    MarkerFilter,
    NextClaim,
    Outcome,
    Requeueing,
    SettlementFilter,
    SubmissionFields,
    SubmissionFilter,
)
from app.client.submission_models import Admission, AttemptMarker, LeaseRenewal, Settlement, Submission

M = TypeVar("M")


class Submissions(Resource[M]):
    """The durable queue. Calls of an owner name its attempt; one that owns no longer raises `StaleAttemptError`."""

    @endpoint
    def admit(self, *, include: Sequence[str] = (), **fields: Unpack[SubmissionFields]) -> Call[Admission]:
        """Put a submission into its session's queue; the same again is a replay, whatever became of it."""
        return Call("POST", path("submissions"), one(Admission), query({"include": include}), dump(fields))

    @endpoint
    def get(self, submission_id: str, *, include: Sequence[str] = ()) -> Call[Submission]:
        """One submission, with its input."""
        return Call("GET", path("submissions", submission_id), one(Submission), query({"include": include}))

    @endpoint
    def delete(self, submission_id: str) -> Call[None]:
        """Remove a settled submission; its receipt stays, and its id admits nothing again."""
        return Call("DELETE", path("submissions", submission_id), nothing)

    @listing
    def list(self, **filters: Unpack[SubmissionFilter]) -> Call[Page[Submission]]:
        """Submissions that meet every condition, in the order of their admission."""
        return Call("GET", path("submissions"), page_of(Submission), query(filters))

    @endpoint
    def any_unsettled(self) -> Call[bool]:
        """Whether any submission of the tenant is not settled."""
        return Call("GET", path("submissions", "unsettled"), _any_unsettled)

    @listing
    def settlements(self, **filters: Unpack[SettlementFilter]) -> Call[Page[Settlement]]:
        """The settlements that are reserved and not final."""
        return Call("GET", path("settlements"), page_of(Settlement), query(filters))

    @endpoint
    def ready(self, submission_id: str) -> Call[Submission]:
        """Say that it may be claimed; the first time counts."""
        return self._act(submission_id, "ready")

    @endpoint
    def claim_next(self, owner_id: str, **fields: Unpack[NextClaim]) -> Call[Items[Submission]]:
        """Claim what is next, with its input: heads of different sessions, at most `limit`.

        With `wait_seconds` the answer comes when there is work, or empty after that time.
        """
        body = dump({"owner_id": owner_id, **fields})
        wait_seconds = fields.get("wait_seconds", 0)
        target = path("submissions", "claim-next")
        return Call("POST", target, items_of(Submission), body=body, wait_seconds=wait_seconds)

    @endpoint
    def claim(self, submission_id: str, attempt_id: str, owner_id: str, **lease: Unpack[Lease]) -> Call[Submission]:
        """Claim this one, as the head of its session, under an attempt that the caller names."""
        return self._act(submission_id, "claim", attempt_id=attempt_id, owner_id=owner_id, **lease)

    @endpoint
    def replace_attempt(
        self,
        submission_id: str,
        attempt_id: str,
        next_attempt_id: str,
        *,
        owner_id: str | None = None,
        **lease: Unpack[Lease],
    ) -> Call[Submission]:
        """Go on under another attempt, which counts as one more; nothing can be written under the old one."""
        owner = {} if owner_id is None else {"owner_id": owner_id}
        names = {"attempt_id": attempt_id, "next_attempt_id": next_attempt_id}
        return self._act(submission_id, "replace-attempt", **names, **owner, **lease)

    @endpoint
    def input_applied(
        self,
        submission_id: str,
        attempt_id: str,
        *,
        max_attempts: int | None = None,
        timeout_at: Instant | None = None,
    ) -> Call[Submission]:
        """Say that the input is taken in, once, with the budget that holds from here on."""
        budget = {"max_attempts": max_attempts, "timeout_at": timeout_at}
        given = {name: value for name, value in budget.items() if value is not None}
        return self._act(submission_id, "input-applied", attempt_id=attempt_id, **given)

    @endpoint
    def request_recovery(self, submission_id: str, attempt_id: str) -> Call[Submission]:
        """Ask that somebody take over from this attempt."""
        return self._act(submission_id, "recovery-request", attempt_id=attempt_id)

    @endpoint
    def requeue(self, submission_id: str, attempt_id: str, **when: Unpack[Requeueing]) -> Call[Submission]:
        """Give it back to the queue, at its place."""
        return self._act(submission_id, "requeue", attempt_id=attempt_id, **when)

    @endpoint
    def complete(self, submission_id: str, attempt_id: str) -> Call[Submission]:
        """Settle it as completed."""
        return self._act(submission_id, "complete", attempt_id=attempt_id)

    @endpoint
    def fail(self, submission_id: str, attempt_id: str, error: str) -> Call[Submission]:
        """Settle it as failed."""
        return self._act(submission_id, "fail", attempt_id=attempt_id, error=error)

    @endpoint
    def settle_queued(self, submission_id: str, outcome: Outcome, error: str) -> Call[Submission]:
        """Settle it while nobody has claimed it."""
        return self._act(submission_id, "settle-queued", outcome=outcome, error=error)

    @endpoint
    def reserve_settlement(
        self, submission_id: str, attempt_id: str, record_id: str, record: Payload
    ) -> Call[Settlement]:
        """Lay down how it will settle; from here on only that record may be written under the attempt."""
        body = dump({"attempt_id": attempt_id, "record_id": record_id, "record": record})
        return Call("POST", path("submissions", submission_id, "settlement", "reserve"), one(Settlement), body=body)

    @endpoint
    def finalize_settlement(
        self, submission_id: str, attempt_id: str, record_id: str, *, error_message: str | None = None
    ) -> Call[Submission]:
        """Settle it as was reserved."""
        said = {} if error_message is None else {"error_message": error_message}
        body = dump({"attempt_id": attempt_id, "record_id": record_id, **said})
        return Call("POST", path("submissions", submission_id, "settlement", "finalize"), one(Submission), body=body)

    @endpoint
    def claim_joins(self, submission_id: str, attempt_id: str, agent: str) -> Call[Items[Submission]]:
        """Take what waits next in the session, for the same agent, into this submission."""
        body = dump({"attempt_id": attempt_id, "agent": agent})
        return Call("POST", path("submissions", submission_id, "joins", "claim"), items_of(Submission), body=body)

    @endpoint
    def finalize_join(self, submission_id: str, child_id: str, attempt_id: str) -> Call[Submission]:
        """Say that a child's input is taken in: it settles with its host."""
        return self._join(submission_id, child_id, "finalize", attempt_id)

    @endpoint
    def revert_join(self, submission_id: str, child_id: str, attempt_id: str) -> Call[Submission]:
        """Give a child back to the queue, at its place."""
        return self._join(submission_id, child_id, "revert", attempt_id)

    @listing
    def joins(self, submission_id: str) -> Call[Page[Submission]]:
        """What has joined, or is joining, this submission."""
        return Call("GET", path("submissions", submission_id, "joins"), page_of(Submission))

    @endpoint
    def abort_session(self, session_key: str) -> Call[Sequence[str]]:
        """Ask everything unsettled in a session to stop; the ids that were asked now."""
        target = path("submissions", "abort-session")
        return Call("POST", target, _aborted, body=dump({"session_key": session_key}))

    @endpoint
    def renew_leases(
        self,
        owner_id: str,
        submission_ids: Sequence[str],
        *,
        lease_seconds: int,
        client_time: Instant | None = None,
    ) -> Call[LeaseRenewal]:
        """Go on holding what an owner has, from now on by the service's clock; `skipped` is no longer the owner's."""
        clock = {} if client_time is None else {"client_time": client_time}
        held = {"owner_id": owner_id, "submission_ids": [*submission_ids], "lease_seconds": lease_seconds}
        target = path("submissions", "renew-leases")
        return Call("POST", target, one(LeaseRenewal), body=dump({**held, **clock}), repeatable=True)

    def _act(self, submission_id: str, verb: str, **fields: Any) -> Call[Submission]:
        return Call("POST", path("submissions", submission_id, verb), one(Submission), body=dump(fields))

    def _join(self, submission_id: str, child_id: str, verb: str, attempt_id: str) -> Call[Submission]:
        target = path("submissions", submission_id, "joins", child_id, verb)
        return Call("POST", target, one(Submission), body=dump({"attempt_id": attempt_id}))


class AttemptMarkers(Resource[M]):
    """Which attempts have begun; ids travel in the query."""

    @endpoint
    def put(self, submission_id: str, attempt_id: str) -> Call[AttemptMarker]:
        """Mark an attempt; the first time counts."""
        return Call("PUT", path("attempt-markers"), one(AttemptMarker), _marker(submission_id, attempt_id))

    @listing
    def list(self, **filters: Unpack[MarkerFilter]) -> Call[Page[AttemptMarker]]:
        """The attempts that are marked."""
        return Call("GET", path("attempt-markers"), page_of(AttemptMarker), query(filters))

    @endpoint
    def delete(self, submission_id: str, attempt_id: str) -> Call[None]:
        """Remove a mark, if there is one."""
        return Call("DELETE", path("attempt-markers"), nothing, _marker(submission_id, attempt_id))


def _marker(submission_id: str, attempt_id: str) -> tuple[tuple[str, str], ...]:
    return query({"submission_id": submission_id, "attempt_id": attempt_id})


def _any_unsettled(reply: Reply) -> bool:
    return bool(decode_exactly(members(reply.body)["unsettled"]))


def _aborted(reply: Reply) -> Sequence[str]:
    found: list[str] = decode_exactly(members(reply.body)["submission_ids"])
    return found
