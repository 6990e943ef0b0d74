"""Work that goes on for as long as it takes, while whoever does it holds what it is done to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from app.jobs.course import cut_off

_Given = TypeVar("_Given")


async def while_held(
    work: Coroutine[object, object, _Given], pause_seconds: float, renew: Callable[[], Awaitable[bool]]
) -> tuple[_Given] | None:
    """What the work gives; None where it was cut off because `renew`, asked again after each pause, said no.

    Raises what the work raises, and what `renew` does; nothing of the work runs on afterwards.
    """
    working = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({working}, timeout=pause_seconds)
            if done:
                return (working.result(),)
            if not await renew():
                return None
    finally:
        await cut_off(working)
