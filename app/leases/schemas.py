"""Leases, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.fields import INTEGER_MAX, Body, Name
from app.http.paging import ListQuery, PageOf

LEASE_SECONDS_MAX = 3600
WAIT_SECONDS_MAX = 60


class Acquisition(Body):
    """Who wants the lease, and for how long without a renewal."""

    holder: Name = Field(
        description="Who it is: a name for each process that may hold it, new at each start.",
        examples=["indexer-7f3c"],
    )
    lease_seconds: Annotated[int, Field(ge=1, le=LEASE_SECONDS_MAX)] = 30
    wait_seconds: int = Field(
        0, ge=0, le=WAIT_SECONDS_MAX, description="How long to wait for a lease that another holds; not in a batch."
    )


class Holding(Body):
    """The holder and the token that it was given."""

    holder: Name = Field(examples=["indexer-7f3c"])
    fencing_token: Annotated[int, Field(ge=1, le=INTEGER_MAX)]


class LeaseList(ListQuery):
    """How the list of leases is sorted."""

    sort: Literal["name"] | None = None


class Lease(BaseModel):
    """A lease: who holds it, under which token, until when. One that is released has no holder."""

    name: str
    holder: str | None
    fencing_token: int
    lease_seconds: int
    acquired_at: datetime
    expires_at: datetime


class LeasePage(PageOf[Lease]):
    """A page of leases."""
