"""What may be sent about evolution: the fields of runs, generations and their members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict

from app.client.bodies import Instant, Money, Paging, Texts


class RunFields(TypedDict, total=False):
    """What may be said of an evolution run."""

    goal_text: str | None
    config: Mapping[str, Any]
    evolution_type: str | None
    notes: str | None
    owner_id: str | None


class GenerationNotes(TypedDict, total=False):
    """What may be said of a generation at any time."""

    comment: str | None
    feedback: str | None


class GenerationFields(GenerationNotes, total=False):
    """A generation; without `number` it is the next of its run."""

    id: str
    number: int
    started_at: Instant


class RunStart(RunFields, total=False):
    """A new run, with a generation to open in the same transaction (number 0 unless given)."""

    id: str
    started_at: Instant
    generation: GenerationFields


class RunFilter(Paging, total=False):
    """Which runs to list."""

    status: Texts
    evolution_type: str
    owner_id: str
    q: str
    config_q: str
    started_after: Instant
    started_before: Instant
    hide_empty: bool


class GenerationStatsFields(TypedDict, total=False):
    """What an engine measured of a generation."""

    best_fitness: float | None
    worst_fitness: float | None
    avg_fitness: float | None
    fitness_std_dev: float | None
    evaluation_cost: Money | None
    evaluations_per_hour: float | None
    improvement_rate: float | None


class GenerationEnd(GenerationNotes, total=False):
    """The completion of a generation."""

    ended_at: Instant
    best_version_id: str | None
    stats: GenerationStatsFields


class MemberFields(TypedDict, total=False):
    """A version that was in a generation."""

    version_id: Required[str]
    rank: int | None
    fitness: float | None
