"""Checkpoints over HTTP, and resuming from them."""

from __future__ import annotations

from app.checkpoints import store
from app.checkpoints.errors import CheckpointConflict, CheckpointNotFound
from app.checkpoints.schemas import (
    Checkpoint,
    CheckpointList,
    CheckpointPage,
    LatestQuery,
    NewCheckpoint,
    Resumption,
)
from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.invocations import store as invocations
from app.invocations.errors import InvocationEnded, InvocationNotFound

routes = Routes("checkpoints")
KEY = ("number", "bigint")
INCLUDING = Including(store.CHECKPOINT, "checkpoints AS t", ("invocation_id",), key=KEY)
RESUMING = Including(store.CHECKPOINT, "checkpoints AS t", ("invocation_id",), key=KEY, within="checkpoint")


@routes.post(
    "/v1/invocations/{invocation_id}/checkpoints",
    scope="checkpoints:write",
    including=INCLUDING,
    response_model=Checkpoint,
    status_code=201,
    errors=(InvocationNotFound, CheckpointConflict),
)
async def record_checkpoint(call: Call, invocation_id: str, _query: IncludeQuery, body: NewCheckpoint) -> Answer:
    """Record the state of an invocation; without a `number` under the next one.

    The same number with the same node and state answers 200; with others it is 409, and the first stays.
    """
    return await store.record(call.writer, call.tenant_id, invocation_id, body.given())


@routes.get(
    "/v1/invocations/{invocation_id}/checkpoints",
    scope="checkpoints:read",
    response_model=CheckpointPage,
    errors=(InvocationNotFound,),
)
async def list_checkpoints(call: Call, invocation_id: str, query: CheckpointList) -> Answer:
    """The checkpoints of an invocation, by number."""
    return await page(
        call,
        store.CHECKPOINTS,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.get(
    "/v1/invocations/{invocation_id}/checkpoints/latest",
    scope="checkpoints:read",
    response_model=Checkpoint,
    errors=(InvocationNotFound, CheckpointNotFound),
)
async def get_latest_checkpoint(call: Call, invocation_id: str, query: LatestQuery) -> Answer:
    """The checkpoint with the greatest number, with its state; `node_id` looks at those of one node."""
    include = store.CHECKPOINT.shown(query.include)
    return await store.latest(call.reader, call.tenant_id, invocation_id, query.node_id, include)


@routes.get(
    "/v1/invocations/{invocation_id}/checkpoints/{number}",
    scope="checkpoints:read",
    response_model=Checkpoint,
    errors=(InvocationNotFound, CheckpointNotFound),
)
async def get_checkpoint(call: Call, invocation_id: str, number: str, query: IncludeQuery) -> Answer:
    """A checkpoint with its state, byte for byte."""
    include = store.CHECKPOINT.shown(query.include)
    return await store.get(call.reader, call.tenant_id, invocation_id, number, include)


@routes.post(
    "/v1/invocations/{invocation_id}/resume",
    scope="checkpoints:write",
    including=RESUMING,
    response_model=Resumption,
    errors=(InvocationNotFound, InvocationEnded),
)
async def resume_invocation(call: Call, invocation_id: str, _query: IncludeQuery) -> Answer:
    """Go on with an invocation whose worker went: what is done of it, and where it stood.

    A running invocation goes on running, and this is its sign of life; a queued one starts. What has ended stays
    ended: 409. `include=state` shows the last checkpoint's state. Nodes that were running are left as they are.
    """
    return await store.resume(call.writer, call.tenant_id, invocation_id, call.if_match)


@routes.post(
    "/v1/invocations/{invocation_id}/checkpoints/resume",
    scope="checkpoints:write",
    including=RESUMING,
    response_model=Resumption,
    errors=(InvocationNotFound, InvocationEnded),
)
async def resume_from_checkpoint(call: Call, invocation_id: str, _query: IncludeQuery) -> Answer:
    """The same as `POST /v1/invocations/{invocation_id}/resume`."""
    return await store.resume(call.writer, call.tenant_id, invocation_id, call.if_match)
