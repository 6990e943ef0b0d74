"""Evolution runs, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.evolution.generation_schemas import NewGeneration
from app.http.fields import Body, Id, Instant, JsonObject, Text
from app.http.paging import ListQuery, PageOf

Status = Literal["running", "completed", "failed", "cancelled", "interrupted"]
Terminal = Literal["completed", "failed", "cancelled", "interrupted"]
SortField = Literal[
    "started_at",
    "ended_at",
    "status",
    "id",
    "goal_text",
    "evolution_type",
    "duration",
    "generation_count",
    "invocation_count",
    "successful_invocation_count",
    "total_cost",
    "accuracy_delta",
]


class RunFields(Body):
    """What may be said of a run."""

    goal_text: Text | None = Field(None, examples=["Find the shortest plan that passes."])
    config: JsonObject | None = Field(None, examples=[{"populationSize": 20, "generations": 10}])
    evolution_type: Text | None = Field(None, examples=["gp"])
    notes: Text | None = None
    owner_id: Id | None = Field(None, examples=["user_42"])


class NewRun(RunFields):
    """A run to start; without an id the service makes one. `generation` opens one in the same transaction."""

    id: Id | None = Field(None, examples=["run_1"])
    started_at: Instant | None = Field(None, description="Now unless given.")
    generation: NewGeneration | None = Field(
        None, description="A generation to open with the run, in the same transaction; number 0 unless given."
    )


class Complete(Body):
    """How a run ended."""

    status: Terminal
    notes: Text | None = Field(None, description="Replaces the run's notes where given.")
    ended_at: Instant | None = Field(None, description="Now unless given.")


class RunList(ListQuery):
    """Filters and sorts of the list of runs. Derived values are computed at each read."""

    status: list[Status] | None = None
    evolution_type: str | None = None
    owner_id: str | None = None
    q: (
        Annotated[str, Field(max_length=255, description="Text within the goal, the notes or the id, in any case.")]
        | None
    ) = None
    config_q: Annotated[str, Field(max_length=255, description="Text within the config, in any case.")] | None = None
    started_after: Instant | None = None
    started_before: Instant | None = None
    hide_empty: bool | None = Field(None, description="`true` leaves out runs without generations and invocations.")
    sort: SortField | None = None


class EvolutionRun(BaseModel):
    """A search over versions, in generations."""

    id: str
    goal_text: str | None
    config: dict[str, Any]
    status: Status
    evolution_type: str | None
    notes: str | None
    owner_id: str | None
    started_at: datetime
    ended_at: datetime | None
    heartbeat_at: datetime | None


class EvolutionRunSeen(EvolutionRun):
    """A run with what is derived from its generations and invocations at the moment of reading.

    An invocation belongs to the run by its run, by its generation, or by the generation of its version where it names
    neither; it counts once. `duration` is in seconds, null while the run is running. `accuracy_delta` is the mean
    accuracy of the last generation that has one, less that of the first.
    """

    duration: float | None
    generation_count: int
    invocation_count: int
    successful_invocation_count: int
    total_cost: float
    accuracy_delta: float | None


class EvolutionRunPage(PageOf[EvolutionRunSeen]):
    """A page of evolution runs."""


class Checkpoint(BaseModel):
    """That a checkpoint is kept for a run."""

    run_id: str
    updated_at: datetime
