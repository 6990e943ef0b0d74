"""Webhooks, as JSON."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from app.http.fields import Body, Id, Instant, Text, Verbatim
from app.http.paging import ListQuery, PageOf
from app.webhooks.headers import HEADERS_MAX
from app.webhooks.signing import key_of

OVERLAP_SECONDS_MAX = 2_592_000
_EVENT_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}\.([a-z][a-z0-9_]{0,63}|\*)").fullmatch
# Bodies that can be sent as they are.
WEBHOOK_EXAMPLE: JsonDict = {
    "id": "wh_orders",
    "url": "https://example.com/hooks/cairn",
    "event_types": ["invocation.ended", "submission.*"],
    "include": ["output"],
    "description": "Results for the dashboard",
    "headers": {"X-Environment": "production"},
}


def _secret(value: str) -> str:
    """Standard Webhooks: the prefix and the base64 of 24 to 64 bytes."""
    try:
        key_of(value)
    except ValueError:
        raise ValueError("must be whsec_ and the base64 of 24 to 64 random bytes") from None
    return value


def _event_type(value: str) -> str:
    if not _EVENT_TYPE(value):
        raise ValueError("must be the type of an event, such as invocation.ended, or all of a kind: invocation.*")
    return value


Url = Annotated[Text, Field(min_length=1, max_length=2048, examples=["https://example.com/hooks/cairn"])]
EventType = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*\.([a-z][a-z0-9_]*|\*)$", max_length=129, examples=["invocation.ended"]),
    AfterValidator(_event_type),
]
# As `headers.py` has them, which also knows the names that are the service's own.
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")]
HeaderValue = Annotated[str, Field(pattern=r"^([!-~]([ -~]*[!-~])?)?$", max_length=4096)]
IncludedField = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", examples=["output"])]
Secret = Annotated[str, Field(pattern=r"^whsec_[A-Za-z0-9+/]{32,86}={0,2}$", max_length=100), AfterValidator(_secret)]


class WebhookChange(Body):
    """The fields of a webhook to change."""

    model_config = ConfigDict(json_schema_extra={"example": {"event_types": ["invocation.*"], "enabled": True}})

    url: Url = Field(default_factory=str, description="Where events are sent: https, or http; a public address.")
    event_types: list[EventType] = Field(
        default_factory=list,
        max_length=100,
        description="Types of events that are sent, or all of a kind as `invocation.*`. None of them stands for all.",
    )
    include: list[IncludedField] = Field(
        default_factory=list,
        max_length=20,
        description="Verbatim fields of the subjects that are sent within `data`, as they are at the first attempt.",
    )
    description: Annotated[Text, Field(max_length=2000)] | None = None
    enabled: bool = Field(True, description="False: events from now on are not for it, and what waits is given up.")
    headers: dict[HeaderName, HeaderValue] = Field(
        default_factory=dict,
        max_length=HEADERS_MAX,
        description="Headers that are sent with every delivery, by name. They are write-only: reads show the"
        " names with null. Given anew they replace all.",
        examples=[{"X-Environment": "production"}],
    )


class NewWebhook(WebhookChange):
    """A webhook to make."""

    model_config = ConfigDict(json_schema_extra={"example": WEBHOOK_EXAMPLE})

    id: Id | None = Field(None, examples=["wh_orders"])
    url: Url = Field(description="Where events are sent: https, or http; a public address.")
    secret: Secret | None = Field(
        None, description="The signing secret of an endpoint that has one already; made by the service unless given."
    )


class SecretRotation(Body):
    """How the secret is replaced."""

    model_config = ConfigDict(json_schema_extra={"example": {"overlap_seconds": 86_400}})

    secret: Secret | None = Field(None, description="The new secret; made by the service unless given.")
    overlap_seconds: int | None = Field(
        None,
        ge=0,
        le=OVERLAP_SECONDS_MAX,
        description="How long the old secret signs too; a day unless the operator set another time. 0: it ends now.",
        examples=[86_400],
    )


class WebhookTest(Body):
    """What a test delivery says."""

    model_config = ConfigDict(json_schema_extra={"example": {"data": {"hello": "world"}}})

    data: Verbatim | None = Field(None, description="`data` of the body, as it is; a greeting unless given.")


class WebhookList(ListQuery):
    """Filters of the list of webhooks."""

    enabled: bool | None = None
    failing: bool | None = Field(None, description="Whether no attempt has succeeded since `failing_since`.")
    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at"] | None = None


class Webhook(BaseModel):
    """A subscription: which events are sent to which URL. The secret is not shown again."""

    id: str
    url: str
    event_types: list[str]
    include: list[str]
    description: str | None
    enabled: bool
    headers: dict[str, None] = Field(description="The names of its headers; their values are never shown.")
    disabled_at: datetime | None
    disabled_reason: str | None = Field(
        description="`by_client`, `gone` (it answered 410) or `failing` (no attempt succeeded for days)."
    )
    missed_after: str | None = Field(
        description="While it is disabled, and in the answer that enables it: a cursor for `GET /v1/events?after=`,"
        " after which come the events that were not for it."
    )
    failing_since: datetime | None = Field(description="Since when no attempt has succeeded.")
    previous_secret_until: datetime | None = Field(description="Until when the secret before this one signs too.")
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(Webhook):
    """A webhook with its secret, which is shown this once; null where it was there already, and in a replay."""

    secret: str | None


class WebhookPage(PageOf[Webhook]):
    """A page of webhooks."""
