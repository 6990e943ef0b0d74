"""Runs the timetable: each job again and again, a bounded time each, whatever happens to any of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from app.bus.bell import Bell
from app.db.database import Database
from app.errors import AppError
from app.http.metrics import Metrics

log = structlog.get_logger("cairn.background")

Job = Callable[[Database, int], Awaitable[int]]
"""A piece of work: does at most so much of it, and says how much it did. Doing it again is harmless."""

RUN_SECONDS = 60.0
# So late, at most, events get positions and deliveries go on once PostgreSQL is back, however long it was away. What
# looks more rarely is in less of a hurry: it may hold others up, as a new partition does.
BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MAX_OF_RARE = 5.0, 30.0
STOP_SECONDS = 1.0
ROUNDS_MAX = 10_000


@dataclass(frozen=True)
class Entry:
    """A line of the timetable: a job, how often it looks for work, and how much it does at once.

    A job with a bell looks at once when it rings; the pause after a failure is kept all the same.
    """

    name: str
    job: Job
    every_seconds: float
    limit: int = 500
    bell: Bell | None = None
    # One run is cut off after so long.
    run_seconds: float = RUN_SECONDS


async def drain(job: Job, database: Database, limit: int = 500) -> int:
    """Run a job until it finds nothing more to do; how much it did. For tests and for commands."""
    total = 0
    for _ in range(ROUNDS_MAX):
        done = await job(database, limit)
        if not done:
            return total
        total += done
    raise RuntimeError("The job always finds more to do.")


async def loop(entry: Entry, database: Database, metrics: Metrics, stop: asyncio.Event) -> None:
    """Run an entry until `stop` is set. A failure is logged, counted and tried again later; it never ends the loop."""
    failures = 0
    while not stop.is_set():
        if entry.bell is not None:
            entry.bell.hush()
        started = time.monotonic()
        try:
            async with asyncio.timeout(entry.run_seconds):
                done = await entry.job(database, entry.limit)
        except Exception as error:
            failures += 1
            metrics.job_runs.labels(entry.name, "failed").inc()
            _tell(entry, error, failures)
            pause = pause_after(failures, entry.every_seconds)
        else:
            failures = 0
            metrics.job_runs.labels(entry.name, "done" if done else "idle").inc()
            pause = 0.0 if done >= entry.limit else entry.every_seconds
        # A little apart, so that processes started together do not look for work together for ever.
        pause *= random.uniform(0.9, 1.1)  # noqa: S311 - no secret
        if entry.bell is not None and pause and not failures:
            if not done:
                # However often it is rung, it rests for as long as it looked in vain.
                await _pause(stop, min(time.monotonic() - started, pause))
            await entry.bell.wait(pause)
        else:
            await _pause(stop, pause)


def pause_after(failures: int, every_seconds: float) -> float:
    """The seconds until a job is tried again that has failed so many times in a row."""
    most = max(BACKOFF_SECONDS_MAX, min(every_seconds, BACKOFF_SECONDS_MAX_OF_RARE))
    return min(most, max(every_seconds, 0.2) * float(2 ** min(failures, 10)))


def _tell(entry: Entry, error: Exception, failures: int) -> None:
    cause = error.__cause__ or error
    log.error(
        "job failed", job=entry.name, failures=failures, error=f"{type(cause).__name__}: {cause}"[:500],
        exc_info=None if isinstance(error, AppError | TimeoutError) else error,
    )  # fmt: skip


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Runner:
    """The timetable, running. `stop` waits a bounded time for what runs, then cuts it off: each is a transaction."""

    def __init__(self, timetable: Sequence[Entry], database: Database, metrics: Metrics) -> None:
        self.timetable, self.database, self.metrics = timetable, database, metrics
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(loop(entry, self.database, self.metrics, self._stop), name=f"background-{entry.name}")
            for entry in self.timetable
        ]

    async def stop(self) -> None:
        """End within about a second."""
        self._stop.set()
        for entry in self.timetable:
            if entry.bell is not None:
                entry.bell.ring()
        if not self._tasks:
            return
        started = time.monotonic()
        _, late = await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        seconds = round(time.monotonic() - started, 3)
        log.info("background stopped", cut_off=[task.get_name() for task in late], seconds=seconds)
