"""What happens to an invocation: it starts, lives, ends or is cancelled. Each is one statement that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from app.db.database import Answer, Writer
from app.db.digest import digest_of
from app.db.race import decided
from app.db.sql import cleared
from app.errors import AppError, invalid
from app.invocations import store
from app.invocations.errors import InvocationConflict, InvocationNotStarted
from app.invocations.tables import OPEN


async def start(
    writer: Writer, tenant_id: str, invocation_id: str, started_at: datetime | None, if_match: list[int] | None
) -> Answer:
    """Start a queued invocation; again is the same.

    Raises `InvocationNotFound`, `InvocationEnded`, `InvocationConflict` (it started at another instant),
    `PreconditionFailed`.
    """

    def refusal(standing: Any) -> AppError | None:
        if standing["status"] not in OPEN:
            return store.ended(standing)
        if standing["status"] == "queued":
            return store.unless_current(standing, if_match)
        if started_at not in (None, standing["started_at"]):
            return InvocationConflict("The invocation started at another instant.", current_status="running")
        return None

    return await _changed(
        writer, "start", tenant_id, invocation_id, refusal,
        {"tenant_ids": [tenant_id], "ids": [invocation_id], "started_ats": [started_at], "if_match": if_match},
    )  # fmt: skip


async def heartbeat(writer: Writer, tenant_id: str, invocation_id: str, if_match: list[int] | None) -> Answer:
    """A sign of life of a running invocation.

    Raises `InvocationNotFound`, `InvocationEnded`, `InvocationNotStarted`, `PreconditionFailed`.
    """

    def refusal(standing: Any) -> AppError | None:
        if standing["status"] not in OPEN:
            return store.ended(standing)
        return _not_started(standing) if standing["status"] == "queued" else store.unless_current(standing, if_match)

    return await _changed(
        writer, "heartbeat", tenant_id, invocation_id, refusal,
        {"tenant_ids": [tenant_id], "ids": [invocation_id], "if_match": if_match},
    )  # fmt: skip


async def end(
    writer: Writer, tenant_id: str, invocation_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """End an invocation with its results. The first terminal state wins; an exact repeat answers 200.

    Raises `InvocationNotFound`, `InvocationEnded`, `InvocationNotStarted`, `PreconditionFailed`, `InvalidInput` (an end
    before the start).
    """
    digest = digest_of(given)
    named = {**store.RESULTS, **store.OUTCOME}

    def refusal(standing: Any) -> AppError | None:
        if standing["status"] not in OPEN:
            return None if standing["end_digest"] == digest else store.ended(standing)
        if standing["status"] == "queued" and given["status"] not in ("failed", "cancelled"):
            return _not_started(standing)
        started_at, ended_at = standing["started_at"], given.get("ended_at")
        if started_at is not None and ended_at is not None and ended_at < started_at:
            return invalid("/ended_at", "must not be before started_at")
        return store.unless_current(standing, if_match)

    arguments = {
        "tenant_ids": [tenant_id],
        "ids": [invocation_id],
        "statuses": [given["status"]],
        "ended_ats": [given.get("ended_at")],
        "digests": [digest],
        "cleared": [cleared(named, given)],
        "if_match": if_match,
        **{plural: [given.get(name)] for name, plural in named.items()},
    }
    return await _changed(writer, "end", tenant_id, invocation_id, refusal, arguments)


async def cancel(
    writer: Writer, tenant_id: str, invocation_id: str, if_match: list[int] | None, *, force: bool
) -> Answer:
    """Cancel: at once while queued or with `force`, else by asking; again is the same.

    Raises `InvocationNotFound`, `InvocationEnded`, `PreconditionFailed`.
    """

    def refusal(standing: Any) -> AppError | None:
        if standing["status"] not in OPEN:
            return None if standing["status"] == "cancelled" else store.ended(standing)
        asked = standing["cancel_requested_at"] is not None and not force
        return None if asked else store.unless_current(standing, if_match)

    return await _changed(
        writer, "cancel", tenant_id, invocation_id, refusal,
        {"tenant_id": tenant_id, "id": invocation_id, "force": force, "if_match": if_match},
    )  # fmt: skip


async def _changed(
    writer: Writer,
    name: str,
    tenant_id: str,
    invocation_id: str,
    refusal: Callable[[Any], AppError | None],
    arguments: Mapping[str, Any],
) -> Answer:
    """What the statement answers; else the refusal that the row's state gives.

    None of them means that another writer was faster, and that the row now allows it, or shows its repeat.
    """

    async def why() -> None:
        refused = refusal(await store.standing_of(writer, tenant_id, invocation_id))
        if refused is not None:
            raise refused

    return await decided(writer, store.SQL[name], why, **arguments)


def _not_started(standing: Any) -> AppError:
    return InvocationNotStarted("The invocation is queued; start it first.", current_status=standing["status"])
