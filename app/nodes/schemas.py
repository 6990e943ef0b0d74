"""Node invocations and their actions, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import INTEGER_MAX, Body, Count, Id, Instant, JsonObject, JsonValue, Money, Text, Verbatim
from app.http.paging import IncludingListQuery, ListQuery, PageOf

ACTIONS_MAX = 1000
FILES_MAX = 10_000

Status = Literal["running", "completed", "failed"]
Terminal = Literal["completed", "failed"]


class NodeError(Body):
    """Why a node failed."""

    message: Text = Field(examples=["The tool timed out."])
    category: Text | None = Field(None, examples=["timeout"])
    severity: Text | None = Field(None, examples=["error"])
    retryable: bool | None = Field(None, examples=[True])


class NodeResults(Body):
    """What came of a node."""

    model: Text | None = Field(None, examples=["small-1"])
    output: Verbatim | None = Field(None, examples=[{"text": "Three sources."}])
    summary: Text | None = Field(None, examples=["Found three sources."])
    large_summary: Text | None = None
    usd_cost: Money | None = Field(None, examples=[0.0012])
    input_tokens: Count | None = Field(None, examples=[812])
    output_tokens: Count | None = Field(None, examples=[97])
    files: Annotated[list[Text], Field(max_length=FILES_MAX)] | None = Field(None, examples=[["notes.md"]])
    error: NodeError | None = None
    metadata: JsonObject | None = Field(None, examples=[{"worker": "w-3"}])
    extras: JsonObject | None = None


class NewNodeInvocation(NodeResults):
    """A node invocation to start; with a terminal `status` it is recorded in one call."""

    id: Id | None = Field(None, examples=["ni_1"])
    node_id: Id = Field(examples=["researcher"])
    attempt_no: Annotated[int, Field(ge=1, le=INTEGER_MAX)] = 1
    status: Status = "running"
    started_at: Instant | None = None
    ended_at: Instant | None = None


class NodeEnd(NodeResults):
    """How a node ended, and what came of it."""

    status: Terminal = Field(examples=["completed"])
    ended_at: Instant | None = None


class NewAction(Body):
    """A tool call of a node; without an id the service makes one."""

    id: Id | None = Field(None, examples=["act_1"])
    tool: Annotated[Text, Field(min_length=1)] = Field(examples=["search"])
    input: Verbatim | None = Field(None, examples=[{"query": "sky blue"}])
    output: Verbatim | None = Field(None, examples=[{"hits": 3}])
    status: Text | None = Field(None, examples=["completed"])
    started_at: Instant | None = None
    duration_ms: Money | None = Field(None, examples=[412.5])
    exit_code: Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)] | None = Field(None, examples=[0])
    error: JsonValue | None = None


class NewActions(Body):
    """Tool calls to record together: all of them, or none."""

    items: list[NewAction] = Field(min_length=1, max_length=ACTIONS_MAX)


class NodeInvocationList(IncludingListQuery):
    """The node invocations of one invocation, in the order they started."""

    sort: Literal["started_at"] | None = None


class SummaryList(ListQuery):
    """The summaries of an invocation's nodes, in the order they started."""

    node_id: list[str] | None = None
    sort: Literal["started_at"] | None = None


class NodeInvocationSearch(IncludingListQuery):
    """Filters of the list of node invocations across invocations."""

    id: list[str] | None = None
    run_id: list[str] | None = None
    version_id: list[str] | None = None
    node_id: list[str] | None = None
    status: list[Status] | None = None
    sort: Literal["started_at"] | None = None


class ActionList(IncludingListQuery):
    """The actions of a node invocation, in the order they were recorded."""

    sort: Literal["position"] | None = None


class NodeInvocation(BaseModel):
    """One run of a node. `output` is shown on its own and where `include` names it."""

    id: str
    invocation_id: str
    node_id: str
    node_version_id: str
    attempt_no: int
    status: Status
    started_at: datetime
    ended_at: datetime | None
    model: str | None
    output: Any = None
    summary: str | None
    large_summary: str | None
    usd_cost: float | None
    input_tokens: int | None
    output_tokens: int | None
    files: list[str]
    error: NodeError | None
    metadata: dict[str, Any]
    extras: dict[str, Any]


class NodeInvocationPage(PageOf[NodeInvocation]):
    """A page of node invocations."""


class NodeSummary(BaseModel):
    """What a node said of its run."""

    id: str
    node_id: str
    attempt_no: int
    status: Status
    started_at: datetime
    summary: str | None
    large_summary: str | None


class NodeSummaryPage(PageOf[NodeSummary]):
    """A page of summaries."""


class Action(BaseModel):
    """A tool call. `input` and `output` are shown where `include` names them."""

    id: str
    tool: str
    input: Any = None
    output: Any = None
    status: str | None
    started_at: datetime | None
    duration_ms: float | None
    exit_code: int | None
    error: Any


class Actions(BaseModel):
    """Actions in the order in which they were sent."""

    items: list[Action]


class ActionPage(PageOf[Action]):
    """A page of actions."""
