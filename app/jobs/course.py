"""The course of a job that is carried out as a whole: its progress while it goes on, its end with its effect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from app.db.database import Database, Reader
from app.errors import Unavailable
from app.jobs import store
from app.jobs.store import Claimed, Step

# A task that is cut off is looked at again so often.
CUT_OFF_SECONDS = 1.0
# Progress is written down so often at most.
TELL_SECONDS = 1.0


class JobLost(Exception):
    """Another runner has the job; what this one did of it is rolled back."""


class Course:
    """Tells how far a job is. A job that is begun again, after its runner was killed, tells it from the beginning.

    Once it is `ending` nobody holds it any more, which does not say that another one does.
    """

    def __init__(
        self, database: Database, job: Claimed, lease_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._job, self._lease_seconds, self._clock = database, job, lease_seconds, clock
        self._told_at: float | None = None
        self.ending = False

    async def tell(self, done: int, total: int | None, counts: dict[str, int] | None = None) -> None:
        """Write down how much is done, in whatever unit the kind counts; what comes within a second of it is left out.

        What cannot be written down now is told the next time. Raises `JobLost`.
        """
        now = self._clock()
        if self._told_at is not None and now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        try:
            held = await store.tell(self._database, self._job, done, total, counts or {})
        except Unavailable:
            # What was done for an hour is not thrown away because the pool is busy.
            return
        if not held:
            raise JobLost

    async def finish(self, transaction: Reader, report: dict[str, Any] | None = None, done: int | None = None) -> None:
        """End the job as completed, in the transaction of its effect: both or neither. Raises `JobLost`."""
        if done is not None and not await store.tell(transaction, self._job, done, done, {}):
            raise JobLost
        if not await store.advance(transaction, self._job, Step(report=report, finished=True), self._lease_seconds):
            raise JobLost
        self.ending = True


async def cut_off(task: asyncio.Future[Any]) -> None:
    """End a task, whatever it is at. A cancellation is lost where what is awaited ends at that very moment: so it is
    asked again, lest it goes on for ever with nobody to take what it makes. What it raised is not raised here.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CUT_OFF_SECONDS)
    if not task.cancelled():
        task.exception()
