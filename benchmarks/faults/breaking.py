"""Breaks one part after another, by chance but the same for the same seed, and puts each together again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.faults.parts import Part, paused
from benchmarks.faults.stage import Stage

QUIET_SECONDS = (1.0, 4.0)
AWAY_SECONDS = (0.5, 4.0)


@dataclass
class Breaking:
    """The faults of a run. `done` counts them by what was done to what."""

    stage: Stage
    chance: random.Random
    flush: Callable[[], object]
    say: Callable[[str], None]
    done: dict[str, int] = field(default_factory=dict)

    async def until(self, ends_at: float, enough: asyncio.Event) -> None:
        """Break things until there was enough of it, or the time is up; everything runs again when it returns."""
        stage = self.stage
        faults: tuple[tuple[str, Callable[[], object]], ...] = (
            ("kill and restart nats-server", lambda: self._kill(stage.nats)),
            ("kill and restart Valkey", lambda: self._kill(stage.valkey)),
            ("kill and restart the other API process", lambda: self._kill(stage.shaky)),
            ("pause nats-server", lambda: self._pause(stage.nats)),
            ("pause Valkey", lambda: self._pause(stage.valkey)),
            ("flush Valkey", self.flush),
        )
        # Each of them once, in any order; then whichever chance has it.
        order = self.chance.sample(faults, len(faults))
        while time.monotonic() < ends_at and not enough.is_set():
            name, fault = order.pop() if order else self.chance.choice(faults)
            self.say(name)
            await asyncio.to_thread(fault)
            self.done[name] = self.done.get(name, 0) + 1
            with suppress(TimeoutError):
                async with asyncio.timeout(self.chance.uniform(*QUIET_SECONDS)):
                    await enough.wait()

    def _kill(self, part: Part) -> None:
        part.kill()
        time.sleep(self.chance.uniform(*AWAY_SECONDS))
        part.start()

    def _pause(self, part: Part) -> None:
        with paused(part):
            time.sleep(self.chance.uniform(*AWAY_SECONDS))
