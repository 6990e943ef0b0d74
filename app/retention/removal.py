"""How rows leave: a bounded number in one transaction, each with all that belongs to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.background.cascade import WITH_VERSIONS, remove_invocations, remove_versions
from app.bus.hints import Key
from app.contents import store as contents
from app.conversations.store import CONVERSATION
from app.db.database import Reader, Transaction
from app.db.sql import Statement, load
from app.evolution.generation_store import GENERATION
from app.retention.kind import CUTOFF, PAGE_MAX, Kind, Rule, pinned
from app.retention.kinds import (
    BACKUPS,
    CONVERSATIONS,
    DESCENDED,
    EVENTS,
    EVOLUTION_RUNS,
    INVOCATIONS,
    VERSIONS,
)
from app.versions import store as versions
from app.versions.store import VERSION

# One thing leaves whole in one transaction up to so many rows below it; a larger one in several, and is then seen cut.
WHOLE_MAX = 50_000
# So many files are deleted after one transaction.
FILES_MAX = 20
# So many are weighed in one statement.
WEIGHED_MAX = 50
FIRST = ("-infinity", "")
# After the last row of a kind.
LAST = "infinity"

_SQL = load(
    __file__,
    "removal_queries.sql",
    conversation=CONVERSATION.json("c"),
    version=VERSION.json("v"),
    generation=GENERATION.json("g"),
    descended=DESCENDED,
    cutoff=CUTOFF,
    pinned=pinned("conversation", "s.path"),
)
Counts = dict[str, int]


@dataclass(frozen=True)
class Batch:
    """What left, by table; after which place to go on, and how many rows to look at then. None: there is no more."""

    counts: Counts = field(default_factory=dict)
    after: tuple[str, str] | None = None
    page: int = PAGE_MAX
    moved: Sequence[Key] = ()
    # Ids of backups whose files are to be deleted once this is committed.
    files: Sequence[str] = ()


async def remove_batch(
    transaction: Transaction,
    tenant_id: str,
    kind: Kind,
    rule: Rule,
    after: tuple[str, str] = FIRST,
    page: int = PAGE_MAX,
    rows_max: int = 500,
) -> Batch:
    """Remove the next that the rule lets go: at most `rows_max` rows, or one thing with all that is its own."""
    if kind is EVENTS:
        return await _events(transaction, tenant_id, rule, page, rows_max)
    key = {"tenant_id": tenant_id, **rule.arguments()}
    limit = min(page, PAGE_MAX if kind in WEIGHED else rows_max, FILES_MAX if kind is BACKUPS else PAGE_MAX)
    found = await transaction.row(kind.page, **key, after=after[0], after_tie=after[1], limit=limit)
    assert found is not None
    if found["last"] is None:
        return await _lone_checkpoints(transaction, key, after, page, rows_max) if kind is CONVERSATIONS else Batch()
    going = await _still_going(transaction, kind, key, found["keys"])
    chosen = await _chosen(transaction, tenant_id, kind, [row["key"] for row in going], rows_max)
    counts, whole = await REMOVERS[kind.name](transaction, tenant_id, chosen, rows_max) if chosen else ({}, True)
    if not whole:
        return Batch(counts, after, page)
    # Processes remember versions.
    moved = (versions.key_of(tenant_id),) if chosen and kind is VERSIONS else ()
    files = tuple(chosen) if kind is BACKUPS else ()
    if len(chosen) < len(going):
        last = going[len(chosen) - 1]
        return Batch(counts, (last["at"], last["tie"]), max(20, 2 * len(chosen)), moved)
    return Batch(counts, (found["last"][0], found["last"][1]), min(PAGE_MAX, 2 * page), moved, files)


async def _still_going(transaction: Transaction, kind: Kind, key: dict[str, Any], keys: Sequence[Any]) -> list[Any]:
    """Those of the locked rows that are to leave by what is there now."""
    if not keys:
        return []
    if kind.locks is not None:
        await transaction.rows(kind.locks, tenant_id=key["tenant_id"], keys=keys)
    return await transaction.rows(kind.check, **key, keys=keys)


async def _chosen(
    transaction: Transaction, tenant_id: str, kind: Kind, keys: Sequence[Any], rows_max: int
) -> Sequence[Any]:
    """The first of them that have no more rows than that with what is below them; one at least."""
    if kind not in WEIGHED:
        return keys
    total, chosen = 0, 0
    for first in range(0, len(keys), WEIGHED_MAX):
        some = keys[first : first + WEIGHED_MAX]
        weighed = await transaction.rows(
            _SQL[f"weigh_{kind.name}"], tenant_id=tenant_id, keys=list(some), most=rows_max
        )
        for row in weighed:
            total += row["weight"] + 1
            if total > rows_max and chosen:
                return keys[:chosen]
            chosen += 1
    return keys


async def _invocations(
    transaction: Transaction, tenant_id: str, keys: Sequence[str], rows_max: int
) -> tuple[Counts, bool]:
    counts: Counts = {}
    while True:
        removed, whole = await remove_invocations(transaction, tenant_id, list(keys), rows_max)
        _add(counts, removed)
        if whole or sum(counts.values()) >= WHOLE_MAX:
            return counts, whole


async def _conversations(
    transaction: Transaction, tenant_id: str, keys: Sequence[int], rows_max: int
) -> tuple[Counts, bool]:
    key = {"tenant_id": tenant_id, "keys": list(keys)}
    counts: Counts = {"conversation_batches": 0, "attachments": 0}
    while True:
        batches = await _count(transaction, "delete_conversation_batches", **key, most=rows_max)
        attachments = await transaction.rows(_SQL["delete_attachments"], **key, most=rows_max)
        await contents.remove(transaction, tenant_id, [row["content_number"] for row in attachments])
        _add(counts, {"conversation_batches": batches, "attachments": len(attachments)})
        if batches < rows_max and len(attachments) < rows_max:
            break
        if sum(counts.values()) >= WHOLE_MAX:
            return counts, False
    row = await transaction.row(_SQL["delete_conversations"], **key)
    assert row is not None
    return {**counts, "conversations": row["n"], "conversation_checkpoints": row["checkpoints"]}, True


async def _lone_checkpoints(
    transaction: Transaction, key: dict[str, Any], after: tuple[str, str], page: int, rows_max: int
) -> Batch:
    """Those of paths without a conversation, once every conversation was looked at."""
    number = int(after[1]) if after[0] == LAST else 0
    limit = min(page, rows_max, PAGE_MAX)
    row = await transaction.row(_SQL["delete_lone_checkpoints"], **key, after=number, limit=limit)
    assert row is not None
    place = None if row["last"] is None else (LAST, str(row["last"]))
    return Batch({"conversation_checkpoints": row["n"]}, place, min(PAGE_MAX, 2 * page))


async def _evolution_runs(
    transaction: Transaction, tenant_id: str, keys: Sequence[str], rows_max: int
) -> tuple[Counts, bool]:
    key = {"tenant_id": tenant_id, "keys": list(keys)}
    counts: Counts = {}
    for table in ("generation_members", "generations"):
        while True:
            removed = await _count(transaction, f"delete_{table}", **key, most=rows_max)
            _add(counts, {table: removed})
            if removed < rows_max:
                break
            if sum(counts.values()) >= WHOLE_MAX:
                return counts, False
    row = await transaction.row(_SQL["delete_evolution_runs"], **key)
    assert row is not None
    return {**counts, "evolution_runs": row["n"], "run_checkpoints": row["checkpoints"]}, True


async def _submissions(
    transaction: Transaction, tenant_id: str, keys: Sequence[str], _rows_max: int
) -> tuple[Counts, bool]:
    row = await transaction.row(_SQL["delete_submissions"], tenant_id=tenant_id, keys=list(keys))
    assert row is not None
    empty = await transaction.rows(_SQL["lock_empty_sessions"], tenant_id=tenant_id, keys=row["sessions"])
    numbers = [one["number"] for one in empty]
    sessions = await _count(transaction, "delete_submission_sessions", tenant_id=tenant_id, keys=numbers)
    return {"submissions": row["n"], "attempt_markers": row["markers"], "submission_sessions": sessions}, True


async def _deliveries(
    transaction: Transaction, tenant_id: str, keys: Sequence[str], _rows_max: int
) -> tuple[Counts, bool]:
    key = {"tenant_id": tenant_id, "keys": list(keys)}
    attempts = await _counted(transaction, ATTEMPTS_OF_DELIVERIES, **key)
    return {
        "webhook_attempts": attempts,
        "webhook_deliveries": await _counted(transaction, DELIVERIES_THEMSELVES, **key),
    }, True


async def _versions(
    transaction: Transaction, tenant_id: str, keys: Sequence[str], _rows_max: int
) -> tuple[Counts, bool]:
    """Those that others descend from lose their content alone. The locks of all keep a child from coming meanwhile.

    Memberships in generations go with a version. Where it is the best of one that somebody changes now, it stays.
    """
    rows = await transaction.rows(_SQL["childless_versions"], tenant_id=tenant_id, keys=list(keys))
    childless = [row["id"] for row in rows]
    others = sorted(set(keys) - set(childless))
    named = await transaction.rows(_SQL["generations_of_best"], tenant_id=tenant_id, keys=childless)
    forgotten = await _count(transaction, "forget_best", tenant_id=tenant_id, ids=[row["id"] for row in named])
    unnamed = await transaction.rows(_SQL["unnamed_versions"], tenant_id=tenant_id, keys=childless)
    counts = await remove_versions(transaction, tenant_id, [row["id"] for row in unnamed])
    _add(counts, await remove_versions(transaction, tenant_id, others, WITH_VERSIONS[:-1]))
    return {
        **counts,
        "best_of_generations": forgotten,
        "pruned_versions": await _count(transaction, "prune_versions", tenant_id=tenant_id, keys=others),
    }, True


def _plain(table: str) -> Remover:
    """Rows with nothing below them, and of which no event tells."""
    statement = _of(table)

    async def remove(
        transaction: Transaction, tenant_id: str, keys: Sequence[str], _rows_max: int
    ) -> tuple[Counts, bool]:
        return {table: await _counted(transaction, statement, tenant_id=tenant_id, keys=list(keys))}, True

    return remove


def _of(table: str, column: str = "id") -> Statement:
    return Statement(
        f"WITH gone AS (DELETE FROM {table} WHERE tenant_id = :tenant_id AND {column} = ANY (CAST(:keys AS text[]))"
        " RETURNING 1) SELECT count(*) AS n FROM gone",
        f"delete_{table}",
    )


async def _events(transaction: Transaction, tenant_id: str, rule: Rule, page: int, rows_max: int) -> Batch:
    limit = min(page, rows_max, PAGE_MAX)
    removed = await _count(
        transaction, "delete_events", tenant_id=tenant_id, max_age_days=rule.max_age_days, limit=limit
    )
    return Batch({"events": removed}, FIRST if removed == limit else None, min(PAGE_MAX, 2 * page))


async def count(reader: Reader, tenant_id: str, kind: Kind, rule: Rule | None) -> Counts:
    """How many of a kind the rule would let go now, by the names that a run counts them by; 0 of the kind if none."""
    if rule is None or rule.max_age_days is None:
        return {kind.name: 0}
    statement = _SQL["count_events"] if kind is EVENTS else kind.count
    row = await reader.row(statement, tenant_id=tenant_id, **rule.arguments())
    assert row is not None
    counts = {kind.name: int(row["n"])}
    return {**counts, kind.prunes[0]: int(row["pruned"])} if kind.prunes is not None and row["pruned"] else counts


async def _count(transaction: Transaction, name: str, **arguments: Any) -> int:
    return await _counted(transaction, _SQL[name], **arguments)


async def _counted(transaction: Transaction, statement: Statement, **arguments: Any) -> int:
    row = await transaction.row(statement, **arguments)
    return int(row["n"]) if row is not None else 0


def _add(counts: Counts, more: Counts) -> None:
    for name, n in more.items():
        counts[name] = counts.get(name, 0) + n


ATTEMPTS_OF_DELIVERIES, DELIVERIES_THEMSELVES = _of("webhook_attempts", "delivery_id"), _of("webhook_deliveries")
# Of these a thing may have many rows below it.
WEIGHED = (INVOCATIONS, VERSIONS, EVOLUTION_RUNS, CONVERSATIONS)
Remover = Callable[[Transaction, str, Sequence[Any], int], Awaitable[tuple[Counts, bool]]]
REMOVERS: dict[str, Remover] = {
    "dead_letters": _plain("dead_letters"),
    "webhook_deliveries": _deliveries,
    "invocations": _invocations,
    "versions": _versions,
    "evolution_runs": _evolution_runs,
    "submissions": _submissions,
    "conversations": _conversations,
    "sessions": _plain("sessions"),
    "backups": _plain("backups"),
    "jobs": _plain("jobs"),
}
