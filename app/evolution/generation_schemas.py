"""Generations and their members, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Count, Id, Instant, Money, Query, Score, Text
from app.http.paging import ListQuery, PageOf

MEMBERS_MAX = 10_000


class GenerationNotes(Body):
    """What may be said of a generation at any time."""

    comment: Text | None = None
    feedback: Text | None = None


class NewGeneration(GenerationNotes):
    """A generation to open. Without a number it gets the next of its run; without an id the service makes one."""

    id: Id | None = Field(None, examples=["gen_1"])
    number: Count | None = Field(None, examples=[0])
    started_at: Instant | None = Field(None, description="Now unless given.")


class Stats(Body):
    """What an engine measured of a generation."""

    best_fitness: Score | None = Field(None, examples=[0.91])
    worst_fitness: Score | None = None
    avg_fitness: Score | None = None
    fitness_std_dev: Score | None = None
    evaluation_cost: Money | None = None
    evaluations_per_hour: Score | None = None
    improvement_rate: Score | None = None


class CompleteGeneration(GenerationNotes):
    """How a generation ended. A comment or feedback that is left out stays as it is."""

    ended_at: Instant | None = Field(None, description="Now unless given.")
    best_version_id: Id | None = None
    stats: Stats | None = None


class NewMember(Body):
    """A version that was in a generation."""

    version_id: Id
    rank: Count | None = Field(None, examples=[1])
    fitness: Score | None = Field(None, examples=[0.91])


class NewMembers(Body):
    """Everybody who was in a generation."""

    items: list[NewMember] = Field(max_length=MEMBERS_MAX)


class GenerationList(ListQuery):
    """How the generations of a run are paged: by number."""

    sort: Literal["number"] | None = None


class ResumeQuery(Query):
    """Whether the checkpoint is shown."""

    include: Literal["", "checkpoint"] | None = Field(
        None, description="`checkpoint` shows the run's checkpoint, as leaving this out does; empty leaves it out."
    )


class GenerationStats(BaseModel):
    """What the engine measured; null where it said nothing."""

    best_fitness: float | None
    worst_fitness: float | None
    avg_fitness: float | None
    fitness_std_dev: float | None
    evaluation_cost: float | None
    evaluations_per_hour: float | None
    improvement_rate: float | None


class Generation(BaseModel):
    """One step of a run. It is complete when it has `ended_at`."""

    id: str
    run_id: str
    number: int
    started_at: datetime
    ended_at: datetime | None
    interrupted_at: datetime | None = Field(
        description="Since then its run is interrupted and nobody works on it, unless it is completed later."
    )
    best_version_id: str | None
    comment: str | None
    feedback: str | None
    stats: GenerationStats


class FitnessRange(BaseModel):
    """The scores of the generation's invocations that have one; of its members where no invocation has."""

    min: float | None
    max: float | None
    count: int


class GenerationSeen(Generation):
    """A generation with what is derived from its members and invocations at the moment of reading."""

    member_count: int
    fitness: FitnessRange
    invocation_count: int
    successful_invocation_count: int


class GenerationPage(PageOf[GenerationSeen]):
    """A page of generations."""


class Member(BaseModel):
    """A version that was in a generation."""

    version_id: str
    rank: int | None
    fitness: float | None


class Members(BaseModel):
    """Everybody who was in a generation, by rank, then by fitness."""

    items: list[Member]


class LastCompleted(GenerationSeen):
    """What a run needs to resume. `checkpoint` is the engine's state, byte for byte; null where none was written."""

    members: list[Member]
    checkpoint: Any = None
