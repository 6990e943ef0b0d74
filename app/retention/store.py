"""Rules of retention in SQL: set, shown, followed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.race import decided
from app.db.shape import instant_sql
from app.db.sql import load
from app.errors import changed, invalid
from app.jobs import store as jobs
from app.retention.kind import Rule
from app.retention.kinds import KINDS
from app.retention.removal import count

RUN_KIND = "retention.run"
MEMBERS = ("max_age_days", "keep_latest", "keep_pinned", "keep_best", "keep_failed")
_SQL = load(
    __file__,
    rule="json_build_object(" + ", ".join(f"'{name}', r.{name}" for name in MEMBERS) + ")",
    last_success_at=instant_sql("r.last_success_at"),
)


async def put(writer: Writer, tenant_id: str, rules: Mapping[str, Rule | None], if_match: list[int] | None) -> Answer:
    """Set the rules given, and take those away that are None. Raises `PreconditionFailed`."""
    given = {kind: rule for kind, rule in rules.items() if rule is not None}
    columns = {name: [getattr(rule, name) for rule in given.values()] for name in MEMBERS}
    return await decided(
        writer,
        _SQL["put"],
        _why(writer, tenant_id, if_match),
        tenant_id=tenant_id,
        if_match=if_match,
        kinds=list(given),
        removed=[kind for kind, rule in rules.items() if rule is None],
        all_kinds=list(KINDS),
        would_leave=None,
        **columns,
    )


async def try_out(
    writer: Writer, tenant_id: str, rules: Mapping[str, Rule | None], if_match: list[int] | None
) -> Answer:
    """The rules as they are, with how many would leave by those given, and nothing changed.

    Raises `PreconditionFailed`.
    """
    counts: dict[str, int] = {}
    for kind, rule in rules.items():
        counts |= await count(writer, tenant_id, KINDS[kind], rule)
    return await decided(
        writer,
        _SQL["get"],
        _why(writer, tenant_id, if_match),
        tenant_id=tenant_id,
        if_match=if_match,
        all_kinds=list(KINDS),
        would_leave=json.dumps(counts).encode(),
    )


async def get(reader: Reader, tenant_id: str) -> Answer:
    """Every kind with its rule."""
    row = await reader.row(
        _SQL["get"].answering, tenant_id=tenant_id, if_match=None, all_kinds=list(KINDS), would_leave=None
    )
    assert row is not None
    return Answer(200, row["body"], row["etag"])


async def begin(writer: Writer, tenant_id: str, kinds: list[str] | None, *, dry_run: bool) -> Answer:
    """A job that follows the rules of these kinds now, or of all that have one: 202."""
    wanted = list(await rules(writer, tenant_id)) if kinds is None else kinds
    return await jobs.create(
        writer, tenant_id, RUN_KIND, {"kinds": [kind for kind in KINDS if kind in wanted], "dry_run": dry_run}
    )


async def begin_runs(writer: Reader, pause_seconds: float, limit: int) -> int:
    """A job for each tenant that has a rule and no run under way or begun within the pause; how many."""
    return len(await writer.rows(_SQL["begin_runs"], pause_seconds=pause_seconds, limit=limit))


async def rules(reader: Reader, tenant_id: str) -> dict[str, Rule]:
    """The rules of a tenant, by kind."""
    found = await reader.rows(_SQL["rules"], tenant_id=tenant_id)
    return {row["kind"]: Rule(**{name: row[name] for name in MEMBERS}) for row in found}


async def succeeded(writer: Reader, tenant_id: str, kind: str, counts: dict[str, int]) -> None:
    """Write down that a kind was followed to its end, and what left."""
    await writer.rows(_SQL["succeeded"], tenant_id=tenant_id, kind=kind, counts=json.dumps(counts).encode())


async def failed(writer: Reader, tenant_id: str, kind: str, error: str) -> None:
    """Write down why a kind was not followed to its end."""
    await writer.rows(_SQL["failed"], tenant_id=tenant_id, kind=kind, error=error)


async def forget_runs(writer: Reader, tenant_id: str, job_id: str) -> None:
    """Remove the jobs that the timetable began before this one, as far as they are completed."""
    await writer.rows(_SQL["forget_runs"], tenant_id=tenant_id, id=job_id)


async def followed_at(reader: Reader) -> float | None:
    """When the rules of every tenant were last followed to their end, in seconds of the epoch; None without rules."""
    row = await reader.row(_SQL["followed_at"])
    return None if row is None or row["at"] is None else float(row["at"])


def rule_of(kind: str, given: Mapping[str, Any]) -> Rule:
    """A rule from what a client gave of it. Raises `InvalidInput` for a member that means nothing for the kind."""
    switches = KINDS[kind].switches
    for name, value in given.items():
        if name != "max_age_days" and name not in switches and value:
            raise invalid(f"/kinds/{kind}/{name}", f"means nothing for {kind}")
    best, pinned = given.get("keep_best"), given.get("keep_pinned")
    return Rule(
        given.get("max_age_days"),
        given.get("keep_latest"),
        keep_pinned="keep_pinned" in switches and pinned is not False,
        keep_best="keep_best" in switches and best is not False,
        keep_failed=bool(given.get("keep_failed")),
    )


def _why(reader: Reader, tenant_id: str, if_match: list[int] | None) -> Any:
    async def why() -> None:
        row = await reader.row(_SQL["revision"], tenant_id=tenant_id)
        assert row is not None
        if if_match is not None and row["revision"] not in if_match:
            raise changed("policy of retention", row["revision"])

    return why
