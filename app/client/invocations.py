"""Calls about what has run: invocations, their node invocations with actions, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from app.client.bodies import (
    ActionFields,
    EvaluationFields,
    EvaluationFilter,
    FailureFilter,
    Instant,
    InvocationConditions,
    InvocationEnd,
    InvocationFields,
    InvocationFilter,
    InvocationPatch,
    LineageFilter,
    MessageFields,
    MessageFilter,
    NodeEnd,
    NodeInvocationFilter,
    NodeStart,
    Paging,
)
from app.client.call import Call, Page, items_of, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.models import (
    Action,
    Evaluation,
    Failure,
    Invocation,
    Message,
    NodeInvocation,
    RelatedInvocation,
    Trace,
)
from app.client.record import Record

M = TypeVar("M")


class Invocations(Resource[M]):
    """Executions of versions."""

    @endpoint
    def create(self, *, include: Sequence[str] = (), **fields: Unpack[InvocationFields]) -> Call[Invocation]:
        """Record the start of an execution (or its queueing); the same again is a replay."""
        return Call("POST", path("invocations"), one(Invocation), query({"include": include}), dump(fields))

    @endpoint
    def get(self, invocation_id: str, *, include: Sequence[str] = ()) -> Call[Invocation]:
        """One invocation; `include` shows its payloads (`input`, `output`, `fitness`)."""
        return Call("GET", path("invocations", invocation_id), one(Invocation), query({"include": include}))

    @listing
    def list(self, **filters: Unpack[InvocationFilter]) -> Call[Page[Invocation]]:
        """Invocations that meet every condition."""
        return Call("GET", path("invocations"), page_of(Invocation), query(filters))

    @endpoint
    def patch(
        self, invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[InvocationPatch]
    ) -> Call[Invocation]:
        """Change the fields given."""
        parameters = query({"include": include})
        return Call("PATCH", path("invocations", invocation_id), one(Invocation), parameters, dump(fields))

    @endpoint
    def delete(self, invocation_id: str) -> Call[None]:
        """Delete an invocation with everything recorded under it."""
        return Call("DELETE", path("invocations", invocation_id), nothing)

    @endpoint
    def start(self, invocation_id: str, *, started_at: Instant | None = None) -> Call[Invocation]:
        """Start a queued invocation, now unless another instant is given."""
        body = {} if started_at is None else {"started_at": started_at}
        return Call("POST", path("invocations", invocation_id, "start"), one(Invocation), body=dump(body))

    @endpoint
    def heartbeat(self, invocation_id: str) -> Call[Invocation]:
        """Say that the worker lives; the answer's `cancel_requested_at` tells it to stop."""
        return Call("POST", path("invocations", invocation_id, "heartbeat"), one(Invocation))

    @endpoint
    def end(
        self, invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[InvocationEnd]
    ) -> Call[Invocation]:
        """End an invocation with its results. The first end wins; exactly the same again is a replay."""
        parameters = query({"include": include})
        return Call("POST", path("invocations", invocation_id, "end"), one(Invocation), parameters, dump(fields))

    @endpoint
    def cancel(self, invocation_id: str, *, force: bool = False) -> Call[Invocation]:
        """Cancel a queued invocation, ask a running one to stop, or end it at once with `force`."""
        target = path("invocations", invocation_id, "cancel")
        return Call("POST", target, one(Invocation), body=dump({"force": True} if force else {}))

    @endpoint
    def summary(self, **conditions: Unpack[InvocationConditions]) -> Call[Record]:
        """Counts, costs, scores and durations over everything that meets the conditions."""
        return Call("GET", path("invocations", "summary"), one(Record), query(conditions))

    @endpoint
    def trace(self, invocation_id: str, *, limit: int | None = None) -> Call[Trace]:
        """The whole record of an invocation, with every payload once; at most `limit` nodes and messages."""
        return Call("GET", path("invocations", invocation_id, "trace"), one(Trace), query({"limit": limit}))

    @endpoint
    def trace_metrics(self, invocation_id: str) -> Call[Record]:
        """Duration, cost, bottleneck, cost per node and errors of an invocation."""
        return Call("GET", path("invocations", invocation_id, "trace", "metrics"), one(Record))

    @listing
    def lineage(self, invocation_id: str, **filters: Unpack[LineageFilter]) -> Call[Page[RelatedInvocation]]:
        """What started an invocation and what it started, the root first."""
        return Call("GET", path("invocations", invocation_id, "lineage"), page_of(RelatedInvocation), query(filters))

    @listing
    def failures(self, invocation_id: str, **filters: Unpack[FailureFilter]) -> Call[Page[Failure]]:
        """What went wrong in an invocation, in the order of time."""
        return Call("GET", path("invocations", invocation_id, "failures"), page_of(Failure), query(filters))

    @endpoint
    def evaluate(self, invocation_id: str, **fields: Unpack[EvaluationFields]) -> Call[Evaluation]:
        """Record what an evaluator says of an invocation; the same again is a replay."""
        return Call("POST", path("invocations", invocation_id, "evaluations"), one(Evaluation), body=dump(fields))

    @listing
    def evaluations(self, invocation_id: str, **filters: Unpack[EvaluationFilter]) -> Call[Page[Evaluation]]:
        """What evaluators said of an invocation, in the order in which they did."""
        return Call("GET", path("invocations", invocation_id, "evaluations"), page_of(Evaluation), query(filters))


class NodeInvocations(Resource[M]):
    """Executions of nodes inside an invocation, and their tool calls."""

    @endpoint
    def start(
        self, invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[NodeStart]
    ) -> Call[NodeInvocation]:
        """Record that a node starts, or, with `status` and `ended_at`, that it ran."""
        parameters = query({"include": include})
        return Call("POST", path("invocations", invocation_id, "nodes"), one(NodeInvocation), parameters, dump(fields))

    @endpoint
    def end(
        self, invocation_id: str, node_invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[NodeEnd]
    ) -> Call[NodeInvocation]:
        """Record how a node ended."""
        target = path("invocations", invocation_id, "nodes", node_invocation_id, "end")
        return Call("POST", target, one(NodeInvocation), query({"include": include}), dump(fields))

    @endpoint
    def get(self, invocation_id: str, node_invocation_id: str, *, include: Sequence[str] = ()) -> Call[NodeInvocation]:
        """One node invocation; `include=["output"]` shows its output."""
        target = path("invocations", invocation_id, "nodes", node_invocation_id)
        return Call("GET", target, one(NodeInvocation), query({"include": include}))

    @listing
    def list(self, invocation_id: str, **paging: Unpack[Paging]) -> Call[Page[NodeInvocation]]:
        """The node invocations of one invocation."""
        return Call("GET", path("invocations", invocation_id, "nodes"), page_of(NodeInvocation), query(paging))

    @listing
    def summaries(
        self, invocation_id: str, *, node_id: str | None = None, **paging: Unpack[Paging]
    ) -> Call[Page[NodeInvocation]]:
        """The summaries of an invocation's nodes, in the order they ran."""
        filters = {"node_id": node_id, **paging}
        return Call("GET", path("invocations", invocation_id, "summaries"), page_of(NodeInvocation), query(filters))

    @listing
    def search(self, **filters: Unpack[NodeInvocationFilter]) -> Call[Page[NodeInvocation]]:
        """Node invocations across invocations."""
        return Call("GET", path("node-invocations"), page_of(NodeInvocation), query(filters))

    @endpoint
    def record_action(
        self,
        invocation_id: str,
        node_invocation_id: str,
        *,
        include: Sequence[str] = (),
        **fields: Unpack[ActionFields],
    ) -> Call[Action]:
        """Record one tool call."""
        target = path("invocations", invocation_id, "nodes", node_invocation_id, "actions")
        return Call("POST", target, one(Action), query({"include": include}), dump(fields))

    @endpoint
    def record_actions(
        self, invocation_id: str, node_invocation_id: str, items: Sequence[ActionFields], *, include: Sequence[str] = ()
    ) -> Call[Sequence[Action]]:
        """Record many tool calls in one transaction."""
        target = path("invocations", invocation_id, "nodes", node_invocation_id, "actions")
        return Call("POST", target, items_of(Action), query({"include": include}), dump({"items": items}))

    @listing
    def actions(self, invocation_id: str, node_invocation_id: str, **paging: Unpack[Paging]) -> Call[Page[Action]]:
        """The tool calls of a node invocation."""
        target = path("invocations", invocation_id, "nodes", node_invocation_id, "actions")
        return Call("GET", target, page_of(Action), query(paging))


class Messages(Resource[M]):
    """The messages of an invocation."""

    @endpoint
    def record(
        self, invocation_id: str, *, include: Sequence[str] = (), **fields: Unpack[MessageFields]
    ) -> Call[Message]:
        """Record one message."""
        parameters = query({"include": include})
        return Call("POST", path("invocations", invocation_id, "messages"), one(Message), parameters, dump(fields))

    @endpoint
    def record_many(
        self, invocation_id: str, items: Sequence[MessageFields], *, include: Sequence[str] = ()
    ) -> Call[Sequence[Message]]:
        """Record up to 1,000 messages in one transaction."""
        target = path("invocations", invocation_id, "messages")
        return Call("POST", target, items_of(Message), query({"include": include}), dump({"items": items}))

    @endpoint
    def get(self, invocation_id: str, message_id: str, *, include: Sequence[str] = ()) -> Call[Message]:
        """One message; `include=["payload"]` shows its payload."""
        target = path("invocations", invocation_id, "messages", message_id)
        return Call("GET", target, one(Message), query({"include": include}))

    @endpoint
    def patch(self, invocation_id: str, message_id: str, *, target_node_invocation_id: str | None) -> Call[Message]:
        """Say which node invocation read the message."""
        fields: dict[str, Any] = {"target_node_invocation_id": target_node_invocation_id}
        return Call(
            "PATCH", path("invocations", invocation_id, "messages", message_id), one(Message), body=dump(fields)
        )

    @listing
    def list(self, invocation_id: str, **filters: Unpack[MessageFilter]) -> Call[Page[Message]]:
        """The messages of one invocation, in order."""
        return Call("GET", path("invocations", invocation_id, "messages"), page_of(Message), query(filters))
