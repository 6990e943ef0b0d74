"""Dead letters, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from app.http.fields import Instant
from app.http.paging import ListQuery, PageOf

Source = Literal["submission", "webhook"]


class DeadLetterList(ListQuery):
    """Filters of the list of dead letters."""

    source: Source | None = None
    subject: str | None = None
    reason: str | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at"] | None = None


class DeadLetter(BaseModel):
    """Work that nobody will try again by itself. `subject` is the id of what it was, `reason` why it was given up."""

    id: str
    source: Source
    subject: str
    reason: str
    attempts: int
    last_error: str | None
    created_at: datetime


class DeadLetterPage(PageOf[DeadLetter]):
    """A page of dead letters."""
