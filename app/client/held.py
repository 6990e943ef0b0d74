"""A submission in a worker's hands: written for under its attempt, dropped with its lease, settled in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from app.client.errors import ConflictError, StaleAttemptError
from app.client.submission_bodies import Requeueing
from app.client.submission_models import Submission

if TYPE_CHECKING:
    from app.client.clients import AsyncBatch, AsyncCairn

log = logging.getLogger("cairn.work")
End = Literal["completed", "failed", "requeued", "lost"]
ERROR_CHARACTERS_MAX = 4_000


class Requeue(Exception):
    """Raise it in a submission's block to give the submission back, to be claimed again after a delay."""

    def __init__(self, reason: str = "", *, delay_seconds: float = 0) -> None:
        super().__init__(reason)
        self.delay_seconds = delay_seconds


class HeldSubmission(Submission):
    """A claimed submission whose lease the worker renews. Use it as an async context manager, once.

    `cairn` is the client to write with: every write carries the attempt, so it happens only while the attempt owns
    the submission; once the lease is lost, nothing more is sent. While the service does not answer, it tries again for
    as long as the lease holds. What is settled when the block is left:

    - at its end: completed;
    - by `Requeue`: back in the queue, to be claimed after its delay;
    - by any other `Exception`: failed with its text. The exception is logged and goes no further;
    - because the lease is lost, or a write told so: nothing. The block's task is cancelled, and the block ends quietly;
    - because the worker drains and its grace is over: back in the queue. The block ends quietly too;
    - by a cancellation from elsewhere, `SystemExit` or `KeyboardInterrupt`: back in the queue, and on it goes.

    `complete`, `fail` and `requeue` settle it earlier; how its block is left then changes nothing.
    """

    def __init__(
        self,
        submission: Submission,
        cairn: AsyncCairn,
        deadline: float,
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(submission.json_bytes)
        assert self.attempt_id is not None
        self.attempt: tuple[str, str] = (self.id, self.attempt_id)
        self.end: End | None = None
        self.cairn = cairn.under(self.attempt, self.check)
        self._plain, self._on_change = cairn, on_change
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._drained = self._settling = self._leaving = self._left = self._interrupted = False
        self._settlement: asyncio.Timeout | None = None
        self._deadline = deadline
        self._timer = self._loop.call_at(deadline, self._lapse)

    @property
    def entered(self) -> bool:
        """Whether its block has begun."""
        return self._task is not None

    @property
    def in_hand(self) -> bool:
        """Whether there is anything left to do about it."""
        return not self._left if self.entered else self.end is None

    @property
    def renewable(self) -> bool:
        """Whether its lease is still wanted: while its block runs or settles, and the worker does not drain."""
        return self.end is None and (not self._drained or self._settling)

    def check(self) -> None:
        """Raise `StaleAttemptError` once the lease is lost, by the word of the service or by the loop's clock."""
        if self.end == "lost" or (self.end is None and self._loop.time() >= self._deadline):
            raise _lost(self.id)

    def renewed(self, until: float) -> None:
        """Go on until a time of the loop's clock."""
        if self.end is None:
            self._deadline = until
            self._timer.cancel()
            self._timer = self._loop.call_at(until, self._lapse)
            if self._settlement is not None:
                self._settlement.reschedule(until)

    def lose(self, why: str) -> None:
        """Stop the work: somebody else may have it. While it is being settled, the answer to that decides instead."""
        if self.end is None and not self._settling:
            self._give_up(why)
            self._interrupt()

    def drain(self) -> None:
        """Stop the work, to give it back."""
        if not self._drained:
            self._drained = True
            self._interrupt()

    async def complete(self, batch: AsyncBatch | None = None) -> None:
        """Settle it as completed; with a batch of this submission's `cairn`, in one transaction with its operations.

        Like `fail` and `requeue`, it raises `StaleAttemptError` when the lease turns out to be lost.
        """
        if batch is None:
            await self._settle("completed", lambda: self._plain.submissions.complete(*self.attempt))
        else:
            batch.submissions.complete(*self.attempt)
            # Another conflict than this one is about another operation; the block sees it.
            await self._settle("completed", batch.send, StaleAttemptError)

    async def fail(self, error: str) -> None:
        """Settle it as failed."""
        text = _storable(error)
        await self._settle("failed", lambda: self._plain.submissions.fail(*self.attempt, text))

    async def requeue(self, reason: str = "", *, delay_seconds: float = 0) -> None:
        """Give it back, to be claimed again after a delay; the service fails it when no attempt or time is left."""
        said: Requeueing = {}
        if reason:
            said["error"] = _storable(reason)
        if delay_seconds:
            said["delay_seconds"] = delay_seconds
        await self._settle("requeued", lambda: self._plain.submissions.requeue(*self.attempt, **said))

    async def release(self) -> None:
        """Give it back although its block has not begun; a lease that is lost meanwhile is as good."""
        with suppress(StaleAttemptError):
            await self.requeue()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("the block of a submission is entered once")
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        if self.end is not None or self._drained:
            self._interrupt()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._leaving = True
        try:
            if await self._was_interrupted(error):
                error = None
            await self._settle_as_left(error)
            return error is None or isinstance(error, Exception)
        finally:
            self._timer.cancel()
            self._left = True
            self._on_change()

    async def _settle_as_left(self, error: BaseException | None) -> None:
        if self.end is not None:
            return
        try:
            if isinstance(error, StaleAttemptError) and error.facts.get("submission_id", self.id) == self.id:
                self._give_up(str(error))
            elif isinstance(error, Requeue):
                await self.requeue(str(error), delay_seconds=error.delay_seconds)
            elif isinstance(error, Exception):
                log.error("submission %s: attempt %s failed", *self.attempt, exc_info=error)
                await self.fail(f"{type(error).__name__}: {error}")
            elif error is None and not self._drained:
                await self.complete()
            else:
                await self.requeue()
        except StaleAttemptError:
            assert self.end == "lost"

    async def _settle(
        self, end: End, call: Callable[[], Awaitable[object]], refusal: type[ConflictError] = ConflictError
    ) -> None:
        """Settle for as long as the lease holds; a refusal says that it is lost."""
        if self.end is None and self._loop.time() >= self._deadline:
            self._give_up("it lapsed before it was settled")
        if self.end is not None:
            raise _lost(self.id) if self.end == "lost" else RuntimeError(f"submission {self.id} is settled: {self.end}")
        self._settling = True
        try:
            async with asyncio.timeout_at(self._deadline) as self._settlement:
                answer = await call()
        except (TimeoutError, refusal) as refused:
            self._give_up(str(refused) or "it lapsed before it was settled")
            raise _lost(self.id) from refused
        finally:
            self._settling, self._settlement = False, None
        # What is given back without an attempt left is failed by the service.
        is_spent = end == "requeued" and isinstance(answer, Submission) and answer.status == "settled"
        self._finish("failed" if is_spent else end)
        if self._drained:
            self._interrupt()

    def _lapse(self) -> None:
        self.lose("it was not renewed in time")

    def _give_up(self, why: str) -> None:
        log.warning("submission %s: the lease of attempt %s is lost: %s", *self.attempt, why)
        self._finish("lost")

    def _finish(self, end: End) -> None:
        self.end = end
        self._timer.cancel()
        self._on_change()

    def _interrupt(self) -> None:
        """Cancel the block, unless it is settling or being left, which ends by itself."""
        if self._task is not None and not (self._settling or self._leaving or self._interrupted):
            self._interrupted = True
            self._task.cancel()

    async def _was_interrupted(self, error: BaseException | None) -> bool:
        """Take our own cancellation back; whether it is what ended the block."""
        if not self._interrupted or self._task is None:
            return False
        is_ours_alone = self._task.uncancel() <= self._cancelling
        if isinstance(error, asyncio.CancelledError):
            return is_ours_alone
        try:
            # The block ended before the cancellation reached it.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not is_ours_alone:
                raise
        return False


def _lost(submission_id: str) -> StaleAttemptError:
    facts = {"submission_id": submission_id}
    return StaleAttemptError("stale_attempt", detail="The lease of this submission is lost.", facts=facts)


def _storable(text: str) -> str:
    """Text as a column can hold it, cut to a bound."""
    return text[:ERROR_CHARACTERS_MAX].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
