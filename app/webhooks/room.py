"""How much of deliveries a process has under way: attempts, and bytes of bodies, each up to a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# How many are taken at once, and of large bodies no more than come to so many bytes.
TAKEN_MAX = 100
TAKEN_BYTES = 33_554_432
# Bodies that are under way at once: beyond so many bytes nothing more is taken.
BODIES_BYTES_MAX = 268_435_456
# An endpoint that is well answers sooner.
HANGING_SECONDS = 2.0


class Room:
    """What a process may have under way.

    An attempt that has gone on for `HANGING_SECONDS` makes room for another, while no more than `attempts_max` do so:
    otherwise some dozens of endpoints that hang would hold up all others for as long as an attempt may last.
    """

    def __init__(self, attempts_max: int) -> None:
        self._attempts_max = attempts_max
        self._open, self._hanging = 0, 0
        self._bytes, self._largest_bytes = 0, 1
        self._some = asyncio.Event()
        self._some.set()

    async def free(self) -> int:
        """How many deliveries may be begun at once, as soon as it is any."""
        # What hung and ended may have taken the room again before who waits for it has his turn.
        while not self._some.is_set():
            await self._some.wait()
        # As large as the last ones were, the next may be.
        return min(TAKEN_MAX, max(1, TAKEN_BYTES // self._largest_bytes), self._attempts_max - self._open)

    def begin(self, sizes_bytes: Sequence[int]) -> None:
        """Deliveries with bodies of these sizes are under way."""
        self._largest_bytes = max(sizes_bytes, default=1) or 1
        self._open += len(sizes_bytes)
        self._bytes += sum(sizes_bytes)
        self._look()

    def end(self, deliveries: int) -> None:
        """So many are settled, and under way no more."""
        self._open -= deliveries
        self._look()

    @contextmanager
    def attempt(self, size_bytes: int) -> Iterator[None]:
        """While an attempt lasts at a delivery that was begun; its body is dropped at the end of it."""
        hanging = False

        def hang() -> None:
            nonlocal hanging
            if self._hanging < self._attempts_max:
                hanging = True
                self._move(1)

        timer = asyncio.get_running_loop().call_later(HANGING_SECONDS, hang)
        try:
            yield
        finally:
            timer.cancel()
            self._bytes -= size_bytes
            # Until it is settled it counts as before.
            self._move(-1 if hanging else 0)

    def _move(self, attempts: int) -> None:
        self._hanging += attempts
        self._open -= attempts
        self._look()

    def _look(self) -> None:
        if self._open < self._attempts_max and self._bytes < BODIES_BYTES_MAX:
            self._some.set()
        else:
            self._some.clear()
