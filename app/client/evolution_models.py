"""What the service answers about evolution: runs, generations, and what is derived from them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from app.client.exact import Json
from app.client.models import Invocation, Version
from app.client.record import Record


class EvolutionRun(Record):
    """A search over versions. What is derived (`duration` and below) is in reads only, not in answers to writes."""

    id: str
    goal_text: str | None
    config: dict[str, Any]
    status: str
    evolution_type: str | None
    notes: str | None
    owner_id: str | None
    started_at: datetime
    ended_at: datetime | None
    heartbeat_at: datetime | None
    duration: float | None
    generation_count: int | None
    invocation_count: int | None
    successful_invocation_count: int | None
    total_cost: Decimal | None
    accuracy_delta: float | None


class GenerationStats(Record):
    """What an engine measured of a generation."""

    best_fitness: float | None
    worst_fitness: float | None
    avg_fitness: float | None
    fitness_std_dev: float | None
    evaluation_cost: Decimal | None
    evaluations_per_hour: float | None
    improvement_rate: float | None


class Generation(Record):
    """One step of a run. What is derived (`member_count` and below) is in reads only, not in answers to writes."""

    id: str
    run_id: str
    number: int
    started_at: datetime
    ended_at: datetime | None
    interrupted_at: datetime | None
    best_version_id: str | None
    comment: str | None
    feedback: str | None
    stats: GenerationStats
    member_count: int | None
    fitness: dict[str, Any] | None
    invocation_count: int | None
    successful_invocation_count: int | None


class Member(Record):
    """A version that was in a generation."""

    version_id: str
    rank: int | None
    fitness: float | None


class LastCompleted(Generation):
    """What a run needs to resume; `checkpoint` is null text where none was written."""

    members: list[Member]
    checkpoint: Json | None


class Step(Record):
    """A generation in the progress of its run."""

    generation_id: str
    number: int
    started_at: datetime
    ended_at: datetime | None
    best_version_id: str | None
    best_fitness: float | None
    avg_fitness: float | None
    worst_fitness: float | None
    accuracy: float | None
    usd_cost: Decimal | None
    invocation_count: int
    successful_invocation_count: int


class Progress(Record):
    """How a run came on; `next_number` is where the rest begins."""

    run_id: str
    generations: list[Step]
    next_number: int | None


class BestInvocation(Invocation):
    """One of the best invocations of a run, with its version."""

    generation_number: int | None
    version: Version


class Configuration(Record):
    """Versions with one DSL, as a run saw them."""

    dsl_hash: str
    first_version_id: str
    first_generation_number: int | None
    last_generation_number: int | None
    generation_count: int
    version_count: int
    invocation_count: int
    successful_invocation_count: int
    best_fitness: float | None
    total_cost: Decimal
