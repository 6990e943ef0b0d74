"""Submissions in SQL. Each decision is one statement; what must look after it has locked is a function there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant, stored_bytes, verbatim
from app.db.sql import Statement, load
from app.errors import AppError, invalid
from app.submissions.errors import NotSettled, SubmissionConflict, SubmissionNotFound
from app.submissions.standing import (
    STANDING,
    IfMatch,
    changed_by,
    facts_of,
    unless_current,
    unless_queued,
    unless_runnable,
)

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
# What a lease was over long ago is reckoned back from now, and the database's instants begin in 4713 BC.
LAPSED_MAX = timedelta(days=365_000)
INPUT = frozenset({"input"})
BY_SEQUENCE = {"sequence": Sort("{t}.sequence", "bigint")}
# One input may be as large as a body.
INPUT_WEIGHT = {"input": stored_bytes("t.input")}

# The lease as the caller is told it, and when it lapses by this database's clock; for `lease_of`.
LEASE_EXPIRES_AT = (
    "COALESCE(CAST(:lease_expires_at AS timestamptz), COALESCE(CAST(:client_time AS timestamptz), clock_timestamp())"
    " + make_interval(secs => CAST(:lease_seconds AS float8)))"
)
LEASE_LAPSES_AT = (
    "clock_timestamp() + COALESCE(make_interval(secs => CAST(:lease_seconds AS float8)),"
    " CAST(:lease_expires_at AS timestamptz) - CAST(:client_time AS timestamptz))"
)
# What can be claimed now, of the rows `{t}`.
RUNNABLE = (
    "{t}.status = 'queued' AND {t}.is_head AND {t}.canonical_ready_at IS NOT NULL"
    " AND {t}.due_at <= statement_timestamp()"
)
FRAGMENTS = {
    "submission": SUBMISSION.json("s"),
    "with_input": SUBMISSION.json("s", INPUT),
    "lease_expires_at": LEASE_EXPIRES_AT,
    "lease_lapses_at": LEASE_LAPSES_AT,
    "runnable": RUNNABLE.format(t="s"),
    # `s`, found by its key, runs under the attempt. IS TRUE keeps this from being a condition that an index has: a plan
    # that was made while the table was small would take all that run for as good as the key, and read them through.
    "owned": "(s.status = 'running') IS TRUE AND s.attempt_id = :attempt_id",
    # `If-Match` names the revision of `s`, or none is asked for.
    "matched": "(CAST(:if_match AS bigint[]) IS NULL OR s.revision = ANY (:if_match))",
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
    if expires_at is not None and client_time - expires_at > LAPSED_MAX:
        raise invalid("/lease_expires_at", "must be at most 1,000 years before client_time")
    return {"lease_seconds": seconds, "lease_expires_at": expires_at, "client_time": client_time}


# Not the input: the rows that a statement returns are kept until it ends.
_RETURNED = ", ".join(
    f"s.{column.name}" for column in SUBMISSION.columns if not column.verbatim and column.name != "session_key"
)


def _with_session_key(sql: str) -> Shape:
    columns = SUBMISSION.columns
    return Shape(*(computed(name, sql) if (name := column.name) == "session_key" else column for column in columns))


# The session may be as new as the submission itself, and is not to be seen yet.
_ADMITTED, _READMITTED = _with_session_key("CAST(:session_key AS text)"), _with_session_key("{t}.session_key")
_RECEIPT = Shape("submission_id", instant("accepted_at"))
SQL = load(
    __file__,
    **FRAGMENTS,
    returned=f"s.tenant_id, s.revision, s.is_head, s.due_at, {_RETURNED}",
    admitted=_ADMITTED.json("s"),
    readmitted=_READMITTED.json("s"),
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
        stored = await writer.row(STANDING, tenant_id=tenant_id, id=submission_id)
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


async def ready(writer: Writer, tenant_id: str, submission_id: str, if_match: IfMatch) -> Answer:
    """Mark a queued submission ready; again is the same.

    Raises `SubmissionNotFound`, `PreconditionFailed`, and why it is not queued.
    """

    def refusal(standing: Any) -> AppError | None:
        return unless_queued(standing) or unless_current(standing, if_match)

    return await changed_by(writer, SQL["ready"], tenant_id, submission_id, refusal, if_match=if_match)


async def claim(writer: Writer, tenant_id: str, submission_id: str, given: dict[str, Any], if_match: IfMatch) -> Answer:
    """Claim the head of a session under an attempt, with its input.

    Raises `SubmissionNotFound`, `NotReady`, `NotHeadOfSession`, `NotDue`, `PreconditionFailed`, `InvalidInput` (about
    the lease), and why it is not queued; a repeat of the same claim is `AlreadyRunning` too.
    """

    def refusal(standing: Any) -> AppError | None:
        return unless_runnable(standing) or unless_current(standing, if_match)

    return await changed_by(
        writer, SQL["claim"], tenant_id, submission_id, refusal, if_match=if_match,
        attempt_id=given["attempt_id"], owner_id=given["owner_id"], **lease_of(given),
    )  # fmt: skip


async def delete(writer: Writer, tenant_id: str, submission_id: str, if_match: IfMatch) -> Answer:
    """Remove a settled submission; its receipt stays.

    Raises `SubmissionNotFound`, `NotSettled`, `PreconditionFailed`.
    """

    def refusal(standing: Any) -> AppError | None:
        if standing["status"] != "settled":
            return NotSettled("The submission is not settled; only what is settled is removed.", **facts_of(standing))
        return unless_current(standing, if_match)

    return await changed_by(writer, SQL["delete"], tenant_id, submission_id, refusal, if_match=if_match)


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


async def has_unsettled(reader: Reader, tenant_id: str) -> bool:
    """Whether any submission is not settled."""
    row = await reader.row(SQL["unsettled"], tenant_id=tenant_id)
    return row is not None and row["unsettled"]
