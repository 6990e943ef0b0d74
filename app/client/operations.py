"""Calls about the service and its tenants: tenants, keys, jobs, events, and the service itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

from app.client.bodies import Instant, Paging, Texts
from app.client.call import Call, Page, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.record import Record
from app.client.reply import Reply

M = TypeVar("M")


class Tenant(Record):
    """A tenant: every other row belongs to exactly one."""

    id: str
    name: str | None
    created_at: datetime | None
    closed_at: datetime | None


class ApiKey(Record):
    """A key; `key` itself is shown once, in the answer that made or rotated it."""

    id: str
    name: str
    scopes: list[str]
    key: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


class Job(Record):
    """Long work: `state` is queued, running, completed, failed or cancelled; `progress` is `{"done", "total"}`."""

    id: str
    kind: str
    state: str
    progress: dict[str, Any] | None
    counts: dict[str, Any] | None
    report: Any
    error: Any
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


def job_if_any(reply: Reply) -> Job | None:
    """Read an answer that is a job where what was asked for takes long, and empty where it is done."""
    return Job(reply.body, reply) if reply.status == 202 else None


class Event(Record):
    """One lifecycle change, with the resource as it was after it."""

    id: str
    type: str
    subject_type: str
    subject_id: str
    subject_parent_id: str | None
    occurred_at: datetime
    position: int
    data: Record
    gone: bool | None


class TenantFields(TypedDict, total=False):
    """A tenant, without its id."""

    name: str | None
    metadata: Mapping[str, Any]


class JobFilter(Paging, total=False):
    """Which jobs to list."""

    kind: str
    state: str


class EventFilter(TypedDict, total=False):
    """Which events to read; `after="now"` starts behind the latest."""

    after: str
    type: Texts
    limit: int
    include: Sequence[str]


class Tenants(Resource[M]):
    """Tenants; only the operator's key may act on them."""

    @endpoint
    def ensure(self, tenant_id: str, **fields: Unpack[TenantFields]) -> Call[Tenant]:
        """Create the tenant, or update the fields given."""
        return Call("PUT", path("tenants", tenant_id), one(Tenant), body=dump(fields))

    @endpoint
    def get(self, tenant_id: str) -> Call[Tenant]:
        """One tenant."""
        return Call("GET", path("tenants", tenant_id), one(Tenant))

    @endpoint
    def patch(self, tenant_id: str, **fields: Unpack[TenantFields]) -> Call[Tenant]:
        """Change the fields given."""
        return Call("PATCH", path("tenants", tenant_id), one(Tenant), body=dump(fields))

    @listing
    def list(self, **paging: Unpack[Paging]) -> Call[Page[Tenant]]:
        """Every tenant."""
        return Call("GET", path("tenants"), page_of(Tenant), query(paging))

    @endpoint
    def limits(self, tenant_id: str) -> Call[Record]:
        """The tenant's limits."""
        return Call("GET", path("tenants", tenant_id, "limits"), one(Record))

    @endpoint
    def set_limits(self, tenant_id: str, limits: Mapping[str, Any]) -> Call[Record]:
        """Replace the tenant's limits."""
        return Call("PUT", path("tenants", tenant_id, "limits"), one(Record), body=dump(limits))


class ApiKeys(Resource[M]):
    """The tenant's keys."""

    @endpoint
    def create(self, name: str, scopes: Sequence[str], *, expires_at: Instant | None = None) -> Call[ApiKey]:
        """Make a key; the answer's `key` is shown this once."""
        fields: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if expires_at is not None:
            fields["expires_at"] = expires_at
        return Call("POST", path("api-keys"), one(ApiKey), body=dump(fields))

    @listing
    def list(self, **paging: Unpack[Paging]) -> Call[Page[ApiKey]]:
        """Every key of the tenant, without the keys themselves."""
        return Call("GET", path("api-keys"), page_of(ApiKey), query(paging))

    @endpoint
    def revoke(self, key_id: str) -> Call[ApiKey]:
        """Take a key out of use, for good; every process has stopped trusting it a second later."""
        return Call("DELETE", path("api-keys", key_id), one(ApiKey))

    @endpoint
    def rotate(self, key_id: str) -> Call[ApiKey]:
        """Replace a key by a new one with the same name and scopes; the answer's `key` is shown this once."""
        return Call("POST", path("api-keys", key_id, "rotate"), one(ApiKey))


class Jobs(Resource[M]):
    """Long work that was answered with 202."""

    @endpoint
    def get(self, job_id: str) -> Call[Job]:
        """One job as it now is."""
        return Call("GET", path("jobs", job_id), one(Job))

    @listing
    def list(self, **filters: Unpack[JobFilter]) -> Call[Page[Job]]:
        """The tenant's jobs, the newest first."""
        return Call("GET", path("jobs"), page_of(Job), query(filters))

    @endpoint
    def cancel(self, job_id: str) -> Call[Job]:
        """Ask a job to stop."""
        return Call("POST", path("jobs", job_id, "cancel"), one(Job))


class Events(Resource[M]):
    """Every lifecycle change, in the order it was committed."""

    @listing
    def list(self, **filters: Unpack[EventFilter]) -> Call[Page[Event]]:
        """Events after a cursor, up to now; a page's `next_cursor` is where to go on later."""
        return Call("GET", path("events"), page_of(Event), query(filters), cursor_name="after")

    @endpoint
    def wait(self, wait_seconds: float, **filters: Unpack[EventFilter]) -> Call[Page[Event]]:
        """The events after a cursor as soon as there is one; after so many seconds, at most 60, a page without any."""
        asked = query({**filters, "wait_seconds": wait_seconds})
        return Call("GET", path("events"), page_of(Event), asked, wait_seconds=wait_seconds)


class Service(Resource[M]):
    """The service itself."""

    @endpoint
    def capabilities(self) -> Call[Record]:
        """What is up, in which mode, with which versions and limits."""
        return Call("GET", path("capabilities"), one(Record))

    @endpoint
    def schema(self) -> Call[Record]:
        """The database's revision and the one this code expects."""
        return Call("GET", path("schema"), one(Record))

    @listing
    def schema_decisions(self) -> Call[Page[Record]]:
        """Why the schema is as it is."""
        return Call("GET", path("schema", "decisions"), page_of(Record))
