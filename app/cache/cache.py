"""The cache: bytes that may be gone at any moment, under keys that carry their tenant."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

# Larger values are not kept: one of them would hold up everybody behind it.
VALUE_BYTES_MAX = 256 * 1024


Word = bytes | str | int | float
"""What a program is given."""


class Key(NamedTuple):
    """Where a value is kept: a kind of thing, its tenant, and which one."""

    kind: str
    tenant_id: str
    name: str


class Script(NamedTuple):
    """A program in Lua that Redis carries out as one atomic step. Its name is a label of the metrics."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """What Redis knows the program by once it has seen it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class Cache(Protocol):
    """Keeps what can be had elsewhere. Nothing that must be true stands behind it: a value may be gone or old."""

    async def open(self) -> None:
        """Begin."""

    async def get(self, key: Key) -> bytes | None:
        """The value, or None where there is none."""

    async def put(self, key: Key, value: bytes, ttl_seconds: float) -> None:
        """Keep the value for so long at most; one that is larger than `VALUE_BYTES_MAX` is not kept."""

    async def delete(self, key: Key) -> None:
        """Keep it no more."""

    async def erase(self, tenant_id: str) -> int:
        """Keep nothing of a tenant any more; how many values that were. Raises `Unavailable`."""

    async def run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Word]) -> Any:
        """What the program answers, within the cache's bound. Raises `Unavailable` where there is no Redis."""

    async def close(self) -> None:
        """End, within about a second."""


Read = Callable[[str, str], None]
"""Called with the kind of each key that was asked for, and `hit`, `miss` or `away`."""


def unseen(_kind: str, _outcome: str) -> None:
    """Counts nothing."""
