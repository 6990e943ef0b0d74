"""Calls that keep a tenant's record in order."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict, TypeVar, Unpack

from app.client.call import Call, nothing, one, path
from app.client.endpoint import Resource, endpoint
from app.client.exact import dump
from app.client.record import Record

M = TypeVar("M")


class CleanedIds(Record):
    """What was ended, at most 1,000 of a kind."""

    workflow_invocations: list[str]
    node_invocations: list[str]
    evolution_runs: list[str]
    generations: list[str]


class Schedule(Record):
    """When the clean-up runs by itself, and what it last did."""

    every_seconds: int
    thresholds: dict[str, int]
    due_at: datetime
    last_success_at: datetime | None
    last_counts: dict[str, int] | None
    created_at: datetime
    updated_at: datetime


class Cleaned(Record):
    """How many of each kind were ended; `more` says whether another call would find more."""

    dry_run: bool
    workflow_invocations: int
    node_invocations: int
    evolution_runs: int
    evolution_runs_end_times: int
    generations: int
    messages: int
    ids: CleanedIds
    more: bool


class Thresholds(TypedDict, total=False):
    """Seconds that something may run without a sign of life: at least 60, and as the preset has it unless given."""

    invocation_seconds: int
    node_invocation_seconds: int
    evolution_run_seconds: int


Preset = Literal["heartbeat", "ten_minutes"]


class Maintenance(Resource[M]):
    """Keeping the record in order."""

    @endpoint
    def clean_up(
        self, *, dry_run: bool = False, preset: Preset = "heartbeat", **thresholds: Unpack[Thresholds]
    ) -> Call[Cleaned]:
        """End what gave no sign of life for longer than the thresholds, or with `dry_run` only say what that is.

        The preset `heartbeat` waits for an hour, and five for evolution runs, `ten_minutes` for ten minutes.
        """
        body = {"dry_run": dry_run, "preset": preset, "thresholds": thresholds}
        return Call("POST", path("maintenance", "cleanup"), one(Cleaned), body=dump(body))

    @endpoint
    def schedule(
        self, every_seconds: int = 600, *, preset: Preset = "heartbeat", **thresholds: Unpack[Thresholds]
    ) -> Call[Schedule]:
        """Let the clean-up run by itself from now on, every so many seconds."""
        body = {"every_seconds": every_seconds, "preset": preset, "thresholds": thresholds}
        return Call("PUT", path("maintenance", "schedule"), one(Schedule), body=dump(body))

    @endpoint
    def get_schedule(self) -> Call[Schedule]:
        """When the clean-up runs by itself, and what it last did."""
        return Call("GET", path("maintenance", "schedule"), one(Schedule))

    @endpoint
    def delete_schedule(self) -> Call[None]:
        """Let the clean-up run on demand alone."""
        return Call("DELETE", path("maintenance", "schedule"), nothing)
