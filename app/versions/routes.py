"""Versions over HTTP."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer
from app.errors import PreconditionFailed
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.fields import Verbatim
from app.http.immutable import IMMUTABLE, is_held
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.versions import store
from app.versions.errors import GenerationNotFound, VersionConflict, VersionNotFound, VersionPruned
from app.versions.schemas import (
    CreateQuery,
    NewVersion,
    Version,
    VersionIo,
    VersionList,
    VersionPage,
    WorkflowVersionList,
)
from app.workflows import store as workflows
from app.workflows.errors import WorkflowNotFound

routes = Routes("versions")
INCLUDING = Including(store.VERSION, "versions AS t")
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The caller has it already (`If-None-Match`)."}}


@routes.post(
    "/v1/workflows/{workflow_id}/versions",
    scope="versions:write",
    including=INCLUDING,
    response_model=Version,
    status_code=201,
    transactional=True,
    errors=(VersionConflict, VersionNotFound, WorkflowNotFound, GenerationNotFound),
)
async def create_version(call: Call, workflow_id: str, query: CreateQuery, body: NewVersion) -> Answer:
    """Create a version, with its workflow if that is absent and with its nodes, all in one transaction.

    The id defaults to the SHA-256 of content and ancestry, so creating the same again answers 200 with the stored row.
    """
    answer = await store.create(
        call.writer, call.tenant_id, workflow_id, body.given(), keep=query.on_existing == "keep"
    )
    if answer.moved:
        call.moved.append(store.key_of(call.tenant_id))
    return answer


@routes.get("/v1/versions/latest", scope="versions:read", response_model=Version, errors=(VersionNotFound,))
async def get_latest_version(call: Call, query: IncludeQuery) -> Answer:
    """The newest version of this tenant."""
    return await store.latest(call.reader, call.tenant_id, None, store.VERSION.shown(query.include))


@routes.get(
    "/v1/versions/{version_id}",
    scope="versions:read",
    response_model=Version,
    errors=(VersionNotFound,),
    responses=UNCHANGED,
)
async def get_version(call: Call, version_id: str, query: IncludeQuery) -> Answer:
    """A version with its DSL (`include=` leaves it out). It never changes: `If-None-Match` answers 304."""

    async def load() -> bytes:
        found = await store.get(call.reader, call.tenant_id, version_id, store.VERSION.shown(query.include))
        assert found.body is not None
        return found.body

    # In a batch it is what its snapshot holds.
    if query.include is None and not call.batched:
        body = await call.ground.versions.body(call.tenant_id, version_id, load)
    else:
        body = await load()
    etag = store.etag_of(body)
    return Answer(304, None, etag) if is_held(call, f'"{etag}"') else Answer(200, body, etag)


@routes.get(
    "/v1/versions/{version_id}/dsl",
    scope="versions:read",
    response_model=Any,
    errors=(VersionNotFound, VersionPruned),
    responses=UNCHANGED,
)
async def get_version_dsl(call: Call, version_id: str) -> Answer:
    """The DSL of a version, byte for byte as it was sent; it may be cached for ever."""
    dsl, hashed = await store.dsl(call.reader, call.tenant_id, version_id)
    headers = {"ETag": f'"{hashed}"', **IMMUTABLE}
    return Answer(304, None, headers=headers) if is_held(call, f'"{hashed}"') else Answer(200, dsl, headers=headers)


@routes.get("/v1/versions", scope="versions:read", response_model=VersionPage)
async def list_versions(call: Call, query: VersionList) -> Answer:
    """The versions of this tenant, the newest first."""
    return await page(call, store.VERSIONS, query)


@routes.get(
    "/v1/workflows/{workflow_id}/versions",
    scope="versions:read",
    response_model=VersionPage,
    errors=(WorkflowNotFound,),
)
async def list_workflow_versions(call: Call, workflow_id: str, query: WorkflowVersionList) -> Answer:
    """The versions of a workflow, the newest first."""
    return await page(
        call,
        store.VERSIONS,
        query,
        {**query.filters(), "workflow_id": workflow_id},
        if_empty=lambda: workflows.get(call.reader, call.tenant_id, workflow_id),
    )


@routes.get(
    "/v1/workflows/{workflow_id}/versions/latest",
    scope="versions:read",
    response_model=Version,
    errors=(VersionNotFound, WorkflowNotFound),
)
async def get_latest_workflow_version(call: Call, workflow_id: str, query: IncludeQuery) -> Answer:
    """The newest version of a workflow."""
    include = store.VERSION.shown(query.include)
    try:
        return await store.latest(call.reader, call.tenant_id, workflow_id, include)
    except VersionNotFound:
        await workflows.get(call.reader, call.tenant_id, workflow_id)
        raise


@routes.put(
    "/v1/versions/{version_id}/io",
    scope="versions:write",
    response_model=VersionIo,
    status_code=201,
    errors=(VersionNotFound, PreconditionFailed),
)
async def put_version_io(call: Call, version_id: str, body: Verbatim) -> Answer:
    """Keep the recorded inputs and outputs of a version: any JSON, verbatim; replaces what was there."""
    return await store.put_io(call.writer, call.tenant_id, version_id, body, call.if_match, may_create=call.may_create)


@routes.get("/v1/versions/{version_id}/io", scope="versions:read", response_model=Any, errors=(VersionNotFound,))
async def get_version_io(call: Call, version_id: str) -> Answer:
    """The recorded inputs and outputs of a version, byte for byte."""
    return await store.io(call.reader, call.tenant_id, version_id)
