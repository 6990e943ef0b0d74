"""Tenants and API keys, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.http.caller import SCOPE
from app.http.fields import Body, Id, Instant, JsonObject, Text
from app.http.paging import ListQuery, PageOf

Scope = Annotated[str, Field(pattern=f"^{SCOPE}$")]


class TenantFields(Body):
    """What may be said of a tenant."""

    name: Text | None = None
    metadata: JsonObject | None = None


PerSecond = Annotated[int, Field(ge=1, le=1_000_000)]
Burst = Annotated[int, Field(ge=1, le=10_000_000, description="How many at once after a rest; default: as a second.")]


class ClassLimit(Body):
    """The limit of a class of requests."""

    requests_per_second: PerSecond
    burst: Burst | None = None


class ClassLimits(Body):
    """Limits of reads and of writes; a class without one shares the limit of all."""

    read: ClassLimit | None = None
    write: ClassLimit | None = None


class Limits(Body):
    """A tenant's own limits; an absent one does not apply."""

    requests_per_second: PerSecond | None = None
    burst: Burst | None = None
    classes: ClassLimits | None = None


class NewKey(Body):
    """A key to make: for the caller's tenant, within the caller's scopes."""

    name: Annotated[Text, Field(min_length=1, max_length=255)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=64)]
    expires_at: Instant | None = None
    id: Id | None = None


class TenantList(ListQuery):
    """How the list of tenants is paged."""

    sort: Literal["id", "created_at"] | None = None


class KeyList(ListQuery):
    """How the list of keys is paged."""

    sort: Literal["created_at"] | None = None


class Tenant(BaseModel):
    """A tenant."""

    id: str
    name: str | None
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None = Field(description="Since when it is on its way out, and nobody acts for it.")


class ApiKey(BaseModel):
    """A key's row; `key` is there once, when it is made or rotated."""

    id: str
    name: str
    key_hint: str
    scopes: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    key: str | None = None


class TenantPage(PageOf[Tenant]):
    """A page of tenants."""


class KeyPage(PageOf[ApiKey]):
    """A page of keys."""
