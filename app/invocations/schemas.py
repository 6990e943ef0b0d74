"""Invocations, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import (
    INTEGER_MAX,
    Body,
    Id,
    Instant,
    JsonObject,
    JsonValue,
    Money,
    Query,
    QueryMoney,
    QueryScore,
    Score,
    Text,
    Verbatim,
)
from app.http.paging import IncludingListQuery, PageOf

Status = Literal["queued", "running", "completed", "failed", "cancelled", "rolled_back"]
Terminal = Literal["completed", "failed", "cancelled", "rolled_back"]
SortField = Literal[
    "started_at",
    "ended_at",
    "status",
    "usd_cost",
    "fitness_score",
    "accuracy",
    "duration",
    "run_id",
    "generation_id",
    "version_id",
]


class Results(Body):
    """What may be said of an invocation at any time, also after its end."""

    evaluator_id: Id | None = None
    expected_output: Text | None = None
    expected_output_type: JsonValue | None = None
    actual_output: Text | None = None
    usd_cost: Money | None = Field(None, examples=[0.0123])
    fitness: Verbatim | None = Field(None, examples=[{"score": 0.82}])
    fitness_score: Score | None = Field(None, examples=[0.82])
    accuracy: Score | None = None
    novelty: Score | None = None
    feedback: Text | None = None
    metadata: JsonObject | None = Field(None, examples=[{"worker": "w-3"}])
    extras: JsonObject | None = None


class Links(Body):
    """What an invocation belongs to; frozen at its end."""

    parent_invocation_id: Id | None = None
    run_id: Id | None = None
    generation_id: Id | None = None
    dataset_record_id: Id | None = None
    submission_id: Id | None = None
    session_id: Id | None = None


class NewInvocation(Links, Results):
    """An invocation to record; running unless `status` says queued."""

    id: Id | None = Field(None, examples=["inv_7"])
    version_id: Id
    status: Literal["queued", "running"] = "running"
    started_at: Instant | None = None
    input: Verbatim | None = Field(None, examples=[{"question": "Why is the sky blue?"}])
    output: Verbatim | None = None
    preparation: Text | None = None
    error: JsonValue | None = None


class InvocationChange(Links, Results):
    """The fields to update. After the end only results may change."""

    input: Verbatim | None = None
    output: Verbatim | None = None
    preparation: Text | None = None
    error: JsonValue | None = None


class Start(Body):
    """When a queued invocation started; now unless given."""

    started_at: Instant | None = None


class End(Results):
    """How an invocation ended, and what came of it."""

    status: Terminal
    ended_at: Instant | None = None
    output: Verbatim | None = Field(None, examples=[{"answer": 1.0}])
    error: JsonValue | None = Field(None, examples=[{"message": "The tool timed out."}])


class Cancel(Body):
    """How to cancel: ask the worker, or end at once."""

    force: bool = False


class InvocationFilter(Query):
    """Which invocations; every filter narrows."""

    workflow_id: str | None = None
    version_id: str | None = None
    run_id: str | None = None
    generation_id: str | None = None
    linked_run_id: str | None = Field(
        None,
        description="Of this run by any link: by their own `run_id`, or else by their generation, or else by their"
        " version's generation.",
    )
    session_id: str | None = None
    parent_invocation_id: str | None = None
    status: list[Status] | None = None
    min_usd_cost: QueryMoney | None = None
    max_usd_cost: QueryMoney | None = None
    min_fitness_score: QueryScore | None = None
    max_fitness_score: QueryScore | None = None
    min_accuracy: QueryScore | None = None
    max_accuracy: QueryScore | None = None
    has_fitness_score: bool | None = None
    has_accuracy: bool | None = None
    started_after: Instant | None = None
    started_before: Instant | None = None
    ended_after: Instant | None = None
    ended_before: Instant | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    metadata: (
        Annotated[
            str,
            Field(
                max_length=8192,
                description="A JSON object that metadata contains.",
                json_schema_extra={"contentMediaType": "application/json"},
            ),
        ]
        | None
    ) = None


class LineageQuery(IncludingListQuery):
    """How far the lineage of an invocation is shown."""

    max_depth: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = Field(
        None, description="Steps up and steps down; all of them unless given."
    )
    sort: Literal["depth"] | None = None


class InvocationList(InvocationFilter, IncludingListQuery):
    """Filters and sorts of the list of invocations."""

    include: str | None = Field(
        None, description="Verbatim fields to show, and `workflow_description`, separated by commas."
    )
    sort: SortField | None = None


class Invocation(BaseModel):
    """One run of a version. Verbatim fields are shown only where `include` names them."""

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
    status: Status
    started_at: datetime | None
    ended_at: datetime | None
    heartbeat_at: datetime | None
    cancel_requested_at: datetime | None
    input: Any = None
    output: Any = None
    expected_output: str | None
    expected_output_type: Any
    actual_output: str | None
    usd_cost: float | None
    fitness: Any = None
    fitness_score: float | None
    accuracy: float | None
    novelty: float | None
    feedback: str | None
    preparation: str | None
    error: Any
    metadata: dict[str, Any]
    extras: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class ListedInvocation(Invocation):
    """An invocation in a list."""

    workflow_description: str | None = Field(None, description="Of its workflow, where `include` names it.")


class InvocationPage(PageOf[ListedInvocation]):
    """A page of invocations."""


class RelatedInvocation(Invocation):
    """An invocation of a lineage."""

    depth: int = Field(description="Below 0: so many steps up; 0: the invocation itself; above 0: so many steps down.")


class LineagePage(PageOf[RelatedInvocation]):
    """A page of a lineage."""


class Percentiles(BaseModel):
    """The values below which 50, 90, 95 and 99 of 100 lie."""

    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class CostSummary(BaseModel):
    """Costs over the whole set, exact."""

    sum: float | None
    avg: float | None
    min: float | None
    max: float | None


class InvocationSummary(BaseModel):
    """What the filtered set adds up to."""

    count: int
    by_status: dict[str, int]
    usd_cost: CostSummary
    avg_accuracy: float | None
    fitness_score: Percentiles
    duration_seconds: Percentiles
