"""Maintenance, as JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.http.fields import Body

Seconds = Annotated[int, Field(ge=60, le=366 * 24 * 3600)]


class Thresholds(Body):
    """How long something may run without a sign of life, in seconds."""

    invocation_seconds: Seconds = 3600
    node_invocation_seconds: Seconds = Field(3600, description="The heartbeat of its invocation counts as its own.")
    evolution_run_seconds: Seconds = 5 * 3600


class Cleanup(Body):
    """What to clean up."""

    dry_run: bool = Field(False, description="Say what would be ended, and end nothing.")
    thresholds: Thresholds | None = None


class CleanedIds(BaseModel):
    """What was ended, at most 1,000 of a kind."""

    workflow_invocations: list[str]
    node_invocations: list[str]
    evolution_runs: list[str]


class Cleaned(BaseModel):
    """How many of each kind were ended."""

    dry_run: bool
    workflow_invocations: int
    node_invocations: int
    evolution_runs: int
    evolution_runs_end_times: int = Field(description="Runs that got an end: all that were interrupted.")
    generations: int = Field(description="Always 0: a generation that nobody completed is not complete.")
    messages: int = Field(description="Always 0: messages go by retention alone.")
    ids: CleanedIds
    more: bool = Field(description="Whether another call would find more.")
