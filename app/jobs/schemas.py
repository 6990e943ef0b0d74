"""Jobs, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Text
from app.http.paging import ListQuery, PageOf

State = Literal["queued", "running", "completed", "failed", "cancelled"]


class JobList(ListQuery):
    """Filters of the list of jobs."""

    kind: Annotated[Text, Field(max_length=255)] | None = None
    state: State | None = None
    sort: Literal["created_at"] | None = None


class Progress(BaseModel):
    """How far a job is; the total is null until it is known."""

    done: int
    total: int | None


class Job(BaseModel):
    """Long work: what it is, how far it is, and how it ended."""

    id: str
    kind: str = Field(examples=["workflow.delete"])
    state: State
    arguments: dict[str, Any]
    progress: Progress
    counts: dict[str, Any] = Field(description="What was done, by kind of thing.")
    report: dict[str, Any] | None
    error: dict[str, Any] | None = Field(
        description="`code`, `detail` and facts of a job that failed. While it runs: of what is away that it waits for,"
        " `since` when, and after how many `tries`; null again with its next progress."
    )
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class JobPage(PageOf[Job]):
    """A page of jobs."""
