"""What may be sent: the fields of each body and filter. A field left out is not sent; None is sent as null.

`Payload` is any JSON value; give a `Json` where the exact text matters. Instants are aware datetimes or RFC 3339 text,
money is `Decimal` or an int: both are written digit for digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Required, TypeAlias, TypedDict

Payload: TypeAlias = Any
Instant: TypeAlias = datetime | str
Money: TypeAlias = Decimal | int
Texts: TypeAlias = str | Sequence[str]


class Paging(TypedDict, total=False):
    """How a list is cut and ordered. `include` names the verbatim fields that the items should carry."""

    limit: int
    cursor: str
    sort: str
    order: Literal["asc", "desc"]
    count: Literal["exact"]
    include: Sequence[str]


class WorkflowFields(TypedDict, total=False):
    """A workflow, without its id."""

    name: str | None
    description: str | None
    owner_id: str | None
    metadata: Mapping[str, Any]


class WorkflowFilter(Paging, total=False):
    """Which workflows to list."""

    owner_id: str
    q: str


class NodeFields(TypedDict, total=False):
    """A node's configuration in a version."""

    id: str
    node_id: Required[str]
    system_prompt: str | None
    llm_model: str | None
    tools: Sequence[str]
    description: str | None
    handoffs: Sequence[str]
    waiting_for: Sequence[str]
    memory: Any
    extras: Any


class VersionFields(TypedDict, total=False):
    """A version, with the workflow and the nodes that are made in the same transaction."""

    id: str
    dsl: Required[Payload]
    operation: Literal["init", "mutation", "crossover", "immigrant"]
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
    workflow: WorkflowFields
    nodes: Sequence[NodeFields]


class VersionFilter(Paging, total=False):
    """Which versions to list."""

    workflow_id: str
    generation_id: str
    run_id: str
    dsl_hash: str
    parent_id: str
    owner_id: str
    latest: bool


class WalkFilter(Paging, total=False):
    """How far to walk from a version along parents, to the end unless given, and how to list what is found."""

    max_depth: int


class Results(TypedDict, total=False):
    """What may be said of an invocation at its end, and corrected afterwards."""

    usd_cost: Money | None
    fitness: Payload
    fitness_score: float | None
    accuracy: float | None
    novelty: float | None
    feedback: str | None
    expected_output: str | None
    expected_output_type: Any
    actual_output: str | None
    evaluator_id: str | None
    metadata: Mapping[str, Any]
    extras: Any


class InvocationLinks(TypedDict, total=False):
    """What an invocation belongs to; frozen at its end."""

    parent_invocation_id: str | None
    run_id: str | None
    generation_id: str | None
    dataset_record_id: str | None
    submission_id: str | None
    session_id: str | None


class InvocationPatch(InvocationLinks, Results, total=False):
    """Fields of an invocation that a patch may name; after the end only results may change."""

    input: Payload
    output: Payload
    preparation: str | None
    error: Any


class InvocationFields(InvocationPatch, total=False):
    """A new invocation; running unless `status` is queued."""

    id: str
    version_id: Required[str]
    status: Literal["queued", "running"]
    started_at: Instant


class InvocationEnd(Results, total=False):
    """The end of an invocation."""

    status: Required[Literal["completed", "failed", "cancelled", "rolled_back"]]
    ended_at: Instant
    output: Payload
    error: Any


class InvocationConditions(TypedDict, total=False):
    """Which invocations: the filters that the list and the summary share. `_after` is ≥, `_before` is <."""

    workflow_id: str
    version_id: str
    run_id: str
    generation_id: str
    linked_run_id: str
    session_id: str
    parent_invocation_id: str
    status: Texts
    min_usd_cost: Money
    max_usd_cost: Money
    min_fitness_score: float
    max_fitness_score: float
    min_accuracy: float
    max_accuracy: float
    has_fitness_score: bool
    has_accuracy: bool
    started_after: Instant
    started_before: Instant
    ended_after: Instant
    ended_before: Instant
    created_after: Instant
    created_before: Instant
    metadata: Mapping[str, Any]


class LineageFilter(Paging, total=False):
    """How far a lineage is shown."""

    max_depth: int


class EvaluationFields(TypedDict, total=False):
    """What an evaluator says of an invocation."""

    id: str
    evaluator_id: str | None
    score: float | None
    accuracy: float | None
    rubric: Any
    feedback: str | None
    metadata: Mapping[str, Any]


class EvaluationFilter(Paging, total=False):
    """Which evaluations of an invocation to list."""

    evaluator_id: Texts


class FailureFilter(Paging, total=False):
    """Which failures of an invocation to list."""

    kind: Texts


class InvocationFilter(InvocationConditions, Paging, total=False):
    """Which invocations to list, and how."""


class NodeResults(TypedDict, total=False):
    """What came of a node."""

    model: str | None
    output: Payload
    summary: str | None
    large_summary: str | None
    usd_cost: Money | None
    input_tokens: int | None
    output_tokens: int | None
    files: Sequence[str]
    error: Mapping[str, Any] | None
    metadata: Mapping[str, Any]
    extras: Mapping[str, Any]


class NodeStart(NodeResults, total=False):
    """A node invocation; with a terminal `status` it is recorded in one call."""

    id: str
    node_id: Required[str]
    attempt_no: int
    status: Literal["running", "completed", "failed"]
    started_at: Instant
    ended_at: Instant


class NodeEnd(NodeResults, total=False):
    """The end of a node invocation."""

    status: Required[Literal["completed", "failed"]]
    ended_at: Instant


class NodeInvocationFilter(Paging, total=False):
    """Which node invocations to list, across invocations."""

    id: Texts
    run_id: Texts
    version_id: Texts
    node_id: Texts
    status: Texts


class ActionFields(TypedDict, total=False):
    """A tool call."""

    id: str
    tool: Required[str]
    input: Payload
    output: Payload
    status: str
    started_at: Instant
    duration_ms: Decimal | int | None
    exit_code: int | None
    error: Any


class MessageFields(TypedDict, total=False):
    """A message; without `seq` the invocation's own counter gives one."""

    id: str
    seq: int
    from_node_id: str | None
    to_node_id: str | None
    origin_node_invocation_id: str | None
    target_node_invocation_id: str | None
    role: Required[str]
    payload: Payload


class MessageFilter(Paging, total=False):
    """Which messages of an invocation to list."""

    role: Texts
    node_id: Texts
    origin: Texts
    target: Texts
    after_seq: int
