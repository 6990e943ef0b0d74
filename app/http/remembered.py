"""Immutable things in the memory of this process, until their time is over or their end is heard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.bus import hints
from app.cache.cache import Key, Read, unseen
from app.cache.embedded import EmbeddedCache


class Remembered:
    """Bodies of one kind, by tenant and name, each for `seconds` at most; 0 remembers nothing.

    What ended is gone at once where that is heard: in the process that ended it, and in all that hear it. Elsewhere it
    is answered for so many seconds more.
    """

    def __init__(self, kind: str, seconds: float, read: Read = unseen) -> None:
        self.kind, self._seconds = kind, seconds
        self._bodies = EmbeddedCache(read)
        # How many ends were heard: what was asked before one is not remembered after it.
        self._ends = 0

    async def body(self, tenant_id: str, name: str, load: Callable[[], Awaitable[bytes]]) -> bytes:
        """What is remembered, or loaded. Raises what the load raises."""
        if not self._seconds:
            return await load()
        key = Key(self.kind, tenant_id, name)
        found = await self._bodies.get(key)
        if found is None:
            ends = self._ends
            found = await load()
            if ends == self._ends:
                await self._bodies.put(key, found, self._seconds)
        return found

    def heard(self, key: hints.Key | None) -> None:
        """Forget what a tenant had where some of it has ended, or everything where an end may have been missed."""
        if key is None or key.kind == self.kind:
            self._ends += 1
            self._bodies.forget(None if key is None else key.tenant_id)
