"""Keeps a line to a server open: opens another one whenever it breaks, for as long as it is asked to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import structlog

from app.errors import Unavailable

log = structlog.get_logger("cairn.bus")
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0
# The library may swallow that it is cancelled (what `wait_for` waits for was done at the same moment).
CANCELS_MAX, CANCEL_SECONDS = 3, 0.6


class Line(Protocol):
    """A way to a server that breaks: `open` raises `Unavailable`; `broken` is set when it is over, `why` says why."""

    broken: asyncio.Event
    why: str

    async def open(self) -> None: ...

    async def close(self) -> None: ...


L = TypeVar("L", bound=Line)


class Keeper(Generic[L]):
    """`line` is the one that is open, None while there is none; then `why` says what is wrong.

    `degraded` is told with each try whether it is away; `back` is called whenever a line opens
    after a gap. Tries are at most `PAUSE_SECONDS_MAX` and an opening apart.
    """

    def __init__(
        self,
        make: Callable[[], L],
        *,
        loss: str,
        degraded: Callable[[bool], None] = lambda _away: None,
        back: Callable[[], None] = lambda: None,
    ) -> None:
        self._make, self._loss = make, loss
        self._degraded, self._back = degraded, back
        self._tried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self.line: L | None = None
        self.why = "NATS does not answer."

    @property
    def keeps(self) -> bool:
        """Whether it was opened and not closed."""
        return self._keeping is not None

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        self._keeping = asyncio.create_task(self._keep(), name="line to NATS")
        await self._tried.wait()

    async def close(self) -> None:
        """End, and close the line."""
        keeping, self._keeping = self._keeping, None
        for _ in range(CANCELS_MAX):
            if keeping is None or keeping.done():
                break
            keeping.cancel()
            await asyncio.wait({keeping}, timeout=CANCEL_SECONDS)
        line, self.line = self.line, None
        if line is not None:
            await line.close()

    async def _keep(self) -> None:
        failures, gap = 0, False
        while True:
            line = self._make()
            try:
                await line.open()
            except asyncio.CancelledError:
                await line.close()
                raise
            except Exception as error:
                # Whatever it was: whoever gives up here never finds the server again.
                self._lost(error, first=failures == 0 and not gap)
                failures, gap = failures + 1, True
                await line.close()
            else:
                self.line, failures = line, 0
                self._found(gap=gap)
                await line.broken.wait()
                self.line, gap = None, True
                self._lost(Unavailable(line.why), first=True)
                await line.close()
            self._tried.set()
            pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2 ** min(failures, 10))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    def _found(self, *, gap: bool) -> None:
        self._degraded(False)
        self._tried.set()
        if gap:
            log.info("NATS is back")
            self._back()

    def _lost(self, error: Exception, *, first: bool) -> None:
        known = isinstance(error, Unavailable)
        self.why = error.detail if isinstance(error, Unavailable) else f"NATS cannot be used ({type(error).__name__})."
        self._degraded(True)
        if first:
            log.warning(self._loss, error=self.why, exc_info=None if known else error)
