"""Deliveries of webhooks, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Instant
from app.http.paging import IncludingListQuery, PageOf

Status = Literal["pending", "queued", "sending", "delivered", "dead"]


class DeliveryList(IncludingListQuery):
    """Filters of the list of a webhook's deliveries."""

    status: list[Status] | None = None
    event_type: list[str] | None = None
    event_id: str | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at"] | None = None


class AllDeliveryList(DeliveryList):
    """Filters of the list of all deliveries."""

    webhook_id: str | None = None


class DeliveryItem(BaseModel):
    """One event on its way to one endpoint. Its id is the header `webhook-id` of every attempt."""

    id: str
    webhook_id: str
    event_id: str | None = Field(description="The event it tells of; null for a test.")
    event_type: str
    event_position: int | None
    status: Status = Field(
        description="`pending`: an attempt is due at `next_attempt_at`. `queued`, `sending`: one is under way."
        " `delivered`: an answer of 2xx. `dead`: given up; it has a dead letter."
    )
    attempt_count: int
    next_attempt_at: datetime | None
    last_status_code: int | None
    last_error: str | None
    created_at: datetime
    ended_at: datetime | None
    body: Any = Field(None, description="What is sent, byte for byte; only where `include=body` asks for it.")


class Attempt(BaseModel):
    """One attempt to deliver: what was answered, or what went wrong."""

    number: int
    started_at: datetime
    duration_ms: int | None
    status_code: int | None
    error: str | None
    response: str | None = Field(description="The first part of the answer's body, as text.")


class Delivery(DeliveryItem):
    """A delivery with its attempts, the oldest first; of more than 100 the latest."""

    attempts: list[Attempt]


class DeliveryPage(PageOf[DeliveryItem]):
    """A page of deliveries."""
