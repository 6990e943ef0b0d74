"""Workflows in SQL."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import new_id
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, computed, instant
from app.db.sql import load
from app.errors import changed
from app.workflows.errors import WorkflowConflict, WorkflowNotEmpty, WorkflowNotFound

# The kind of the job that deletes a workflow with everything that belongs to it.
DELETE_KIND = "workflow.delete"
FIELDS = ("name", "description", "owner_id", "metadata")

WORKFLOW = Shape(
    "id",
    "name",
    "description",
    "owner_id",
    "metadata",
    computed(
        "version_count",
        "(SELECT count(*) FROM versions AS v WHERE v.tenant_id = {t}.tenant_id AND v.workflow_id = {t}.id)",
    ),
    computed(
        "latest_version_id",
        "(SELECT v.id FROM versions AS v WHERE v.tenant_id = {t}.tenant_id AND v.workflow_id = {t}.id"
        " ORDER BY v.created_at DESC, v.id DESC LIMIT 1)",
    ),
    instant("created_at"),
    instant("updated_at"),
)

WORKFLOWS = Listing(
    "workflows",
    "workflows AS t",
    WORKFLOW,
    sorts={
        "updated_at": Sort("{t}.updated_at", "timestamptz"),
        "created_at": Sort("{t}.created_at", "timestamptz"),
    },
    default=("updated_at", "desc"),
    filters={
        "owner_id": "t.owner_id = :owner_id",
        "q": "(position(lower(:q) IN lower(t.name)) > 0 OR position(lower(:q) IN lower(t.description)) > 0)",
    },
)

_SQL = load(__file__, workflow=WORKFLOW.json("w"))


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: given.get(name) for name in FIELDS}
    found.update({f"set_{name}": name in given for name in FIELDS})
    return found


async def create(writer: Writer, tenant_id: str, given: dict[str, Any]) -> Answer:
    """Create a workflow: 201, or 200 with the row as it now is when it was created with the same fields.

    Raises `WorkflowConflict` where the id belongs to a workflow created with other fields.
    """
    fields = {**given, "id": given.get("id") or new_id("wf")}
    digest = digest_of(fields)

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=fields["id"])
        if stored is not None and stored["digest"] != digest:
            raise WorkflowConflict("A workflow with this id was created with other fields.", id=fields["id"])

    return await decided(
        writer, _SQL["create"], why, tenant_id=tenant_id, id=fields["id"], digest=digest, **_arguments(given)
    )


async def ensure(
    writer: Writer,
    tenant_id: str,
    workflow_id: str,
    given: dict[str, Any],
    if_match: list[int] | None,
    *,
    may_create: bool,
) -> Answer:
    """Create the workflow if that is allowed, or update the fields given. Raises `PreconditionFailed`."""
    digest = digest_of({**given, "id": workflow_id})

    async def why() -> None:
        if not may_create:
            stored = await writer.row(_SQL["get"], tenant_id=tenant_id, id=workflow_id)
            raise changed("workflow", None if stored is None else stored["revision"])

    arguments = {"digest": digest, "if_match": if_match, "may_create": may_create, **_arguments(given)}
    return await decided(writer, _SQL["ensure"], why, tenant_id=tenant_id, id=workflow_id, **arguments)


async def patch(
    writer: Writer, tenant_id: str, workflow_id: str, given: dict[str, Any], if_match: list[int] | None
) -> Answer:
    """Update the fields given. Raises `WorkflowNotFound`, `PreconditionFailed`."""
    answer = await writer.answer(
        _SQL["patch"], tenant_id=tenant_id, id=workflow_id, if_match=if_match, **_arguments(given)
    )
    if answer is None:
        current = await get(writer, tenant_id, workflow_id)
        raise changed("workflow", current.etag)
    return answer


async def lock(writer: Writer, tenant_id: str, workflow_id: str, if_match: list[int] | None) -> None:
    """Hold the workflow to the end of the transaction. Raises `WorkflowNotFound`, `PreconditionFailed`."""
    locked = await writer.row(_SQL["lock"], tenant_id=tenant_id, id=workflow_id)
    if locked is None:
        raise WorkflowNotFound("There is no such workflow.", id=workflow_id)
    if if_match is not None and locked["revision"] not in if_match:
        raise changed("workflow", locked["revision"])


async def delete(writer: Writer, tenant_id: str, workflow_id: str, if_match: list[int] | None) -> Answer:
    """Delete a workflow without versions; in a transaction. Raises `WorkflowNotFound`, `WorkflowNotEmpty`."""
    await lock(writer, tenant_id, workflow_id, if_match)
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, id=workflow_id, if_match=if_match)
    if answer is None:
        raise WorkflowNotEmpty("The workflow has versions; `?cascade=true` deletes them with it.", id=workflow_id)
    return answer


async def get(reader: Reader, tenant_id: str, workflow_id: str) -> Answer:
    """The workflow. Raises `WorkflowNotFound`."""
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, id=workflow_id)
    if row is None:
        raise WorkflowNotFound("There is no such workflow.", id=workflow_id)
    return Answer(200, row["body"], row["revision"])
