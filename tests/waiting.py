"""Waiting for a real condition, with a bound: never for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

BOUND_SECONDS = 40.0
STEP_SECONDS = 0.01


def until(condition: Callable[[], Any], what: str, seconds: float = BOUND_SECONDS) -> Any:
    """What the condition gives, once that is true; fails after a bound, naming what did not come."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(STEP_SECONDS)
    return found


async def eventually(condition: Callable[[], Awaitable[Any]], what: str, seconds: float = BOUND_SECONDS) -> Any:
    """The same for a condition that awaits."""
    deadline = time.monotonic() + seconds
    while not (found := await condition()):
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        await asyncio.sleep(STEP_SECONDS)
    return found
