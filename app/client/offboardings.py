"""Calls about tenants that leave; only the operator's key may make them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.record import Record
from app.client.reply import Reply

M = TypeVar("M")


class Offboarding(Record):
    """A tenant that leaves, or has left: `state` is closed, deleting, verifying or completed."""

    id: str
    tenant: str
    state: str
    counts: dict[str, int]
    error: dict[str, Any] | None
    created_at: datetime
    ended_at: datetime | None


def _content(reply: Reply) -> bytes:
    return reply.body


class Offboardings(Resource[M]):
    """Tenants that leave, and the receipts."""

    @endpoint
    def begin(self, tenant_id: str) -> Call[Offboarding]:
        """Close the tenant and remove everything that is its own; again is the same offboarding."""
        return Call("DELETE", path("tenants", tenant_id), one(Offboarding))

    @endpoint
    def get(self, offboarding_id: str) -> Call[Offboarding]:
        """How far it is."""
        return Call("GET", path("offboardings", offboarding_id), one(Offboarding))

    @listing
    def list(self, **paging: Unpack[Paging]) -> Call[Page[Offboarding]]:
        """The tenants that leave or have left, the newest first."""
        return Call("GET", path("offboardings"), page_of(Offboarding), query(paging))

    @endpoint
    def receipt(self, offboarding_id: str) -> Call[bytes]:
        """What is gone, signed; the bytes as they were signed, to be kept as they are."""
        return Call("GET", path("offboardings", offboarding_id, "receipt"), _content)
