"""Backups, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Instant, Text
from app.http.paging import IncludingListQuery, PageOf

SECTIONS_MAX, RECIPIENTS_MAX = 200, 20
State = Literal["queued", "running", "completed", "failed", "cancelled"]


class NewBackup(Body):
    """What is to be in a backup, and who can read it."""

    label: Text | None = Field(None, max_length=255, examples=["before the migration"])
    sections: list[Text] | None = Field(
        None,
        min_length=1,
        max_length=SECTIONS_MAX,
        description="Names of sections, all of them unless given. What their rows refer to comes with them, and what"
        " they would say too little without; the answer names them all.",
        examples=[["messages"]],
    )
    artifacts: Literal["bytes", "references"] = Field(
        "bytes", description="Whether the bytes of artifacts are in the file, or only their hashes and sizes."
    )
    recipients: list[Text] | None = Field(
        None,
        min_length=1,
        max_length=RECIPIENTS_MAX,
        description="Public keys of age (`age1…`). The file is encrypted for them, and this service cannot read it.",
        examples=[None],
    )


class BackupList(IncludingListQuery):
    """Filters and sorts of the list of backups."""

    state: list[State] | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at"] | None = None


class Progress(BaseModel):
    """How many rows are in the file, of how many."""

    done: int
    total: int | None


class Backup(BaseModel):
    """A tenant's state at one moment, in one file.

    It stands as the job does that makes it. `manifest`, `size_bytes` and `digest` (SHA-256 of the file) are there when
    it is `completed`; `verified_at` is when its file was last found to be as it was written.
    """

    id: str
    state: State
    job_id: str
    label: str | None
    sections: list[str] | None
    artifacts: Literal["bytes", "references"]
    recipients: list[str] | None
    progress: Progress
    error: dict[str, Any] | None
    manifest: dict[str, Any] | None = None
    size_bytes: int | None
    digest: str | None
    created_at: datetime
    completed_at: datetime | None
    verified_at: datetime | None


class BackupPage(PageOf[Backup]):
    """A page of backups."""
