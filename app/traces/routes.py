"""Traces over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound
from app.traces import store
from app.traces.schemas import FailureList, FailurePage, Trace, TraceMetrics, TraceQuery

routes = Routes("traces")


@routes.get(
    "/v1/invocations/{invocation_id}/trace", scope="traces:read", response_model=Trace, errors=(InvocationNotFound,)
)
async def get_trace(call: Call, invocation_id: str, query: TraceQuery) -> Answer:
    """The whole record of an invocation on one snapshot: every payload once, byte for byte, in place.

    Nodes come in start order with their actions, messages in the order `(seq, id)`. At most `limit` of each, and about
    64 MiB of payloads of nodes and of messages each, are shown; `more` says what is left out and how to go on: the
    cursors belong to `GET …/nodes?include=output` and `GET …/messages?include=payload`.
    """
    if call.batched:
        return await store.trace(call.reader, call.tenant_id, invocation_id, query.limit)
    async with call.ground.database.reading() as reader:
        return await store.trace(reader, call.tenant_id, invocation_id, query.limit)


@routes.get(
    "/v1/invocations/{invocation_id}/trace/metrics",
    scope="traces:read",
    response_model=TraceMetrics,
    errors=(InvocationNotFound,),
)
async def get_trace_metrics(call: Call, invocation_id: str) -> Answer:
    """Duration, cost, bottleneck, what each node and tool took, cost and failed at, and who wrote to whom.

    A call failed where it states an error, an exit code other than 0, or the status `failed` or `error`.
    """
    return await store.metrics(call.reader, call.tenant_id, invocation_id)


@routes.get(
    "/v1/invocations/{invocation_id}/failures",
    scope="traces:read",
    response_model=FailurePage,
    errors=(InvocationNotFound,),
)
async def list_failures(call: Call, invocation_id: str, query: FailureList) -> Answer:
    """What went wrong in an invocation, in the order of time: nodes, actions, messages, and the invocation itself.

    Listed are an invocation and nodes that failed or state an error; actions that state an error, an exit code other
    than 0, or the status `failed` or `error`; and messages of the role `error`, their payload with `include=payload`.
    """
    return await page(
        call,
        store.FAILURES,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )
