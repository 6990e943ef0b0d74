"""Offboardings, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.fields import Query
from app.http.paging import ListQuery, PageOf


class Leaving(Query):
    """How a tenant leaves."""

    export: bool = Field(
        False, description="Make a backup of everything first, and wait until it is confirmed to be in good hands."
    )


class OffboardingList(ListQuery):
    """How the list of offboardings is paged."""

    sort: Literal["created_at"] | None = None


class ExportProgress(BaseModel):
    """How many rows are in the file, of how many."""

    done: int
    total: int | None


class Export(BaseModel):
    """The backup that is made first; `size_bytes` and `digest` (SHA-256 of the file) are there once it is made."""

    backup_id: str
    progress: ExportProgress
    size_bytes: int | None
    digest: str | None
    error: dict[str, Any] | None


class Offboarding(BaseModel):
    """A tenant that leaves, or has left."""

    id: str
    tenant: str = Field(
        description="The tenant's id; once it has left, `sha256:` and the SHA-256 of its id in hexadecimal."
    )
    state: Literal["exporting", "exported", "failed", "closed", "deleting", "verifying", "completed"] = Field(
        description="`exporting`; `exported`: the export waits to be confirmed; `failed`: it could not be made, and all"
        " that is left is to cancel; `closed`: nobody acts for it any more; `deleting`; `verifying`: everything is"
        " gone, and is looked for once more after a pause; `completed`: there is a receipt."
    )
    export: Export | None
    counts: dict[str, int] = Field(
        description="What is gone by now: rows by table, `objects`, `cache_values`, `stream_messages`."
    )
    error: dict[str, Any] | None = Field(description="What holds it up just now; it is tried again.")
    created_at: datetime
    ended_at: datetime | None


class OffboardingPage(PageOf[Offboarding]):
    """A page of offboardings."""


class Receipt(BaseModel):
    """What a receipt says."""

    offboarding_id: str
    tenant_sha256: str = Field(description="The SHA-256 of the tenant's id, in hexadecimal.")
    counts: dict[str, int]
    started_at: datetime
    ended_at: datetime
    verified_zero: bool = Field(description="Everything was looked for once more, and nothing was found.")
    server_version: str


class ReceiptSignature(BaseModel):
    """The signature of exactly the bytes of `receipt` as they stand in the answer."""

    algorithm: Literal["ed25519"]
    public_key: str
    value: str


class SignedReceipt(BaseModel):
    """A receipt; `signature` is null where the service has no key."""

    receipt: Receipt
    signature: ReceiptSignature | None
