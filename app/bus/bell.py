"""A bell of this process: rings those who would otherwise look for work only now and then."""

from __future__ import annotations

import asyncio


class Bell:
    """One sleeper's bell. What rings while it works is not lost: it ends the next wait."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There may be work. Never waits, never raises."""
        self._rung.set()

    def hush(self) -> None:
        """Forget what rang: it is looked for from now on."""
        self._rung.clear()

    async def wait(self, seconds: float) -> bool:
        """True as soon as it has rung since the last `hush`; False after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True
