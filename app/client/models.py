"""The resources of the record, as the service answers them. Fields that an answer leaves out read None."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from app.client.exact import Json
from app.client.record import Record


class Workflow(Record):
    """A named line of versions."""

    id: str
    name: str | None
    description: str | None
    owner_id: str | None
    metadata: dict[str, Any]
    version_count: int | None
    latest_version_id: str | None
    created_at: datetime
    updated_at: datetime


class Version(Record):
    """An immutable version of a workflow; `dsl` is the exact text that was sent."""

    id: str
    workflow_id: str
    dsl: Json | None
    dsl_hash: str
    operation: str
    parent1_id: str | None
    parent2_id: str | None
    parents_unknown: bool
    generation_id: str | None
    commit_message: str | None
    iteration_budget: int | None
    time_budget_seconds: int | None
    input_schema: Any
    output_schema: Any
    knowledge: Any
    created_at: datetime
    pruned_at: datetime | None = None


class Relative(Version):
    """An ancestor or descendant of a version, and the least number of steps to it."""

    depth: int


class CommonAncestor(Version):
    """A version that two others descend from, and the least number of steps to it from each."""

    depth_a: int
    depth_b: int


class Difference(Record):
    """What makes the DSL of one version that of another: `patch` is a JSON Patch; its exact text is `raw("patch")`."""

    to: str
    patch: list[dict[str, Any]]


class GenealogyNode(Version):
    """A version in a workflow's graph; `outside` where it is a parent from another workflow."""

    outside: bool


class Genealogy(Record):
    """A workflow's versions and their parents: an edge is `{"from", "to", "kind"}`, from parent to child."""

    nodes: list[GenealogyNode]
    edges: list[dict[str, str]]
    more: dict[str, str | None]


class NodeVersion(Record):
    """One configuration of a node in a version."""

    id: str
    version_id: str
    node_id: str
    revision: int
    system_prompt: str | None
    llm_model: str | None
    tools: list[str]
    description: str | None
    handoffs: list[str]
    waiting_for: list[str]
    memory: Any
    extras: Any
    config_hash: str
    created_at: datetime


class Invocation(Record):
    """One execution of a version."""

    id: str
    version_id: str
    workflow_id: str
    parent_invocation_id: str | None
    run_id: str | None
    generation_id: str | None
    dataset_record_id: str | None
    evaluator_id: str | None
    submission_id: str | None
    session_id: str | None
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    heartbeat_at: datetime | None
    cancel_requested_at: datetime | None
    input: Json | None
    output: Json | None
    expected_output: str | None
    expected_output_type: Any
    actual_output: str | None
    usd_cost: Decimal | None
    fitness: Json | None
    fitness_score: float | None
    accuracy: float | None
    novelty: float | None
    feedback: str | None
    preparation: str | None
    error: Any
    metadata: dict[str, Any]
    extras: Any
    created_at: datetime
    updated_at: datetime
    workflow_description: str | None


class RelatedInvocation(Invocation):
    """An invocation of a lineage: `depth` is below 0 for parents, 0 for the one asked about, above 0 for children."""

    depth: int


class Evaluation(Record):
    """What an evaluator said of an invocation."""

    id: str
    invocation_id: str
    evaluator_id: str | None
    score: float | None
    accuracy: float | None
    rubric: Any
    feedback: str | None
    metadata: dict[str, Any]
    created_at: datetime


class Failure(Record):
    """Something that went wrong in an invocation: `kind` is invocation, node, action or message."""

    kind: str
    id: str
    node_invocation_id: str | None
    node_id: str | None
    failed_at: datetime
    status: str | None
    error: Any
    tool: str | None
    exit_code: int | None
    payload: Json | None


class NodeInvocation(Record):
    """One execution of a node inside an invocation."""

    id: str
    invocation_id: str
    node_id: str
    node_version_id: str
    attempt_no: int | None
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    model: str | None
    output: Json | None
    summary: str | None
    large_summary: str | None
    usd_cost: Decimal | None
    input_tokens: int | None
    output_tokens: int | None
    files: list[str]
    error: Any
    metadata: dict[str, Any]
    extras: Any


class Action(Record):
    """A tool call made by a node invocation."""

    id: str
    tool: str
    input: Json | None
    output: Json | None
    status: str | None
    started_at: datetime | None
    duration_ms: Decimal | None
    exit_code: int | None
    error: Any


class Message(Record):
    """One message of an invocation; the order is `(seq, id)`."""

    id: str
    invocation_id: str
    seq: int
    from_node_id: str | None
    to_node_id: str | None
    origin_node_invocation_id: str | None
    target_node_invocation_id: str | None
    role: str
    payload: Json | None
    created_at: datetime


class TraceNode(NodeInvocation):
    """A node invocation inside a trace, with what it ran and the ids of the messages it read and wrote."""

    node_version: NodeVersion | None
    actions: list[Action]
    messages_in: list[str]
    messages_out: list[str]


class TraceRest(Record):
    """What a trace leaves out: cursors for the lists of nodes and messages, ids of nodes with more actions."""

    nodes: str | None
    actions: list[str]
    messages: str | None


class Trace(Record):
    """The whole record of one invocation: every payload once, nodes in start order. `more` says what is left out."""

    invocation: Invocation
    version: Version
    workflow: Workflow
    nodes: list[TraceNode]
    messages: list[Message]
    more: TraceRest | None
