"""What the service asks of an object store, whichever it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class BlobMissing(Exception):
    """There is no object of this name, or not so much of it."""


@dataclass(frozen=True)
class Found:
    """An object as a listing shows it. One that is `unfinished` is what a writer left that was killed."""

    tenant_id: str
    name: str
    size_bytes: int
    modified_at: datetime
    unfinished: bool = False


class Blobs(Protocol):
    """Objects of bytes, each under a tenant and a name. All but `close` raise `Unavailable` where the store is away."""

    async def put(self, tenant_id: str, name: str, parts: AsyncIterator[bytes]) -> None:
        """Store an object, whole or not at all: until it returns, and where it raises, nothing of it can be read.

        The same object may be put again, by several at once; it can be read all the while.
        """
        ...

    def open(self, tenant_id: str, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, in pieces. Raises `BlobMissing`, at whichever piece.

        Nothing of the store is held between two pieces, however long their reader takes.
        """
        ...

    async def size(self, tenant_id: str, name: str) -> int | None:
        """How many bytes the object has; None where there is none."""
        ...

    async def delete(self, tenant_id: str, name: str) -> None:
        """Delete the object, or what was left of it. None of that name is no error."""
        ...

    def names(self, tenant_id: str | None = None) -> AsyncIterator[Found]:
        """Every object, or those of one tenant, and where the store shows it what killed writers left, in no order."""
        ...

    async def leave(self, tenant_id: str) -> None:
        """Keep nothing that names the tenant, once its objects are deleted; while one is there nothing happens."""
        ...

    async def check(self, seconds: float) -> str:
        """What the store is, in a word, where it answers within so long. Raises `Unavailable`, saying what to do."""
        ...

    async def close(self) -> None:
        """Let go of whatever is held."""
        ...
