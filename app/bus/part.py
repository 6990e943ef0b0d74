"""NATS as a part of the service: there is nothing wrong with it where its hints and its streams both work."""

from __future__ import annotations

import asyncio

from app.bus.tolerant import TolerantHints
from app.bus.tolerant_work import TolerantStreams


class Nats:
    """What `/readyz` and `cairn doctor` ask; what it asks is what this process uses."""

    def __init__(self, hints: TolerantHints, streams: TolerantStreams) -> None:
        self._hints, self._streams = hints, streams

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable`, saying what does not work."""
        found = await asyncio.gather(self._hints.check(seconds), self._streams.check(seconds), return_exceptions=True)
        # Each is awaited to its end: nobody else would hear of a second failure.
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return str(found[0])

    async def close(self) -> None:
        """Close both."""
        await self._hints.close()
        await self._streams.close()
