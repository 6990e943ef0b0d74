"""What is read of a run, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import Count, Query
from app.http.paging import IncludingListQuery, PageOf
from app.invocations.schemas import Invocation
from app.versions.schemas import Version

# A run of more generations, or of more versions or invocations, is read in parts.
STEPS_MAX = 10_000
NODES_MAX = 10_000
BEST_MAX = 1000


class ProgressQuery(Query):
    """Which generations."""

    limit: Annotated[int, Field(ge=1, le=STEPS_MAX, description="Generations at most.")] = 1000
    from_number: Count = Field(0, description="The first generation to show: `next_number` of the answer before.")


class BestQuery(Query):
    """How many, and of what."""

    n: Annotated[int, Field(ge=1, le=BEST_MAX, description="How many.")] = 10
    per: Literal["invocation", "version"] = Field(
        "invocation", description="`version` shows a version once, with its best invocation."
    )


class GraphQuery(Query):
    """Which part of the graph."""

    limit: Annotated[int, Field(ge=1, le=NODES_MAX, description="Versions at most, and invocations at most.")] = 1000
    from_number: Count | None = Field(None, description="Only from this generation on.")
    to_number: Count | None = Field(None, description="Only up to this generation.")


class RunVersionList(IncludingListQuery):
    """How the versions of a run are shown."""

    group_by: Literal["dsl_hash"] | None = Field(None, description="Identical configurations once.")
    sort: (
        Literal[
            "created_at",
            "first_generation_number",
            "last_generation_number",
            "version_count",
            "invocation_count",
            "best_fitness",
            "total_cost",
        ]
        | None
    ) = Field(None, description="`created_at` of versions; the others of configurations.")


class Step(BaseModel):
    """A generation: what the engine said of its fitness, else what follows from its invocations, else its members.

    `accuracy` and `usd_cost` are of its invocations; where none states a cost, what the engine said.
    """

    generation_id: str
    number: int
    started_at: datetime
    ended_at: datetime | None
    best_version_id: str | None
    best_fitness: float | None
    avg_fitness: float | None
    worst_fitness: float | None
    accuracy: float | None
    usd_cost: float | None
    invocation_count: int
    successful_invocation_count: int


class Progress(BaseModel):
    """How a run came on. `next_number` is where the rest begins; null where this is all."""

    run_id: str
    generations: list[Step]
    next_number: int | None


class Found(Invocation):
    """An invocation with its version and the number of its generation."""

    generation_number: int | None
    version: Version


class Best(BaseModel):
    """The best first, by fitness score, then accuracy; those without a score last."""

    items: list[Found]


class VersionNode(BaseModel):
    """A version that the run saw; its generation is the first that did."""

    kind: Literal["version"]
    id: str
    workflow_id: str
    generation_number: int | None
    operation: str
    dsl_hash: str
    parent1_id: str | None
    parent2_id: str | None
    commit_message: str | None
    invocation_count: int
    best_fitness: float | None
    created_at: datetime


class InvocationNode(BaseModel):
    """An invocation of the run; `duration` is in seconds."""

    kind: Literal["invocation"]
    id: str
    version_id: str
    parent_invocation_id: str | None
    generation_number: int | None
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    duration: float | None
    usd_cost: float | None
    fitness_score: float | None
    accuracy: float | None


class Edge(BaseModel):
    """What descends from what, between ids of nodes.

    `parent1` and `parent2` lead from version to version, `invocation` from a version to its invocation,
    `parent_invocation` from invocation to invocation.
    """

    kind: Literal["parent1", "parent2", "invocation", "parent_invocation"]
    from_: str = Field(alias="from")
    to: str


class More(BaseModel):
    """Whether there are more than are shown."""

    versions: bool
    invocations: bool


class Graph(BaseModel):
    """What a run made: versions and invocations in the order of their generations, and their descent."""

    run_id: str
    nodes: list[VersionNode | InvocationNode]
    edges: list[Edge]
    more: More


class Configuration(BaseModel):
    """Versions with one DSL, whatever their ancestry; the counts are of this run alone.

    A generation saw a configuration where a version with it was made in it, was a member of it, or ran in it.
    """

    dsl_hash: str
    first_version_id: str
    first_generation_number: int | None
    last_generation_number: int | None
    generation_count: int
    version_count: int
    invocation_count: int
    successful_invocation_count: int
    best_fitness: float | None
    total_cost: float


class RunVersionPage(PageOf[Version | Configuration]):
    """A page of versions, or of configurations."""
