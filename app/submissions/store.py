"""Submissions in SQL. Each decision is one statement; what must look after it has locked is a function there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from app.bus.hints import Key
from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.race import decided
from app.db.shape import Shape, computed, instant, verbatim
from app.db.sql import Statement, load
from app.errors import AppError, changed, invalid
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

HINT = "submissions"
_SESSION_KEY = (
    "(SELECT k.session_key FROM submission_sessions AS k"
    " WHERE k.tenant_id = {t}.tenant_id AND k.number = {t}.session_number)"
)

SUBMISSION = Shape(
    "id",
    "sequence",
    computed("session_key", _SESSION_KEY),
    "kind",
    "agent",
    "instance_id",
    "status",
    instant("accepted_at"),
    instant("canonical_ready_at"),
    "attempt_id",
    "attempt_count",
    "max_attempts",
    "timeout_seconds",
    instant("timeout_at"),
    "owner_id",
    instant("lease_expires_at"),
    instant("input_applied_at"),
    instant("abort_requested_at"),
    instant("recovery_requested_at"),
    instant("started_at"),
    "joined_into",
    instant("settled_at"),
    "outcome",
    "error",
    "priority",
    instant("not_before"),
    "on_lapse",
    instant("created_at"),
    instant("updated_at"),
    # Last, so that an answer that was kept without it is completed to the same text.
    verbatim("input"),
)
INPUT = frozenset({"input"})
# One input may be as large as a body.
INPUT_WEIGHT = {"input": "octet_length(t.input::text)"}

# The lease as the caller is told it, and when it lapses by this database's clock; for `lease_of`.
LEASE_EXPIRES_AT = (
    "COALESCE(CAST(:lease_expires_at AS timestamptz), COALESCE(CAST(:client_time AS timestamptz), clock_timestamp())"
    " + make_interval(secs => CAST(:lease_seconds AS float8)))"
)
LEASE_LAPSES_AT = (
    "clock_timestamp() + COALESCE(make_interval(secs => CAST(:lease_seconds AS float8)),"
    " CAST(:lease_expires_at AS timestamptz) - CAST(:client_time AS timestamptz))"
)
FRAGMENTS = {
    "submission": SUBMISSION.json("s"),
    "with_input": SUBMISSION.json("s", INPUT),
    "lease_expires_at": LEASE_EXPIRES_AT,
    "lease_lapses_at": LEASE_LAPSES_AT,
    # Of the rows `s`: what has become runnable, as the agents that wait for it are told.
    "runnable": "s.status = 'queued' AND s.is_head AND s.canonical_ready_at IS NOT NULL"
    " AND s.due_at <= statement_timestamp()",
    # What every claim sets, beside the attempt's id. The first one starts the time for all attempts.
    "claimed": f"status = 'running', owner_id = :owner_id, attempt_count = s.attempt_count + 1,"
    f" started_at = clock_timestamp(), lease_expires_at = {LEASE_EXPIRES_AT}, lease_lapses_at = {LEASE_LAPSES_AT},"
    " timeout_at = COALESCE(s.timeout_at, GREATEST(clock_timestamp(), CAST(:client_time AS timestamptz))"
    " + make_interval(secs => s.timeout_seconds)), revision = s.revision + 1, updated_at = clock_timestamp()",
}


def lease_of(given: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The arguments of a statement that sets a lease, all null where none is given.

    Raises `InvalidInput` where it is given in two ways, in none although it is required, or without the caller's time.
    """
    seconds, expires_at, client_time = (given.get(n) for n in ("lease_seconds", "lease_expires_at", "client_time"))
    if seconds is not None and expires_at is not None:
        raise invalid("/lease_expires_at", "must be absent where lease_seconds is given")
    if seconds is None and expires_at is None and required:
        raise invalid("/lease_seconds", "is required, or lease_expires_at with client_time")
    if expires_at is not None and client_time is None:
        raise invalid("/client_time", "is required with lease_expires_at")
    return {"lease_seconds": seconds, "lease_expires_at": expires_at, "client_time": client_time}


def hints_of(tenant_id: str, agents: Iterable[str]) -> list[Key]:
    """What is told when something of these agents has become runnable: their names, and "" for who takes any."""
    names = set(agents)
    return [Key(HINT, tenant_id, name) for name in (*sorted(names), "")] if names else []


def told(moved: list[Key], tenant_id: str, answer: Answer) -> Answer:
    """The answer, after what it has made runnable was added to what the call tells once it is committed."""
    moved += hints_of(tenant_id, answer.moved)
    return answer


def facts_of(standing: Any) -> dict[str, Any]:
    """What a refusal says of where the submission stands."""
    named = ("attempt_id", "owner_id", "joined_into", "outcome")
    return {"current_status": standing["status"], **{name: standing[name] for name in named if standing[name]}}


def unless_queued(standing: Any) -> AppError | None:
    """The refusal of what only a queued submission allows."""
    status = standing["status"]
    kinds: dict[str, tuple[type[AppError], str]] = {
        "running": (AlreadyRunning, "The submission runs under an attempt."),
        "terminalizing": (AlreadyTerminalizing, "The settlement of the submission is reserved."),
        "joining": (AlreadyJoined, "The submission joins another."),
        "joined": (AlreadyJoined, "The submission has joined another."),
        "settled": (AlreadySettled, "The submission is settled; its outcome stays."),
    }
    if status not in kinds:
        return None
    kind, detail = kinds[status]
    return kind(detail, **facts_of(standing))


def unless_current(standing: Any, if_match: list[int] | None) -> AppError | None:
    """The refusal of a change whose `If-Match` does not name the row's revision."""
    if if_match is None or standing["revision"] in if_match:
        return None
    return changed("submission", standing["revision"])


# Not the input: the rows that a statement returns are kept until it ends.
_RETURNED = ", ".join(
    f"s.{column.name}" for column in SUBMISSION.columns if not column.verbatim and column.name != "session_key"
)
# Its session may be as new as the submission itself, and is not to be seen yet.
_ADMITTED = Shape(
    *(
        computed("session_key", "CAST(:session_key AS text)") if column.name == "session_key" else column
        for column in SUBMISSION.columns
    )
)
_RECEIPT = Shape("submission_id", instant("accepted_at"))
SQL = load(
    __file__,
    **FRAGMENTS,
    returned=f"s.tenant_id, s.revision, s.is_head, s.due_at, {_RETURNED}",
    admitted=_ADMITTED.json("s"),
    receipt=_RECEIPT.json("r"),
)
# What a submission is where the client does not say.
DEFAULTS = {"ready": True, "max_attempts": 10, "timeout_seconds": 3600, "priority": 0, "on_lapse": "requeue"}


async def admit(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Admit a submission with its input: 201, or 200 where it was admitted with the same fields, as it now is.

    An id whose submission was settled and removed answers 200 with its receipt. Raises `SubmissionConflict`.
    """
    submission_id = given.get("id") or new_id("sub")
    digest = digest_of({**given, "id": submission_id})

    async def why() -> None:
        stored = await writer.row(SQL["standing"], tenant_id=tenant_id, id=submission_id)
        if stored is not None and stored["digest"] != digest:
            raise SubmissionConflict(
                "A submission with this id was admitted with other fields.",
                id=submission_id,
                current_status=stored["status"],
            )

    fields = {**dict.fromkeys(("accepted_at", "not_before")), **DEFAULTS, **given, "id": submission_id}
    answer = await decided(writer, SQL["admit"], why, tenant_id=tenant_id, digest=digest, **fields)
    if answer.body is None or not answer.body.startswith(b'{"kind":"submission"'):
        return answer
    # Equal digests are equal inputs, so what was sent is what is stored.
    shown = answer.body[:-2] + b',"input":' + given["input"] + b"}}"
    return replace(answer, body=shown, kept=answer.body)


async def ready(writer: Writer, tenant_id: str, submission_id: str, if_match: list[int] | None) -> Answer:
    """Mark a queued submission ready; again is the same.

    Raises `SubmissionNotFound`, `PreconditionFailed`, and why it is not queued.
    """

    async def why() -> None:
        standing = await standing_of(writer, tenant_id, submission_id)
        refusal = unless_queued(standing) or unless_current(standing, if_match)
        if refusal is not None:
            raise refusal

    return await decided(writer, SQL["ready"], why, tenant_id=tenant_id, id=submission_id, if_match=if_match)


async def claim(
    writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Claim the head of a session under an attempt, with its input.

    Raises `SubmissionNotFound`, `NotReady`, `NotHeadOfSession`, `NotDue`, `PreconditionFailed`, `InvalidInput` (about
    the lease), and why it is not queued; a repeat of the same claim is `AlreadyRunning` too.
    """

    async def why() -> None:
        standing = await standing_of(writer, tenant_id, submission_id)
        refusal = unless_queued(standing) or _unless_runnable(standing) or unless_current(standing, if_match)
        if refusal is not None:
            raise refusal

    return await decided(
        writer,
        SQL["claim"],
        why,
        tenant_id=tenant_id,
        id=submission_id,
        attempt_id=given["attempt_id"],
        owner_id=given["owner_id"],
        if_match=if_match,
        **lease_of(given),
    )


async def delete(writer: Writer, tenant_id: str, submission_id: str, if_match: list[int] | None) -> Answer:
    """Remove a settled submission; its receipt stays.

    Raises `SubmissionNotFound`, `NotSettled`, `PreconditionFailed`.
    """

    async def why() -> None:
        standing = await standing_of(writer, tenant_id, submission_id)
        if standing["status"] != "settled":
            raise NotSettled("The submission is not settled; only what is settled is removed.", **facts_of(standing))
        refusal = unless_current(standing, if_match)
        if refusal is not None:
            raise refusal

    return await decided(writer, SQL["delete"], why, tenant_id=tenant_id, id=submission_id, if_match=if_match)


@lru_cache(maxsize=4)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT s.revision, {SUBMISSION.json('s', include)} AS body FROM submissions AS s"
        " WHERE s.tenant_id = :tenant_id AND s.id = :id"
    )


async def get(reader: Reader, tenant_id: str, submission_id: str, include: frozenset[str] = INPUT) -> Answer:
    """The submission. Raises `SubmissionNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, id=submission_id)
    if row is None:
        raise SubmissionNotFound("There is no such submission.", id=submission_id)
    return Answer(200, row["body"], row["revision"])


async def standing_of(reader: Reader, tenant_id: str, submission_id: str) -> Any:
    """Where the submission stands. Raises `SubmissionNotFound`."""
    row = await reader.row(SQL["standing"], tenant_id=tenant_id, id=submission_id)
    if row is None:
        raise SubmissionNotFound("There is no such submission.", id=submission_id)
    return row


async def has_unsettled(reader: Reader, tenant_id: str) -> bool:
    """Whether any submission is not settled."""
    row = await reader.row(SQL["unsettled"], tenant_id=tenant_id)
    return row is not None and row["unsettled"]


def _unless_runnable(standing: Any) -> AppError | None:
    facts = facts_of(standing)
    if standing["canonical_ready_at"] is None:
        return NotReady("The submission is not marked ready.", **facts)
    if not standing["is_head"]:
        return NotHeadOfSession("An earlier submission of the session is not settled.", **facts)
    if not standing["due"]:
        not_before = standing["not_before"].isoformat().replace("+00:00", "Z")
        return NotDue("The submission is not due before `not_before`.", not_before=not_before, **facts)
    return None
