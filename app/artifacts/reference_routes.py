"""References to artifacts over HTTP."""

from __future__ import annotations

from app.artifacts import reference_store as references
from app.artifacts.errors import ArtifactNotFound, ArtifactReferenceNotFound
from app.artifacts.reference_schemas import Reference, ReferenceFields, ReferenceList, ReferencePage
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound

routes = Routes("artifacts")


@routes.put(
    "/v1/invocations/{invocation_id}/artifacts/{name}",
    scope="artifacts:write",
    response_model=Reference,
    status_code=201,
    errors=(InvocationNotFound, ArtifactNotFound),
)
async def refer_to_artifact(call: Call, invocation_id: str, name: str, body: ReferenceFields) -> Answer:
    """Have a name of an invocation stand for an artifact: 201, or 200 where it stood for one; what it said is replaced.

    An artifact that a name stands for is not collected.
    """
    return await references.put(
        call.writer, call.tenant_id, invocation_id, name, body.given(), call.if_match, may_create=call.may_create
    )


@routes.get(
    "/v1/invocations/{invocation_id}/artifacts/{name}",
    scope="artifacts:read",
    response_model=Reference,
    errors=(ArtifactReferenceNotFound,),
)
async def get_artifact_reference(call: Call, invocation_id: str, name: str) -> Answer:
    """Which artifact a name of an invocation stands for; its bytes are at `/v1/artifacts/{hash}`."""
    return await references.get(call.reader, call.tenant_id, invocation_id, name)


@routes.delete(
    "/v1/invocations/{invocation_id}/artifacts/{name}",
    scope="artifacts:write",
    status_code=204,
    errors=(ArtifactReferenceNotFound,),
)
async def delete_artifact_reference(call: Call, invocation_id: str, name: str) -> Answer:
    """Take a name away. The artifact is collected after the grace period, unless something else refers to it."""
    return await references.delete(call.writer, call.tenant_id, invocation_id, name, call.if_match)


@routes.get(
    "/v1/invocations/{invocation_id}/artifacts",
    scope="artifacts:read",
    response_model=ReferencePage,
    errors=(InvocationNotFound,),
)
async def list_artifact_references(call: Call, invocation_id: str, query: ReferenceList) -> Answer:
    """The artifacts of an invocation, by name."""
    return await page(
        call,
        references.REFERENCES,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )
