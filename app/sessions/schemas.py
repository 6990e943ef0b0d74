"""Sessions, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Body, Id, Instant, JsonObject
from app.http.paging import ListQuery, PageOf

Stored = Literal["active", "suspended", "completed", "crashed", "archived"]
Status = Literal["active", "suspended", "completed", "crashed", "archived", "expired"]


class SessionChange(Body):
    """The fields of a session to update. After the end only owner and metadata change, and it may be archived."""

    owner_id: Id | None = Field(None, examples=["user_42"])
    status: Stored = Field("active", examples=["suspended"])
    metadata: JsonObject | None = Field(None, examples=[{"channel": "chat"}])
    expires_at: Instant | None = Field(None, description="From then on the session reads as expired.")


class NewSession(SessionChange):
    """A session to create; without an id the service makes one."""

    id: Id | None = Field(None, examples=["ses_1"])


class SessionList(ListQuery):
    """Filters and sorts of the list of sessions."""

    owner_id: str | None = None
    status: list[Status] | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    expires_after: Instant | None = None
    expires_before: Instant | None = None
    sort: Literal["created_at", "expires_at"] | None = None


class Session(BaseModel):
    """A span of work that invocations may name as their `session_id`."""

    id: str
    owner_id: str | None
    status: Status
    metadata: dict[str, Any]
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class SessionPage(PageOf[Session]):
    """A page of sessions."""
