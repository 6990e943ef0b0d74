"""Calls about webhooks and what became of their deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging, Payload, Texts
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import Json, dump
from app.client.record import Record

M = TypeVar("M")


class Webhook(Record):
    """A subscription. `secret` is there only in the answer that made or rotated it, once."""

    id: str
    url: str
    event_types: list[str]
    include: list[str]
    description: str | None
    enabled: bool
    headers: dict[str, None]
    secret: str | None
    disabled_at: datetime | None
    disabled_reason: str | None
    missed_after: str | None
    failing_since: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime


class Delivery(Record):
    """One event on its way to one endpoint, with its attempts where it was asked for alone."""

    id: str
    webhook_id: str
    event_id: str | None
    event_type: str
    event_position: int | None
    status: str
    attempt_count: int
    next_attempt_at: datetime | None
    last_status_code: int | None
    last_error: str | None
    created_at: datetime
    ended_at: datetime | None
    attempts: list[Record] | None
    body: Json | None


class WebhookDetails(TypedDict, total=False):
    """What a webhook is besides its URL. Header values are write-only, and given anew they replace all."""

    event_types: Texts
    include: Texts
    description: str | None
    enabled: bool
    headers: Mapping[str, str]


class WebhookFields(WebhookDetails, total=False):
    """The fields of a webhook that can change."""

    url: str


class NewWebhookFields(WebhookDetails, total=False):
    """What a new webhook may say besides its URL."""

    id: str
    secret: str


class TestData(TypedDict, total=False):
    """What a test says."""

    data: Payload


class WebhookFilter(Paging, total=False):
    """Which webhooks to list."""

    enabled: bool
    failing: bool
    created_after: Instant
    created_before: Instant


class DeliveryFilter(Paging, total=False):
    """Which deliveries to list."""

    status: Texts
    event_type: Texts
    event_id: str
    created_after: Instant
    created_before: Instant
    include: Sequence[str]


class AllDeliveryFilter(DeliveryFilter, total=False):
    """Which deliveries of all webhooks to list."""

    webhook_id: str


class Webhooks(Resource[M]):
    """Subscriptions to events."""

    @endpoint
    def create(self, url: str, **fields: Unpack[NewWebhookFields]) -> Call[Webhook]:
        """Send events to a URL from now on; the answer's `secret` is shown this once."""
        body = {**fields, "url": url}
        return Call("POST", path("webhooks"), one(Webhook), body=dump(body))

    @endpoint
    def get(self, webhook_id: str) -> Call[Webhook]:
        """One webhook, without its secret."""
        return Call("GET", path("webhooks", webhook_id), one(Webhook))

    @listing
    def list(self, **filters: Unpack[WebhookFilter]) -> Call[Page[Webhook]]:
        """The webhooks, the newest first."""
        return Call("GET", path("webhooks"), page_of(Webhook), query(filters))

    @endpoint
    def patch(self, webhook_id: str, **fields: Unpack[WebhookFields]) -> Call[Webhook]:
        """Change the fields given."""
        return Call("PATCH", path("webhooks", webhook_id), one(Webhook), body=dump(fields))

    @endpoint
    def delete(self, webhook_id: str) -> Call[None]:
        """Remove a webhook; its deliveries stay."""
        return Call("DELETE", path("webhooks", webhook_id), nothing)

    @endpoint
    def enable(self, webhook_id: str) -> Call[Webhook]:
        """Let it receive events again; `missed_after` is the cursor of `events` after which those are that it missed.

        One that is enabled stays as it is.
        """
        return Call("POST", path("webhooks", webhook_id, "enable"), one(Webhook))

    @endpoint
    def rotate_secret(
        self, webhook_id: str, *, secret: str | None = None, overlap_seconds: int | None = None
    ) -> Call[Webhook]:
        """Give it a new secret, shown this once; the old one signs too until the overlap ends."""
        given = {"secret": secret, "overlap_seconds": overlap_seconds}
        body = dump({name: value for name, value in given.items() if value is not None})
        return Call("POST", path("webhooks", webhook_id, "rotate-secret"), one(Webhook), body=body)

    @endpoint
    def test(self, webhook_id: str, **data: Unpack[TestData]) -> Call[Delivery]:
        """Send it an event of type `webhook.test`, with `data` or a greeting."""
        return Call("POST", path("webhooks", webhook_id, "test"), one(Delivery), body=dump(data))

    @listing
    def deliveries(self, webhook_id: str, **filters: Unpack[DeliveryFilter]) -> Call[Page[Delivery]]:
        """Its deliveries, the latest first."""
        return Call("GET", path("webhooks", webhook_id, "deliveries"), page_of(Delivery), query(filters))


class Deliveries(Resource[M]):
    """Events on their way to endpoints."""

    @listing
    def list(self, **filters: Unpack[AllDeliveryFilter]) -> Call[Page[Delivery]]:
        """The deliveries of all webhooks, the latest first."""
        return Call("GET", path("deliveries"), page_of(Delivery), query(filters))

    @endpoint
    def get(self, delivery_id: str, *, include: Sequence[str] = ()) -> Call[Delivery]:
        """One delivery with its attempts; with `include=["body"]` what is sent."""
        return Call("GET", path("deliveries", delivery_id), one(Delivery), query({"include": include}))

    @endpoint
    def redeliver(self, delivery_id: str) -> Call[Delivery]:
        """Send one that has ended again, under the same `webhook-id`."""
        return Call("POST", path("deliveries", delivery_id, "redeliver"), one(Delivery))
