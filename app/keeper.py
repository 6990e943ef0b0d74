"""Keeps a line to a server open: opens another one whenever it breaks, for as long as it is asked to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import structlog

from app.errors import Unavailable

log = structlog.get_logger("cairn.keeper")
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0
# A library may swallow that it is cancelled (what `wait_for` waits for was done at the same moment).
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

    `server` is what it leads to and `loss` what is said where there is none, in words for the log. `degraded` is told
    with each try whether it is away; `back` is called whenever a line opens after a gap. Tries are at most
    `pause_seconds_max` and an opening apart. `watch` returns once a line is broken, and raises nothing;
    meanwhile it may say `lost` and `found` of a line that stands and refuses what it is for.
    """

    def __init__(
        self,
        make: Callable[[], L],
        *,
        server: str,
        loss: str,
        pause_seconds_max: float = PAUSE_SECONDS_MAX,
        degraded: Callable[[bool], None] = lambda _away: None,
        back: Callable[[], None] = lambda: None,
        watch: Callable[[L], Awaitable[object]] = lambda line: line.broken.wait(),
    ) -> None:
        self._make, self._server, self._loss, self._pause_seconds_max = make, server, loss, pause_seconds_max
        self._degraded, self._back, self._watch = degraded, back, watch
        self._tried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self.line: L | None = None
        self.why = f"{server} does not answer."

    @property
    def keeps(self) -> bool:
        """Whether it was opened and not closed."""
        return self._keeping is not None

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""
        self._keeping = asyncio.create_task(self._keep(), name=f"line to {self._server}")
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
                self.lost(error, first=failures == 0 and not gap)
                failures, gap = failures + 1, True
                await line.close()
            else:
                self.line, failures = line, 0
                self.found(gap=gap)
                await self._watch(line)
                self.line, gap = None, True
                self.lost(Unavailable(line.why), first=True)
                await line.close()
            self._tried.set()
            pause = min(self._pause_seconds_max, PAUSE_SECONDS_MIN * 2 ** min(failures, 10))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    def found(self, *, gap: bool) -> None:
        """The line does what it is for; `gap` where it did not before."""
        self._degraded(False)
        self._tried.set()
        if gap:
            log.info(f"{self._server} is back")
            self._back()

    def lost(self, error: Exception, *, first: bool) -> None:
        """The line, or what it is for, is lost; `first` where that was not so before, and is to be logged."""
        known = isinstance(error, Unavailable)
        name = type(error).__name__
        self.why = error.detail if isinstance(error, Unavailable) else f"{self._server} cannot be used ({name})."
        self._degraded(True)
        if first:
            log.warning(self._loss, error=self.why, exc_info=None if known else error)
