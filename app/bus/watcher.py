"""Waits for what others write: woken by hints, and behind them by one look for all that this process waits for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from app.bus.hints import Key
from app.errors import AppError

log = structlog.get_logger("cairn.bus")


class Watched(NamedTuple):
    """A key that is waited for, and the mark that its readers have read up to."""

    key: Key
    mark: Hashable


Moved = Callable[[Collection[Watched]], Awaitable[Collection[Watched]]]
"""Gives those of the watched where there is more than their mark; one statement for them all."""


class Wake:
    """One reader's bell. What rings after it was made is not lost: it ends the next `wait`.

    `mark` is how far the reader has read, as the look of its kind understands it; the reader sets it after each read.
    """

    def __init__(self) -> None:
        self.mark: Hashable = None
        self.ended = False
        self._bell = asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        """True once it has rung since the last time; False after so many seconds, and at once when it has ended."""
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return False
        if self.ended:
            return False
        self._bell.clear()
        return True

    def ring(self) -> None:
        """There may be more to read."""
        self._bell.set()

    def end(self) -> None:
        """Nobody will read any more."""
        self.ended = True
        self._bell.set()


class Watcher:
    """The bells of this process, by key. For each kind that is waited for one task looks, every `seconds` or so."""

    def __init__(self, kinds: Mapping[str, Moved], seconds: float) -> None:
        self._kinds, self._seconds = kinds, seconds
        self._wakes: dict[str, dict[Key, set[Wake]]] = {kind: {} for kind in kinds}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self.ended = False

    @contextmanager
    def watch(self, *keys: Key) -> Iterator[Wake]:
        """A bell that rings when one of these keys moves. Register, then read, then wait: so nothing is missed."""
        wake = Wake()
        if self.ended:
            wake.end()
        for key in keys:
            self._wakes[key.kind].setdefault(key, set()).add(wake)
            if key.kind not in self._looks and not self.ended:
                self._looks[key.kind] = asyncio.create_task(self._look(key.kind), name=f"look for {key.kind}")
        try:
            yield wake
        finally:
            for key in keys:
                wakes = self._wakes[key.kind]
                wakes[key].discard(wake)
                if not wakes[key]:
                    del wakes[key]

    def heard(self, key: Key | None) -> None:
        """Ring for a key that was told; for all of them where some may have been missed."""
        if key is None:
            for wake in self._every():
                wake.ring()
        elif key.kind in self._wakes:
            for wake in self._wakes[key.kind].get(key, ()):
                wake.ring()

    def end(self) -> None:
        """Let everybody who waits go, now and from now on."""
        self.ended = True
        for wake in self._every():
            wake.end()

    async def close(self) -> None:
        """End, and look no more."""
        self.end()
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _every(self) -> set[Wake]:
        return {wake for wakes in self._wakes.values() for bells in wakes.values() for wake in bells}

    async def _look(self, kind: str) -> None:
        """Look as long as anybody waits for this kind."""
        wakes, failing = self._wakes[kind], False
        while wakes:
            # A little apart, so that processes started together do not look together for ever.
            await asyncio.sleep(self._seconds * random.uniform(0.9, 1.1))  # noqa: S311 - spread, not secrecy
            watched = {Watched(key, wake.mark) for key, bells in wakes.items() for wake in bells}
            if not watched:
                continue
            try:
                moved = await self._kinds[kind](watched)
            except Exception as error:
                if not failing:
                    log.warning("cannot look for what moved", kind=kind, error=f"{type(error).__name__}: {error}"[:500],
                                exc_info=None if isinstance(error, AppError) else error)  # fmt: skip
                failing = True
                continue
            failing = False
            for key, mark in moved:
                for wake in wakes.get(key, ()):
                    # Who has read on meanwhile has another mark, and has seen it.
                    if wake.mark == mark:
                        wake.ring()
        del self._looks[kind]
