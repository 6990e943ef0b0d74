"""Workflows over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.errors import invalid
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.jobs import store as jobs
from app.jobs.schemas import Job
from app.workflows import store
from app.workflows.errors import WorkflowConflict, WorkflowNotEmpty, WorkflowNotFound
from app.workflows.schemas import DeleteQuery, NewWorkflow, Workflow, WorkflowFields, WorkflowList, WorkflowPage

routes = Routes("workflows")


@routes.post(
    "/v1/workflows", scope="workflows:write", response_model=Workflow, status_code=201, errors=(WorkflowConflict,)
)
async def create_workflow(call: Call, body: NewWorkflow) -> Answer:
    """Create a workflow. The same id with the same fields answers 200 with the workflow as it now is."""
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.put("/v1/workflows/{workflow_id}", scope="workflows:write", response_model=Workflow, status_code=201)
async def ensure_workflow(call: Call, workflow_id: str, body: WorkflowFields) -> Answer:
    """Ensure that a workflow exists: create it (201), or update the fields given (200)."""
    return await store.ensure(
        call.writer, call.tenant_id, workflow_id, body.given(), call.if_match, may_create=call.may_create
    )


@routes.get("/v1/workflows/{workflow_id}", scope="workflows:read", response_model=Workflow, errors=(WorkflowNotFound,))
async def get_workflow(call: Call, workflow_id: str) -> Answer:
    """A workflow, with the number of its versions and the newest of them."""
    return await store.get(call.reader, call.tenant_id, workflow_id)


@routes.get("/v1/workflows", scope="workflows:read", response_model=WorkflowPage)
async def list_workflows(call: Call, query: WorkflowList) -> Answer:
    """The workflows of this tenant, the last changed first."""
    return await page(call, store.WORKFLOWS, query)


@routes.patch(
    "/v1/workflows/{workflow_id}", scope="workflows:write", response_model=Workflow, errors=(WorkflowNotFound,)
)
async def patch_workflow(call: Call, workflow_id: str, body: WorkflowFields) -> Answer:
    """Update the fields given; `If-Match` refuses when the workflow has changed meanwhile."""
    return await store.patch(call.writer, call.tenant_id, workflow_id, body.given(), call.if_match)


@routes.delete(
    "/v1/workflows/{workflow_id}",
    scope="workflows:write",
    status_code=204,
    transactional=True,
    errors=(WorkflowNotFound, WorkflowNotEmpty),
    responses={202: {"model": Job, "description": "The job that deletes it, with `cascade=true`"}},
)
async def delete_workflow(call: Call, workflow_id: str, query: DeleteQuery) -> Answer:
    """Delete a workflow that has no versions, or, with `cascade=true`, all that belongs to it, as a job (202).

    The job fails before anything is deleted where other workflows descend from this one's versions. Generations
    that had one as a member or as their best version have it no longer.
    """
    if not query.cascade:
        return await store.delete(call.writer, call.tenant_id, workflow_id, call.if_match)
    if call.batched:
        raise invalid("cascade", "is not possible inside a batch: it is a job")
    await store.lock(call.writer, call.tenant_id, workflow_id, call.if_match)
    return await jobs.create(call.writer, call.tenant_id, store.DELETE_KIND, {"workflow_id": workflow_id})
