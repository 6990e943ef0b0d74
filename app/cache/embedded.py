"""The cache of a process that stands alone: the values that were used last, up to a bound."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from app.cache.cache import VALUE_BYTES_MAX, Key, Read, Script, Word, unseen
from app.errors import Unavailable

BYTES_MAX = 32 * 1024 * 1024
ENTRIES_MAX = 10_000
# What an entry takes beside its value and its name: the key, the instant, the place in the order.
ENTRY_BYTES = 300


class EmbeddedCache:
    """Values in memory; those that were not used for longest leave first."""

    def __init__(
        self,
        read: Read = unseen,
        *,
        bytes_max: int = BYTES_MAX,
        entries_max: int = ENTRIES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._bytes_max, self._entries_max, self._clock = read, bytes_max, entries_max, clock
        self._kept: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()
        self.bytes = 0

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def get(self, key: Key) -> bytes | None:
        """The value, or None where there is none."""
        found = self._kept.get(key)
        if found is not None and found[0] <= self._clock():
            self._drop(key)
            found = None
        self._read(key.kind, "miss" if found is None else "hit")
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[1]

    async def put(self, key: Key, value: bytes, ttl_seconds: float) -> None:
        """Keep the value for so long at most."""
        self._drop(key)
        if ttl_seconds <= 0 or len(value) > VALUE_BYTES_MAX:
            return
        self._kept[key] = self._clock() + ttl_seconds, value
        self.bytes += _size(key, value)
        while self.bytes > self._bytes_max or len(self._kept) > self._entries_max:
            self._drop(next(iter(self._kept)))

    async def delete(self, key: Key) -> None:
        """Keep it no more."""
        self._drop(key)

    def forget(self, tenant_id: str | None) -> None:
        """Keep nothing of a tenant any more; of none where that is None."""
        for key in [key for key in self._kept if tenant_id in (None, key.tenant_id)]:
            self._drop(key)

    async def erase(self, tenant_id: str) -> int:
        """Keep nothing of a tenant any more; how many values that were."""
        before = len(self._kept)
        self.forget(tenant_id)
        return before - len(self._kept)

    async def run(
        self,
        script: Script,  # noqa: ARG002 - as every cache
        keys: Sequence[Key],  # noqa: ARG002
        arguments: Sequence[Word],  # noqa: ARG002
    ) -> Any:
        """There is no Redis here. Raises `Unavailable`."""
        raise Unavailable("No Redis is configured (CAIRN_REDIS__URL).")

    async def close(self) -> None:
        """Keep nothing any more."""
        self._kept.clear()
        self.bytes = 0

    def _drop(self, key: Key) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.bytes -= _size(key, found[1])


def _size(key: Key, value: bytes) -> int:
    return len(value) + len(key.name) + ENTRY_BYTES
