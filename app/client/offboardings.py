"""Calls about tenants that leave; only the operator's key may make them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.download import Wanted
from app.client.endpoint import Resource, endpoint, listing
from app.client.record import Record
from app.client.reply import Reply
from app.client.streamed import download, download_async
from app.client.transport import AsyncTransport, SyncTransport

M = TypeVar("M")


class Offboarding(Record):
    """A tenant that leaves, or has left: `state` is closed, deleting, verifying or completed.

    Before it, where an export was asked for, it is exporting, then exported until that is confirmed, or failed.
    """

    id: str
    tenant: str
    state: str
    export: dict[str, Any] | None
    counts: dict[str, int]
    error: dict[str, Any] | None
    created_at: datetime
    ended_at: datetime | None


def _content(reply: Reply) -> bytes:
    return reply.body


class Offboardings(Resource[M]):
    """Tenants that leave, and the receipts."""

    @endpoint
    def begin(self, tenant_id: str, *, export: bool = False) -> Call[Offboarding]:
        """Close the tenant and remove everything that is its own; again is the same offboarding.

        With `export` a backup is made first, and nothing is removed before `confirm`.
        """
        asked = {"export": True} if export else {}
        return Call("DELETE", path("tenants", tenant_id), one(Offboarding), query(asked))

    @endpoint
    def get(self, offboarding_id: str) -> Call[Offboarding]:
        """How far it is."""
        return Call("GET", path("offboardings", offboarding_id), one(Offboarding))

    @listing
    def list(self, **paging: Unpack[Paging]) -> Call[Page[Offboarding]]:
        """The tenants that leave or have left, the newest first."""
        return Call("GET", path("offboardings"), page_of(Offboarding), query(paging))

    @endpoint
    def export(self, offboarding_id: str) -> Call[bytes]:
        """The whole file of the export, in memory; see `download`."""
        return Call("GET", path("offboardings", offboarding_id, "export"), _content)

    @endpoint
    def confirm(self, offboarding_id: str) -> Call[Offboarding]:
        """Say that the export is in good hands: what is the tenant's leaves from now on."""
        return Call("POST", path("offboardings", offboarding_id, "confirm"), one(Offboarding))

    @endpoint
    def cancel(self, offboarding_id: str) -> Call[None]:
        """Open the tenant again, while its export is made or waits to be confirmed."""
        return Call("POST", path("offboardings", offboarding_id, "cancel"), nothing)

    @endpoint
    def receipt(self, offboarding_id: str) -> Call[bytes]:
        """What is gone, signed; the bytes as they were signed, to be kept as they are."""
        return Call("GET", path("offboardings", offboarding_id, "receipt"), _content)


class SyncOffboardings(Offboardings[SyncTransport]):
    """Offboardings, with exports that are never in memory as a whole."""

    def download(self, offboarding_id: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The export from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download(self._mode, _export(offboarding_id), Wanted(start, end))


class AsyncOffboardings(Offboardings[AsyncTransport]):
    """Offboardings, with exports that are never in memory as a whole."""

    def download(self, offboarding_id: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The export from `start` up to `end`, in pieces; a connection that breaks is taken up behind what came."""
        return download_async(self._mode, _export(offboarding_id), Wanted(start, end))


def _export(offboarding_id: str) -> Call[None]:
    return Call("GET", path("offboardings", offboarding_id, "export"), nothing)
