"""Waiting for a real condition, with a bound: never for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from app.db.sql import Statement
from app.http.service import Service

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


async def held_up(service: Service, statements: int = 1) -> None:
    """Until so many statements of the service wait for a lock that somebody else has."""

    async def waiting() -> bool:
        row = await service.ground.database.row(
            Statement(
                "SELECT count(*) AS waiting FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )
        return row is not None and row["waiting"] >= statements

    await eventually(waiting, f"{statements} waiting statements")
