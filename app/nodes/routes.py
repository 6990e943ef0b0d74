"""Node invocations and their actions over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound
from app.nodes import store
from app.nodes.errors import ActionConflict, NodeInvocationConflict, NodeInvocationEnded, NodeInvocationNotFound
from app.nodes.schemas import (
    Action,
    ActionList,
    ActionPage,
    Actions,
    NewAction,
    NewActions,
    NewNodeInvocation,
    NodeEnd,
    NodeInvocation,
    NodeInvocationList,
    NodeInvocationPage,
    NodeInvocationSearch,
    NodeSummaryPage,
    SummaryList,
)
from app.versions.node_errors import NodeVersionMissing

routes = Routes("nodes")
OUTPUT = Including(store.NODE, "node_invocations AS t", ("invocation_id",))
PAYLOADS = Including(store.ACTION, "actions AS t", ("invocation_id", "node_invocation_id"))


@routes.post(
    "/v1/invocations/{invocation_id}/nodes",
    scope="nodes:write",
    including=OUTPUT,
    response_model=NodeInvocation,
    status_code=201,
    errors=(InvocationNotFound, NodeVersionMissing, NodeInvocationConflict),
)
async def start_node(call: Call, invocation_id: str, _query: IncludeQuery, body: NewNodeInvocation) -> Answer:
    """Start a node, linked to the newest revision of that node in the invocation's version.

    With a terminal `status` the run is recorded in one call. The same id with the same fields answers 200 with the row
    as it now is. A record that arrives after its invocation ended is kept all the same: the record must not lose data.
    """
    return await store.start(call.writer, call.tenant_id, invocation_id, body.given())


@routes.post(
    "/v1/invocations/{invocation_id}/nodes/{node_invocation_id}/end",
    scope="nodes:write",
    including=OUTPUT,
    response_model=NodeInvocation,
    errors=(NodeInvocationNotFound, NodeInvocationEnded),
)
async def end_node(
    call: Call, invocation_id: str, node_invocation_id: str, _query: IncludeQuery, body: NodeEnd
) -> Answer:
    """End a node with its results. The first end wins, and exactly the same again answers 200."""
    return await store.end(call.writer, call.tenant_id, invocation_id, node_invocation_id, body.given(), call.if_match)


@routes.get(
    "/v1/invocations/{invocation_id}/nodes/{node_invocation_id}",
    scope="nodes:read",
    response_model=NodeInvocation,
    errors=(NodeInvocationNotFound,),
)
async def get_node(call: Call, invocation_id: str, node_invocation_id: str, query: IncludeQuery) -> Answer:
    """A node invocation with its output, byte for byte."""
    include = store.NODE.shown(query.include)
    return await store.get(call.reader, call.tenant_id, invocation_id, node_invocation_id, include)


@routes.get(
    "/v1/invocations/{invocation_id}/nodes",
    scope="nodes:read",
    response_model=NodeInvocationPage,
    errors=(InvocationNotFound,),
)
async def list_nodes(call: Call, invocation_id: str, query: NodeInvocationList) -> Answer:
    """The node invocations of an invocation, in the order they started."""
    return await page(
        call,
        store.NODES,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.get(
    "/v1/invocations/{invocation_id}/summaries",
    scope="nodes:read",
    response_model=NodeSummaryPage,
    errors=(InvocationNotFound,),
)
async def list_summaries(call: Call, invocation_id: str, query: SummaryList) -> Answer:
    """What the nodes of an invocation said of their runs, in the order they started."""
    return await page(
        call,
        store.SUMMARIES,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.get("/v1/node-invocations", scope="nodes:read", response_model=NodeInvocationPage)
async def search_node_invocations(call: Call, query: NodeInvocationSearch) -> Answer:
    """Node invocations across invocations, the last started first. Ids are unique within an invocation only."""
    return await page(call, store.EVERYWHERE, query)


@routes.post(
    "/v1/invocations/{invocation_id}/nodes/{node_invocation_id}/actions",
    scope="nodes:write",
    including=PAYLOADS,
    response_model=Action | Actions,
    status_code=201,
    errors=(NodeInvocationNotFound, ActionConflict),
)
async def record_actions(
    call: Call, invocation_id: str, node_invocation_id: str, _query: IncludeQuery, body: NewAction | NewActions
) -> Answer:
    """Record one tool call, or up to 1,000 as `{"items": [...]}`: all of them, or none.

    An id that was recorded with the same fields is a replay; 201 if any action is new, else 200.
    """
    many = isinstance(body, NewActions)
    actions = [action.given() for action in (body.items if isinstance(body, NewActions) else [body])]
    return await store.record_actions(
        call.writer, call.tenant_id, invocation_id, node_invocation_id, actions, single=not many
    )


@routes.get(
    "/v1/invocations/{invocation_id}/nodes/{node_invocation_id}/actions",
    scope="nodes:read",
    response_model=ActionPage,
    errors=(NodeInvocationNotFound,),
)
async def list_actions(call: Call, invocation_id: str, node_invocation_id: str, query: ActionList) -> Answer:
    """The tool calls of a node invocation, in the order they were recorded."""
    return await page(
        call,
        store.ACTIONS,
        query,
        {**query.filters(), "invocation_id": invocation_id, "node_invocation_id": node_invocation_id},
        if_empty=lambda: store.require(call.reader, call.tenant_id, invocation_id, node_invocation_id),
    )
