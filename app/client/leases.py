"""Calls about named leases."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.record import Record

M = TypeVar("M")


class Lease(Record):
    """Who holds a name, under which token, until when; one that is released has no holder."""

    name: str
    holder: str | None
    fencing_token: int
    lease_seconds: int
    acquired_at: datetime
    expires_at: datetime


class Leases(Resource[M]):
    """Names that one holder has at a time. Give `using(lease=(name, fencing_token))` to what writes under one."""

    @endpoint
    def acquire(
        self, name: str, holder: str, *, lease_seconds: int | None = None, wait_seconds: int = 0
    ) -> Call[Lease]:
        """Take a lease, for 30 seconds unless told otherwise, or raise `ConflictError` with code `lease_held`.

        While another holds it this waits up to `wait_seconds` (60 at most). A holder that asks again while it holds
        keeps its token, so this may be repeated.
        """
        body: dict[str, Any] = {"holder": holder}
        if lease_seconds is not None:
            body["lease_seconds"] = lease_seconds
        if wait_seconds:
            body["wait_seconds"] = wait_seconds
        target = path("leases", name, "acquire")
        return Call("POST", target, one(Lease), body=dump(body), repeatable=True, wait_seconds=wait_seconds)

    @endpoint
    def renew(self, name: str, holder: str, fencing_token: int) -> Call[Lease]:
        """Hold it for its length from now on, or raise `ConflictError` with code `lease_lost`."""
        return _held("renew", name, holder, fencing_token)

    @endpoint
    def release(self, name: str, holder: str, fencing_token: int) -> Call[Lease]:
        """Give it up; repeating it answers the same."""
        return _held("release", name, holder, fencing_token)

    @endpoint
    def get(self, name: str) -> Call[Lease]:
        """One lease."""
        return Call("GET", path("leases", name), one(Lease))

    @listing
    def list(self, **filters: Unpack[Paging]) -> Call[Page[Lease]]:
        """The leases by name."""
        return Call("GET", path("leases"), page_of(Lease), query(filters))


def _held(change: str, name: str, holder: str, fencing_token: int) -> Call[Lease]:
    body = dump({"holder": holder, "fencing_token": fencing_token})
    return Call("POST", path("leases", name, change), one(Lease), body=body, repeatable=True)
