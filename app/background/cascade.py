"""The job `workflow.delete`: a workflow with everything that belongs to it, in bounded steps, children first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.db.database import Transaction
from app.db.sql import load
from app.errors import Conflict
from app.evolution.generation_store import GENERATION
from app.jobs.store import Claimed, Standing, Step
from app.versions import store as versions

# What one step may remove: rows below invocations; invocations, versions, or names of best versions.
ROWS_MAX = 2000
PARENTS_MAX = 100
BELOW_INVOCATIONS = (
    *("artifact_references", "contexts", "checkpoints", "messages", "evaluations", "actions"),
    "node_invocations",
)
WITH_VERSIONS = ("node_memories", "node_versions", "version_io", "versions")

_SQL = load(__file__, generation=GENERATION.json("g"))


class WorkflowInUse(Conflict):
    """Something that stays refers to what would be deleted."""

    code, title = "workflow_in_use", "Something that stays refers to this workflow"


async def delete_workflow(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
    """One step. The phase is remembered, and what is gone is gone, so a resumed job does nothing twice.

    Raises `WorkflowInUse`, before anything is deleted, where other workflows' versions or invocations descend from
    this one's. Generations that name one of its versions as their best name none from then on.
    """
    key = {"tenant_id": job.tenant_id, "workflow_id": standing.arguments["workflow_id"]}
    phase = (standing.resume_from or {}).get("phase", "check")
    match phase:
        case "check":
            return await _check(transaction, key)
        case "invocations":
            return await _invocations(transaction, key)
        case "generations":
            return await _generations(transaction, key)
        case "versions":
            return await _versions(transaction, key)
        case _:
            return await _workflow(transaction, key)


async def _check(transaction: Transaction, key: dict[str, str]) -> Step:
    await _refuse_if_used(transaction, key)
    counted = await transaction.row(_SQL["count"], **key)
    assert counted is not None
    return Step({"phase": "invocations"}, total=counted["total"])


async def _refuse_if_used(transaction: Transaction, key: dict[str, str]) -> None:
    for name, what in (
        ("foreign_versions", "versions of other workflows descend from this one's"),
        ("foreign_invocations", "invocations of other workflows were started by this one's"),
    ):
        found = await transaction.rows(_SQL[name], **key)
        if found:
            raise WorkflowInUse(
                f"Nothing more was deleted: {what}.", referring_ids=[row["id"] for row in found], referred_by=name
            )


async def _invocations(transaction: Transaction, key: dict[str, str]) -> Step:
    """The newest invocations: first what is below them, many rows a step, then they themselves."""
    ids = await _going(transaction, key, "invocations")
    if not ids:
        return Step({"phase": "generations"})
    counts, whole = await remove_invocations(transaction, key["tenant_id"], ids, ROWS_MAX)
    return Step({"phase": "invocations"}, counts.get("invocations", 0) if whole else 0, counts)


async def remove_invocations(
    transaction: Transaction, tenant_id: str, ids: list[str], rows_max: int
) -> tuple[dict[str, int], bool]:
    """Remove invocations that the transaction has locked, and that none of others descends from, children first.

    At most `rows_max` rows below them: what went, by table, and whether they are gone with it. Call it again if not.
    """
    key = {"tenant_id": tenant_id, "ids": ids}
    counts: dict[str, int] = {}
    left = rows_max
    for table in BELOW_INVOCATIONS:
        counts[table] = await _removed(transaction, f"delete_{table}", **key, limit=left)
        left -= counts[table]
        if left <= 0:
            return counts, False
    below = await transaction.row(_SQL["are_below_invocations"], **key)
    if below is not None and below["any_is"]:
        return counts, False
    counts["invocations"] = await _removed(transaction, "delete_invocations", **key)
    return counts, True


async def _generations(transaction: Transaction, key: dict[str, str]) -> Step:
    """Take the names of best versions away; a completion stays as it was otherwise, so nobody else can."""
    forgotten = await _removed(transaction, "forget_best", **key, limit=PARENTS_MAX)
    if not forgotten:
        return Step({"phase": "versions"})
    return Step({"phase": "generations"}, counts={"best_of_generations": forgotten})


async def _versions(transaction: Transaction, key: dict[str, str]) -> Step:
    """The newest versions, with their nodes, memories, inputs and outputs."""
    ids = await _going(transaction, key, "versions")
    if not ids:
        return Step({"phase": "workflow"})
    if await transaction.rows(_SQL["invocations_of"], tenant_id=key["tenant_id"], ids=ids):
        # Somebody ran them meanwhile; from here on their lock keeps others from it.
        return Step({"phase": "invocations"})
    if await transaction.rows(_SQL["best_of_generations"], tenant_id=key["tenant_id"], ids=ids):
        return Step({"phase": "generations"})
    counts = await remove_versions(transaction, key["tenant_id"], ids)
    return Step({"phase": "versions"}, counts["versions"], counts, moved=(versions.key_of(key["tenant_id"]),))


async def remove_versions(
    transaction: Transaction, tenant_id: str, ids: list[str], tables: Iterable[str] = WITH_VERSIONS
) -> dict[str, int]:
    """Remove versions that the transaction has locked and nothing refers to, or what is below them; what, by table."""
    key = {"tenant_id": tenant_id, "ids": ids}
    return {table: await _removed(transaction, f"delete_{table}", **key) for table in tables}


async def _workflow(transaction: Transaction, key: dict[str, str]) -> Step:
    await transaction.row(_SQL["lock_workflow"], **key)
    found = await transaction.row(_SQL["is_busy"], **key)
    if found is not None and found["busy"]:
        # Somebody added to it meanwhile.
        return Step({"phase": "invocations"})
    counts = {"workflows": await _removed(transaction, "delete_workflow", **key)}
    return Step({"phase": "done"}, counts["workflows"], counts, finished=True)


async def _going(transaction: Transaction, key: dict[str, str], table: str) -> list[str]:
    """Rows that can go now, locked: the newest whose children go with them, else some without any children."""
    newest = await transaction.rows(_SQL[f"newest_{table}"], **key, limit=PARENTS_MAX)
    ids = [row["id"] for row in newest]
    children = await transaction.rows(_SQL[f"children_of_{table}"], tenant_id=key["tenant_id"], ids=ids)
    whole = without_parents_of_others(ids, [(row["parent_id"], row["id"]) for row in children])
    if ids and not whole:
        childless = await transaction.rows(_SQL[f"childless_{table}"], **key, limit=PARENTS_MAX)
        whole = [row["id"] for row in childless]
        if not whole:
            await _refuse_if_used(transaction, key)
            raise WorkflowInUse(f"Nothing more was deleted: its {table} descend from one another in a circle.")
    return whole


async def _removed(transaction: Transaction, name: str, **arguments: Any) -> int:
    row = await transaction.row(_SQL[name], **arguments)
    return int(row["removed"]) if row is not None else 0


def without_parents_of_others(ids: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """The ids that can go at once: none of them is the parent of one that stays. `edges` are (parent, child)."""
    going = set(ids)
    pending = list(edges)
    while True:
        staying = {parent for parent, child in pending if parent in going and child not in going}
        if not staying:
            return sorted(going)
        going -= staying
