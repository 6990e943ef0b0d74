"""Calls about what leaves by age, and about what is pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.operations import Job
from app.client.record import Record

M = TypeVar("M")
PinKind = Literal["invocation", "version", "evolution_run", "conversation", "submission", "session", "backup"]


class Rule(Record):
    """By which rule a kind leaves; without an age nothing does."""

    max_age_days: int | None
    keep_latest: int | None
    keep_pinned: bool
    keep_best: bool
    keep_failed: bool


class Followed(Record):
    """A kind with its rule, and how that was last followed."""

    rule: Rule | None
    last_success_at: datetime | None
    last_counts: dict[str, int] | None
    last_error: str | None


class Retention(Record):
    """Every kind with its rule; of a dry run also how many would leave."""

    kinds: dict[str, Followed]
    would_leave: dict[str, int] | None


class NewRule(TypedDict, total=False):
    """A rule to set."""

    max_age_days: int | None
    keep_latest: int | None
    keep_pinned: bool
    keep_best: bool
    keep_failed: bool


class Pin(Record):
    """Something that no rule lets go."""

    kind: PinKind
    id: str
    created_at: datetime


class PinFilter(Paging, total=False):
    """Which pins to list."""

    kind: PinKind


class RetentionRules(Resource[M]):
    """The rules by which what is old leaves."""

    @endpoint
    def get(self) -> Call[Retention]:
        """Every kind with its rule, and how it was last followed."""
        return Call("GET", path("retention"), one(Retention))

    @endpoint
    def put(self, kinds: Mapping[str, NewRule | None], *, dry_run: bool = False) -> Call[Retention]:
        """Set the rules of these kinds, or take away those that are None; with `dry_run` count what would leave."""
        return Call("PUT", path("retention"), one(Retention), body=dump({"kinds": kinds, "dry_run": dry_run}))

    @endpoint
    def run(self, *, kinds: Sequence[str] | None = None, dry_run: bool = False) -> Call[Job]:
        """Follow the rules now, as a job."""
        body: dict[str, Any] = {"dry_run": dry_run} if kinds is None else {"kinds": list(kinds), "dry_run": dry_run}
        return Call("POST", path("retention", "runs"), one(Job), body=dump(body))


class Pins(Resource[M]):
    """What stays whatever its age."""

    @endpoint
    def put(self, kind: PinKind, pinned_id: str) -> Call[Pin]:
        """Pin something; a conversation by its path."""
        return Call("PUT", path("pins", kind, pinned_id), one(Pin))

    @endpoint
    def get(self, kind: PinKind, pinned_id: str) -> Call[Pin]:
        """Whether something is pinned, and since when."""
        return Call("GET", path("pins", kind, pinned_id), one(Pin))

    @listing
    def list(self, **filters: Unpack[PinFilter]) -> Call[Page[Pin]]:
        """What is pinned, the newest pin first."""
        return Call("GET", path("pins"), page_of(Pin), query(filters))

    @endpoint
    def delete(self, kind: PinKind, pinned_id: str) -> Call[None]:
        """Let the rules decide about it again."""
        return Call("DELETE", path("pins", kind, pinned_id), nothing)
