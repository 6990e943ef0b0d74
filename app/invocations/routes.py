"""Invocations over HTTP."""

from __future__ import annotations

from app.datasets.errors import DatasetRecordNotFound
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.invocations import listing, store, transitions
from app.invocations.errors import (
    InvocationConflict,
    InvocationEnded,
    InvocationInUse,
    InvocationNotFound,
    InvocationNotStarted,
    ReferenceNotFound,
)
from app.invocations.schemas import (
    Cancel,
    End,
    Invocation,
    InvocationChange,
    InvocationFilter,
    InvocationList,
    InvocationPage,
    InvocationSummary,
    LineagePage,
    LineageQuery,
    NewInvocation,
    Start,
)
from app.versions.errors import GenerationNotFound, VersionIsPruned, VersionNotFound

routes = Routes("invocations")
INCLUDING = Including(store.INVOCATION, "invocations AS t")
LINKS = (GenerationNotFound, ReferenceNotFound, DatasetRecordNotFound)


@routes.post(
    "/v1/invocations",
    scope="invocations:write",
    including=INCLUDING,
    response_model=Invocation,
    status_code=201,
    errors=(VersionNotFound, VersionIsPruned, InvocationNotFound, InvocationConflict, *LINKS),
)
async def create_invocation(call: Call, _query: IncludeQuery, body: NewInvocation) -> Answer:
    """Record an invocation of a version; running unless `status` is queued.

    The same id with the same fields answers 200 with the invocation as it now is.
    """
    return await store.create(call.writer, call.tenant_id, body.given())


@routes.get("/v1/invocations", scope="invocations:read", response_model=InvocationPage)
async def list_invocations(call: Call, query: InvocationList) -> Answer:
    """The invocations of this tenant; every filter, sort and depth costs no more than its page in index order."""
    return await page(call, listing.INVOCATIONS, query, listing.filters(query, query.filters()))


@routes.get("/v1/invocations/summary", scope="invocations:read", response_model=InvocationSummary)
async def summarize_invocations(call: Call, query: InvocationFilter) -> Answer:
    """Counts by status, exact costs, accuracy, percentiles of fitness and duration, over everything that matches."""
    named = {name: getattr(query, name) for name in query.model_fields_set}
    return await listing.summary(call.reader, call.tenant_id, listing.filters(query, named))


@routes.get(
    "/v1/invocations/{invocation_id}",
    scope="invocations:read",
    response_model=Invocation,
    errors=(InvocationNotFound,),
)
async def get_invocation(call: Call, invocation_id: str, query: IncludeQuery) -> Answer:
    """An invocation with its payloads, byte for byte; `include=` names those to show, if not all.

    It may also name `workflow_description`.
    """
    include = store.INVOCATION.verbatim if query.include is None else store.DESCRIBED.included(query.include)
    return await store.get(call.reader, call.tenant_id, invocation_id, include)


@routes.get(
    "/v1/invocations/{invocation_id}/lineage",
    scope="invocations:read",
    response_model=LineagePage,
    errors=(InvocationNotFound,),
)
async def get_invocation_lineage(call: Call, invocation_id: str, query: LineageQuery) -> Answer:
    """What started an invocation and what it started, the root first: parents up to it, itself, children down.

    `depth` is below 0 for its parents, 0 for itself, above 0 for what descends from it. Each invocation comes once,
    also where parents form a circle; there the way up counts.
    """
    return await page(
        call,
        listing.LINEAGE,
        query,
        {"start": invocation_id, "max_depth": query.max_depth},
        if_empty=lambda: store.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.patch(
    "/v1/invocations/{invocation_id}",
    scope="invocations:write",
    including=INCLUDING,
    response_model=Invocation,
    errors=(InvocationNotFound, InvocationEnded, *LINKS),
)
async def patch_invocation(call: Call, invocation_id: str, _query: IncludeQuery, body: InvocationChange) -> Answer:
    """Update the fields given. After the end only results may change: cost, fitness, scores, feedback, metadata …"""
    return await store.patch(call.writer, call.tenant_id, invocation_id, body.given(), call.if_match)


@routes.delete(
    "/v1/invocations/{invocation_id}",
    scope="invocations:write",
    status_code=204,
    transactional=True,
    errors=(InvocationNotFound, InvocationInUse),
)
async def delete_invocation(call: Call, invocation_id: str) -> Answer:
    """Delete an ended invocation with its nodes, actions, messages, checkpoints, contexts and evaluations."""
    return await store.delete(call.writer, call.tenant_id, invocation_id, call.if_match)


@routes.post(
    "/v1/invocations/{invocation_id}/start",
    scope="invocations:write",
    including=INCLUDING,
    response_model=Invocation,
    errors=(InvocationNotFound, InvocationConflict, InvocationEnded),
)
async def start_invocation(call: Call, invocation_id: str, _query: IncludeQuery, body: Start) -> Answer:
    """Start a queued invocation; starting a running one again is the same."""
    return await transitions.start(call.writer, call.tenant_id, invocation_id, body.started_at, call.if_match)


@routes.post(
    "/v1/invocations/{invocation_id}/heartbeat",
    scope="invocations:write",
    response_model=Invocation,
    errors=(InvocationNotFound, InvocationNotStarted, InvocationEnded),
)
async def heartbeat_invocation(call: Call, invocation_id: str) -> Answer:
    """Say that the worker lives. The answer shows `cancel_requested_at`: when it is set, end the invocation."""
    return await transitions.heartbeat(call.writer, call.tenant_id, invocation_id, call.if_match)


@routes.post(
    "/v1/invocations/{invocation_id}/end",
    scope="invocations:write",
    including=INCLUDING,
    response_model=Invocation,
    errors=(InvocationNotFound, InvocationNotStarted, InvocationEnded, ReferenceNotFound),
)
async def end_invocation(call: Call, invocation_id: str, _query: IncludeQuery, body: End) -> Answer:
    """End an invocation with its results. The first terminal state wins; repeating it exactly answers 200."""
    return await transitions.end(call.writer, call.tenant_id, invocation_id, body.given(), call.if_match)


@routes.post(
    "/v1/invocations/{invocation_id}/cancel",
    scope="invocations:write",
    including=INCLUDING,
    response_model=Invocation,
    errors=(InvocationNotFound, InvocationEnded),
)
async def cancel_invocation(call: Call, invocation_id: str, _query: IncludeQuery, body: Cancel) -> Answer:
    """Cancel: a queued invocation at once; a running one is asked to stop, or ended at once with `force`."""
    return await transitions.cancel(call.writer, call.tenant_id, invocation_id, call.if_match, force=body.force)
