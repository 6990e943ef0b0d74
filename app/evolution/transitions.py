"""What happens to a run: it lives, ends, and may be taken up again. Each is one statement that decides."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Writer
from app.db.digest import digest_of
from app.db.race import decided
from app.errors import AppError, changed, invalid
from app.evolution import store
from app.evolution.errors import EvolutionRunEnded


async def complete(
    writer: Writer, tenant_id: str, run_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """End a run. The first terminal state wins; an exact repeat answers 200.

    Raises `EvolutionRunNotFound`, `EvolutionRunEnded`, `PreconditionFailed`, `InvalidInput` (an end before the start).
    """
    digest, ended_at = digest_of(given), given.get("ended_at")

    async def why() -> None:
        standing = await store.standing_of(writer, tenant_id, run_id)
        if standing["status"] != "running":
            if standing["end_digest"] != digest:
                raise ended(standing)
        elif ended_at is not None and ended_at < standing["started_at"]:
            raise invalid("/ended_at", "must not be before started_at")
        else:
            _require_current(standing, if_match)

    return await decided(
        writer,
        store.SQL["complete"],
        why,
        tenant_id=tenant_id,
        id=run_id,
        status=given["status"],
        ended_at=ended_at,
        notes=given.get("notes"),
        set_notes="notes" in given,
        digest=digest,
        if_match=if_match,
    )


async def reopen(writer: Writer, tenant_id: str, run_id: str, if_match: list[int] | None) -> Answer:
    """Take an ended run up again; a running one stays as it is. Raises `EvolutionRunNotFound`, `PreconditionFailed`."""

    async def why() -> None:
        standing = await store.standing_of(writer, tenant_id, run_id)
        if standing["status"] != "running":
            _require_current(standing, if_match)

    return await decided(writer, store.SQL["reopen"], why, tenant_id=tenant_id, id=run_id, if_match=if_match)


async def heartbeat(writer: Writer, tenant_id: str, run_id: str, if_match: list[int] | None) -> Answer:
    """A sign of life of a running run.

    Raises `EvolutionRunNotFound`, `EvolutionRunEnded` with what ended it meanwhile, `PreconditionFailed`.
    """

    async def why() -> None:
        standing = await store.standing_of(writer, tenant_id, run_id)
        if standing["status"] != "running":
            raise ended(standing)
        _require_current(standing, if_match)

    return await decided(writer, store.SQL["heartbeat"], why, tenant_id=tenant_id, id=run_id, if_match=if_match)


def ended(standing: Any) -> AppError:
    """The refusal of what only a running run does."""
    return EvolutionRunEnded(
        f"The run is {standing['status']}; the first terminal state stays, unless the run is reopened.",
        current_status=standing["status"],
    )


def _require_current(standing: Any, if_match: list[int] | None) -> None:
    if if_match is not None and standing["revision"] not in if_match:
        raise changed("run", standing["revision"])
