"""Maintenance, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body

Seconds = Annotated[int, Field(ge=60, le=366 * 24 * 3600)]


HEARTBEAT = {"invocation_seconds": 3600, "node_invocation_seconds": 3600, "evolution_run_seconds": 5 * 3600}
# The rule of the original: whatever has run for ten minutes has been left. A sign of life counts all the same.
PRESETS = {"heartbeat": HEARTBEAT, "ten_minutes": dict.fromkeys(HEARTBEAT, 600)}
Preset = Literal["heartbeat", "ten_minutes"]


class Thresholds(Body):
    """How long something may run without a sign of life, in seconds. What is not given is as the preset has it."""

    invocation_seconds: Seconds | None = Field(None, description="A running invocation, since its last heartbeat.")
    node_invocation_seconds: Seconds | None = Field(
        None, description="A running node; the heartbeat of its invocation counts as its own."
    )
    evolution_run_seconds: Seconds | None = Field(None, description="A running evolution run, since its heartbeat.")


class Policy(Body):
    """What counts as left behind."""

    preset: Preset = Field(
        "heartbeat",
        description="`heartbeat`: an hour, and five for evolution runs; `ten_minutes`: ten minutes for each. Both count"
        " from the start or from the last heartbeat, whichever is later.",
    )
    thresholds: Thresholds | None = Field(None, examples=[{"invocation_seconds": 7200}])

    def seconds(self) -> dict[str, int]:
        """Every threshold, by its name."""
        given = {} if self.thresholds is None else self.thresholds.model_dump(exclude_none=True)
        return {**PRESETS[self.preset], **given}


class Cleanup(Policy):
    """What to clean up."""

    dry_run: bool = Field(False, description="Say what would be ended, and end nothing.")


class NewSchedule(Policy):
    """When the clean-up runs by itself."""

    every_seconds: Seconds = Field(600, description="The pause between the beginnings of two clean-ups.")


class Schedule(BaseModel):
    """When the clean-up runs by itself, and what it last did."""

    every_seconds: int
    thresholds: dict[str, int]
    due_at: datetime = Field(description="When it runs next.")
    last_success_at: datetime | None
    last_counts: dict[str, int] | None = Field(description="How many of each kind the last one ended.")
    created_at: datetime
    updated_at: datetime


class CleanedIds(BaseModel):
    """What was ended: at most 1,000 invocations, nodes and runs of their own, and all that ended with them."""

    workflow_invocations: list[str]
    node_invocations: list[str]
    evolution_runs: list[str]
    generations: list[str]


class Cleaned(BaseModel):
    """How many of each kind were ended."""

    dry_run: bool
    workflow_invocations: int
    node_invocations: int
    evolution_runs: int
    evolution_runs_end_times: int = Field(description="Runs that got an end: all that were interrupted.")
    generations: int = Field(description="Generations that were interrupted with their run; none of them is complete.")
    messages: int = Field(description="Always 0: messages go by retention alone.")
    ids: CleanedIds
    more: bool = Field(description="Whether another call would find more.")
