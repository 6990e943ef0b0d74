"""Settles attempts: what came of each is written for many at once, and what nothing was heard of counts as failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from app.db.database import Database
from app.errors import AppError, Unavailable
from app.settings import WebhookSettings
from app.webhooks.pipeline import SQL
from app.webhooks.policy import Again, Dead, Decision, Delivered, decide, pauses
from app.webhooks.sender import Outcome

# Outcomes that come within this time of each other share a statement, up to so many.
GATHER_SECONDS = 0.004
RESULTS_MAX = 500
# Between two tries while PostgreSQL is away; and where somebody holds the webhook, as the relay does for a moment.
PAUSE_SECONDS, ASIDE_SECONDS = 0.5, 0.1
# What an attempt has beyond its own time until it counts as lost: to be begun, and to be written down.
MARGIN_SECONDS = 5.0
UNSTORABLE = "What came of the attempt could not be stored in its words."
LOST = "The process ended during the attempt."
log = structlog.get_logger("cairn.webhooks")


@dataclass(frozen=True)
class Interrupted:
    """The attempt was broken off by its own process: it does not count, and another one is due at once."""


@dataclass(frozen=True)
class Result:
    """An attempt that has ended: which one it was, how it went, and what follows."""

    tenant_id: str
    delivery_id: str
    number: int
    started_at: datetime
    outcome: Outcome
    decision: Decision | Interrupted
    # Where the attempt went; what came of it says nothing of a webhook that leads elsewhere by now.
    url: str | None

    @property
    def status(self) -> str:
        """What its delivery becomes."""
        if isinstance(self.decision, Delivered):
            return "delivered"
        return "dead" if isinstance(self.decision, Dead) else "pending"

    def without_words(self) -> Result:
        """The same, without what the endpoint said."""
        return replace(self, outcome=replace(self.outcome, error=UNSTORABLE, response=None))


@dataclass(frozen=True)
class Settled:
    """What a statement settled: deliveries that wait again, that are dead, and webhooks that were disabled.

    `aside` are the ids of deliveries that it did not settle, because somebody holds their webhook.
    """

    pending: int
    dead: int
    disabled: int
    aside: tuple[str, ...] = ()


async def settle(database: Database, results: Sequence[Result], disable_after_seconds: float) -> Settled:
    """Write down what came of these attempts, in one statement. Those that are under way no more are left alone."""
    rows = await database.rows(
        SQL["settle"],
        tenant_ids=[each.tenant_id for each in results],
        ids=[each.delivery_id for each in results],
        numbers=[each.number for each in results],
        statuses=[each.status for each in results],
        pauses=[each.decision.seconds if isinstance(each.decision, Again) else 0.0 for each in results],
        reasons=[each.decision.reason if isinstance(each.decision, Dead) else None for each in results],
        interrupted=[isinstance(each.decision, Interrupted) for each in results],
        gone=[isinstance(each.decision, Dead) and each.decision.gone for each in results],
        status_codes=[each.outcome.status_code for each in results],
        errors=[each.outcome.error for each in results],
        responses=[each.outcome.response for each in results],
        durations=[each.outcome.duration_ms for each in results],
        started_ats=[each.started_at for each in results],
        urls=[each.url for each in results],
        disable_after_seconds=disable_after_seconds,
    )
    row = rows[0]
    return Settled(row["pending"], row["dead"], row["disabled"], tuple(row["aside"]))


class Settler:
    """Gathers the results of a process and settles them, one statement after the other."""

    def __init__(self, database: Database, settings: WebhookSettings, settled: Callable[[int, Settled], None]) -> None:
        """`settled` is told after each commit how many results it took, and what they came to."""
        self._database, self._settings, self._settled = database, settings, settled
        self._waiting: list[Result] = []
        self._aside: list[Result] = []
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="settle deliveries")

    def add(self, result: Result) -> None:
        """An attempt has ended; it is settled soon, and stays here until then."""
        self._waiting.append(result)
        self._some.set()

    async def close(self) -> None:
        """Settle the rest. Raises `AppError` where that cannot be: then those attempts lapse."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._waiting += self._aside
        self._aside.clear()
        while self._waiting:
            await self._settle()
        if self._aside:
            raise Unavailable(f"Somebody holds the webhooks of {len(self._aside)} deliveries.")

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHER_SECONDS)
            try:
                await self._settle()
            except Exception as error:
                log.warning("cannot settle deliveries", waiting=len(self._waiting), error=str(error)[:500],
                            exc_info=None if isinstance(error, AppError) else error)  # fmt: skip
                await asyncio.sleep(PAUSE_SECONDS)

    async def _settle(self) -> None:
        results = self._waiting[:RESULTS_MAX]
        # Where this is cut off, they stay and are settled again, which changes nothing for those that were.
        settled = await self._write(results)
        del self._waiting[: len(results)]
        if not self._waiting:
            self._some.clear()
        if settled.aside:
            if not self._aside:
                asyncio.get_running_loop().call_later(ASIDE_SECONDS, self._take_up)
            self._aside += [each for each in results if each.delivery_id in settled.aside]
        self._settled(len(results) - len(settled.aside), settled)

    def _take_up(self) -> None:
        """Try again what was left aside."""
        self._waiting += self._aside
        self._aside.clear()
        if self._waiting:
            self._some.set()

    async def _write(self, results: Sequence[Result]) -> Settled:
        try:
            return await settle(self._database, results, self._settings.disable_after_seconds)
        except Unavailable:
            raise
        except AppError:
            # Something that an endpoint said cannot be stored; it holds up nothing else.
            if len(results) == 1:
                bare = [results[0].without_words()]
                return await settle(self._database, bare, self._settings.disable_after_seconds)
            half = len(results) // 2
            first, second = await self._write(results[:half]), await self._write(results[half:])
            return Settled(
                first.pending + second.pending, first.dead + second.dead, first.disabled + second.disabled,
                first.aside + second.aside,
            )  # fmt: skip


def recover(settings: WebhookSettings, moved: Callable[[Settled], None]) -> Callable[[Database, int], Awaitable[int]]:
    """The job that settles the attempts of which nothing was heard in time: each counts as failed.

    So a delivery that kills its worker is tried as often as the schedule says, and is a dead letter then.
    """
    schedule = pauses(settings.schedule)

    async def settle_lost(database: Database, _limit: int) -> int:
        rows = await database.rows(SQL["lost_attempts"], seconds=settings.attempt_seconds + MARGIN_SECONDS)
        if not rows:
            return 0
        outcome = Outcome(None, LOST, None, int(settings.attempt_seconds * 1000), None)
        results = [
            Result(
                row["tenant_id"], row["id"], row["number"], row["started_at"], outcome,
                decide(outcome, row["round_count"], schedule, settings.retry_after_seconds_max), row["url"],
            )
            for row in rows
        ]  # fmt: skip
        moved(await settle(database, results, settings.disable_after_seconds))
        return len(rows)

    return settle_lost
