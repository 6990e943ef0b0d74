"""Calls that keep a tenant's record in order."""

from __future__ import annotations

from typing import TypedDict, TypeVar, Unpack

from app.client.call import Call, one, path
from app.client.endpoint import Resource, endpoint
from app.client.exact import dump
from app.client.record import Record

M = TypeVar("M")


class CleanedIds(Record):
    """What was ended, at most 1,000 of a kind."""

    workflow_invocations: list[str]
    node_invocations: list[str]
    evolution_runs: list[str]


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
    """How long something may run without a sign of life, in seconds: at least 60; an hour, and five for runs, unless
    given.
    """

    invocation_seconds: int
    node_invocation_seconds: int
    evolution_run_seconds: int


class Maintenance(Resource[M]):
    """Keeping the record in order."""

    @endpoint
    def clean_up(self, *, dry_run: bool = False, **thresholds: Unpack[Thresholds]) -> Call[Cleaned]:
        """End what gave no sign of life for longer than the thresholds, or with `dry_run` only say what that is."""
        body = {"dry_run": dry_run, "thresholds": thresholds}
        return Call("POST", path("maintenance", "cleanup"), one(Cleaned), body=dump(body))
