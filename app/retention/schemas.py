"""Retention, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body
from app.http.paging import ListQuery, PageOf

KindName = Literal[
    "dead_letters",
    "webhook_deliveries",
    "invocations",
    "versions",
    "evolution_runs",
    "submissions",
    "conversations",
    "sessions",
    "backups",
    "jobs",
    "events",
]
PinKind = Literal["invocation", "version", "evolution_run", "conversation", "submission", "session", "backup"]


class NewRule(Body):
    """By which rule a kind leaves: what ended longer ago than `max_age_days`, unless one of the others keeps it."""

    max_age_days: Annotated[int, Field(ge=0, le=36500)] | None = Field(
        None, description="Without it nothing leaves.", examples=[90]
    )
    keep_latest: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="So many of each parent stay, the latest, whatever their age.", examples=[10]
    )
    keep_pinned: bool | None = Field(None, description="What is pinned stays; true unless given.")
    keep_best: bool | None = Field(None, description="What did best in its generation stays; true unless given.")
    keep_failed: bool | None = Field(None, description="What failed stays; false unless given.")


class Policy(Body):
    """The rules to set; a kind that is null leaves no more, one that is not named stays as it is."""

    kinds: dict[KindName, NewRule | None] = Field(examples=[{"invocations": {"max_age_days": 90, "keep_latest": 10}}])
    dry_run: bool = Field(False, description="Count what would leave now by these rules, and set none.")


class Rule(BaseModel):
    """A rule. What means nothing for its kind is null or false."""

    max_age_days: int | None
    keep_latest: int | None
    keep_pinned: bool
    keep_best: bool
    keep_failed: bool


class Followed(BaseModel):
    """A kind with its rule, and how that was last followed."""

    rule: Rule | None = Field(description="Null: nothing of this kind leaves.")
    last_success_at: datetime | None = Field(description="When a run last came to the end of this kind.")
    last_counts: dict[str, int] | None = Field(description="What left in that run, by kind of row.")
    last_error: str | None = Field(description="Why a run since then did not come to its end.")


class Retention(BaseModel):
    """Every kind with its rule."""

    kinds: dict[KindName, Followed]
    would_leave: dict[KindName | Literal["pruned_versions"], int] | None = Field(
        None,
        description="Of a dry run: how many of each kind that was given would leave now; `pruned_versions` are versions"
        " that would stay without their content.",
    )


class NewRun(Body):
    """What to follow now."""

    kinds: list[KindName] | None = Field(
        None, min_length=1, max_length=50, description="All that have a rule, unless given."
    )
    dry_run: bool = Field(False, description="Count what would leave, and remove nothing.")


class PinList(ListQuery):
    """Filters of the list of pins."""

    kind: PinKind | None = None
    sort: Literal["created_at"] | None = None


class Pin(BaseModel):
    """Something that no rule lets go."""

    kind: PinKind
    id: str = Field(description="Of a conversation its path.")
    created_at: datetime


class PinPage(PageOf[Pin]):
    """A page of pins."""
