"""Traces and their metrics, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Query
from app.http.paging import IncludingListQuery, PageOf
from app.invocations.schemas import Invocation
from app.messages.schemas import Message
from app.nodes.schemas import Action, NodeInvocation
from app.versions.node_schemas import NodeVersion
from app.versions.schemas import Version

ROWS_MAX = 10_000


class TraceQuery(Query):
    """How much of the record to show at once."""

    limit: Annotated[
        int,
        Field(ge=1, le=ROWS_MAX, description="Most nodes, most messages, and most actions of a node; 10,000 at most."),
    ] = ROWS_MAX


class TraceNode(NodeInvocation):
    """A node invocation with its configuration, its actions, and the messages it read and wrote."""

    node_version: NodeVersion
    actions: list[Action]
    messages_in: list[str] = Field(description="Ids of the messages shown whose target it is.")
    messages_out: list[str] = Field(description="Ids of the messages shown whose origin it is.")


class More(BaseModel):
    """What a trace leaves out: null and empty where it is whole."""

    nodes: str | None = Field(description="The cursor with which `GET …/nodes` goes on.")
    actions: list[str] = Field(description="The node invocations whose `GET …/actions` holds more.")
    messages: str | None = Field(description="The cursor with which `GET …/messages` goes on.")


class TraceWorkflow(BaseModel):
    """The workflow that the version belongs to, without what is counted from its versions."""

    id: str
    name: str | None
    description: str | None
    owner_id: str | None
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class Trace(BaseModel):
    """The whole record of one invocation, every payload once."""

    invocation: Invocation
    version: Version
    workflow: TraceWorkflow
    nodes: list[TraceNode]
    messages: list[Message]
    more: More


class Bottleneck(BaseModel):
    """The node invocation that took longest."""

    node_invocation_id: str
    node_id: str
    duration_seconds: float


class NodeMetrics(BaseModel):
    """What all runs of one node took."""

    node_id: str
    runs: int
    failed_runs: int
    duration_seconds: float | None
    usd_cost: float | None
    input_tokens: int | None
    output_tokens: int | None


class ToolMetrics(BaseModel):
    """How often a tool was called, and how long that took."""

    tool: str
    calls: int
    failed_calls: int
    duration_ms: float | None


class NodeFailure(BaseModel):
    """A node invocation that failed, or that states an error."""

    node_invocation_id: str
    node_id: str
    error: Any


class NodeCost(BaseModel):
    """What all runs of one node cost."""

    node_id: str
    usd_cost: float


class Flow(BaseModel):
    """How many messages went from one node to another."""

    from_node_id: str | None
    to_node_id: str | None
    messages: int


class TraceMetrics(BaseModel):
    """What an invocation took, cost and failed at. At most 1,000 nodes, tools, flows and errors are listed."""

    invocation_id: str
    status: str
    duration_seconds: float | None
    usd_cost: float | None = Field(description="The invocation's own cost; where it states none, the sum of its nodes.")
    node_invocation_count: int
    completed_count: int = Field(description="Node invocations that completed.")
    failed_count: int = Field(description="Node invocations that failed.")
    message_count: int
    error_message_count: int = Field(description="Messages of the role `error`.")
    bottleneck: Bottleneck | None
    dearest_node: NodeCost | None
    avg_usd_cost_per_node: float | None = Field(description="Over the nodes of which any run states a cost.")
    nodes: list[NodeMetrics]
    tools: list[ToolMetrics]
    flow: list[Flow] = Field(description="In the order of the first message.")
    error_count: int
    errors: list[NodeFailure]
    error: Any


Kind = Literal["invocation", "node", "action", "message"]


class FailureList(IncludingListQuery):
    """Filters of the list of failures; its order is that of their time."""

    kind: list[Kind] | None = None
    sort: Literal["failed_at"] | None = None


class Failure(BaseModel):
    """Something that went wrong in an invocation."""

    kind: Kind
    id: str
    node_invocation_id: str | None = Field(description="The node invocation it belongs to; of a message, its origin.")
    node_id: str | None
    failed_at: datetime = Field(
        description="The end of an invocation or node, the start of an action, the recording of a message."
    )
    status: str | None
    error: Any
    tool: str | None
    exit_code: int | None
    payload: Any = Field(None, description="Of a message, where `include` names it.")


class FailurePage(PageOf[Failure]):
    """A page of failures."""
