"""The worker loop: claims submissions, renews the leases of all that is in hand, and drains when told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from app.client.call import Items
from app.client.errors import PersistenceError, RateLimitedError, UnreachableError
from app.client.held import HeldSubmission
from app.client.reply import Reply
from app.client.retry import Outcome, Retry
from app.client.signals import told_of
from app.client.submission_bodies import NextClaim
from app.client.submission_models import Submission

if TYPE_CHECKING:
    from app.client.clients import AsyncCairn

log = logging.getLogger("cairn.work")

# As many as one call renews, and as one call claims.
CONCURRENCY_MAX = 1_000
CLAIM_MAX = 100
# An empty answer that comes sooner than this was not waited for; the next claim waits instead.
EMPTY_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 5.0


class PatientRetry(Retry):
    """Tries again for as long as somebody waits, and says so in the log."""

    def pause_seconds(self, attempt: int, outcome: Outcome) -> float | None:
        """Like `Retry`, with no end of tries."""
        pause = super().pause_seconds(min(attempt, self.attempt_max - 1), outcome)
        if pause is not None:
            said = outcome.status if isinstance(outcome, Reply) else repr(outcome)
            log.warning("the service does not answer (try %d): %s; again in %.1f s", attempt, said, pause)
        return pause


PATIENT = PatientRetry(attempt_max=16, pause_max_seconds=PAUSE_SECONDS_MAX, retry_after_max_seconds=3600)


def own_name() -> str:
    """A name that no other process has: an owner's leases are renewed together, so two must not share one."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class WorkFields(TypedDict, total=False):
    """How a worker works; see `WorkOptions`, which has what is left out."""

    agent: str
    owner_id: str
    concurrency: int
    lease_seconds: int
    wait_seconds: int
    grace_seconds: float
    signals: Sequence[signal.Signals]


@dataclass(frozen=True)
class WorkOptions:
    """How a worker works.

    It claims submissions of `agent` (of any unless given) and holds at most `concurrency` at once. Leases last
    `lease_seconds` and are renewed at a third of that. A claim waits for work for `wait_seconds`. When one of `signals`
    comes, the worker claims no more, and what is in hand has `grace_seconds` to end; a second one ends the grace.
    """

    agent: str | None = None
    owner_id: str = field(default_factory=own_name)
    concurrency: int = 1
    lease_seconds: int = 30
    wait_seconds: int = 20
    grace_seconds: float = 25.0
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= CONCURRENCY_MAX or self.lease_seconds < 1:
            raise ValueError(f"concurrency is from 1 to {CONCURRENCY_MAX}, lease_seconds from 1")


class Worker:
    """Claims and holds submissions for one loop over `submissions`."""

    def __init__(self, cairn: AsyncCairn, options: WorkOptions) -> None:
        self._cairn, self._patient = cairn, cairn.trying_again(PATIENT)
        self._options = options
        self._held: list[HeldSubmission] = []
        self._waiting: list[HeldSubmission] = []
        self._changed, self._draining = asyncio.Event(), asyncio.Event()
        self._renewal_due = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def submissions(self) -> AsyncGenerator[HeldSubmission, None]:
        """Submissions as they are claimed, until a signal drains the worker."""
        with told_of(self._options.signals, self.drain):
            try:
                while (submission := await self._next()) is not None:
                    yield submission
            finally:
                await self._give_back()

    def drain(self) -> None:
        """Claim no more. What is in hand may end within the grace; called again, the grace is over."""
        if self._draining.is_set():
            self._end_grace()
        else:
            log.info("worker %s drains: %d in hand", self._options.owner_id, len(self._in_hand()))
            self._draining.set()
            self._loop.call_later(self._options.grace_seconds, self._end_grace)

    async def _next(self) -> HeldSubmission | None:
        while True:
            self._changed.clear()
            held = self._in_hand()
            if self._draining.is_set():
                if all(one.end == "lost" or not one.entered for one in held):
                    return None
                await self._changed.wait()
            elif self._waiting:
                submission = self._waiting.pop(0)
                if submission.in_hand:
                    return submission
            elif len(held) < self._options.concurrency:
                await self._claim(min(CLAIM_MAX, self._options.concurrency - len(held)))
            else:
                await self._room(held)

    async def _room(self, held: list[HeldSubmission]) -> None:
        """Wait until something has left our hands. Raises `RuntimeError` when nothing ever will."""
        # A task that was made for a submission enters its block in the loop's next turn.
        await asyncio.sleep(0)
        if not any(one.entered for one in held):
            raise RuntimeError("a submission is worked on within `async with submission:`, and none was entered")
        await _first(self._changed, self._draining)

    async def _claim(self, limit: int) -> None:
        """Claim up to so many, waiting for them; return without any when the worker drains or there are none."""
        asked: NextClaim = {"limit": limit, "lease_seconds": self._options.lease_seconds}
        asked["wait_seconds"] = self._options.wait_seconds
        if self._options.agent is not None:
            asked["agent"] = self._options.agent
        began = self._loop.time()
        claim = asyncio.ensure_future(self._patient.submissions.claim_next(self._options.owner_id, **asked))
        try:
            await _first(self._draining, claim)
        finally:
            claim.cancel()
        if not claim.done():
            # It hangs up. What the service claims for it nevertheless lapses: nobody knows of it here.
            await asyncio.wait({claim})
            return
        try:
            claimed = claim.result()
        except PersistenceError as error:
            if not _is_passing(error):
                raise
            log.warning("worker %s could not claim: %s", self._options.owner_id, error)
            claimed = None
        if claimed:
            self._take(claimed)
        elif self._loop.time() - began < EMPTY_SECONDS_MIN:
            await self._pause(EMPTY_SECONDS_MIN)

    def _take(self, claimed: Items[Submission]) -> None:
        now = self._loop.time()
        for submission in claimed:
            for older in self._held:
                if older.id == submission.id:
                    older.lose("this worker has claimed it again")
            deadline = now + self._options.lease_seconds
            held = HeldSubmission(submission, self._patient, deadline, self._changed.set)
            self._held.append(held)
            self._waiting.append(held)
        if claimed.reply.replayed:
            # The claim is older than its answer: ask what is still ours before long.
            self._renewal_due.set()
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        """Renew everything in hand in one call, each time a third of the lease has passed, until nothing is."""
        interval = self._options.lease_seconds / 3
        pause = interval
        while self._in_hand():
            await self._until_renewal(pause)
            held = {one.id: one for one in self._in_hand() if one.renewable}
            if not held:
                pause = interval
                continue
            sent_at = self._loop.time()
            try:
                # One that hangs is worth no more than one that fails: the next may come through in time.
                async with asyncio.timeout(interval):
                    renewal = await self._cairn.submissions.renew_leases(
                        self._options.owner_id, [*held], lease_seconds=self._options.lease_seconds
                    )
            except (TimeoutError, PersistenceError) as error:
                log.warning("worker %s could not renew its leases: %s", self._options.owner_id, error or "no answer")
                pause = interval / 4 * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
                continue
            for submission_id in renewal.renewed:
                held[submission_id].renewed(sent_at + self._options.lease_seconds)
            for submission_id in renewal.skipped:
                held[submission_id].lose("the service says that it is not ours")
            pause = interval

    async def _until_renewal(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._renewal_due.wait()
        except TimeoutError:
            return
        self._renewal_due.clear()

    def _in_hand(self) -> list[HeldSubmission]:
        self._held = [one for one in self._held if one.in_hand]
        return self._held

    def _end_grace(self) -> None:
        for one in self._in_hand():
            one.drain()

    async def _give_back(self) -> None:
        """Give back what nobody has entered; what somebody has goes on, and is renewed, until its block is left."""
        await asyncio.gather(*(one.release() for one in self._in_hand() if not one.entered))
        if self._renewing is not None and not self._in_hand():
            self._renewing.cancel()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds * random.uniform(0.5, 1.0)):  # noqa: S311 - jitter is no secret
                await self._draining.wait()
        except TimeoutError:
            pass


async def _first(*awaited: asyncio.Event | asyncio.Future[Any]) -> None:
    """Return once the first of these has happened."""
    futures = [asyncio.ensure_future(one.wait()) if isinstance(one, asyncio.Event) else one for one in awaited]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaited, strict=True):
            if isinstance(one, asyncio.Event):
                future.cancel()


def _is_passing(error: PersistenceError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, UnreachableError | RateLimitedError) or error.status >= 500
