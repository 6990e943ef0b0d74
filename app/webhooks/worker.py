"""Sends the deliveries that this process takes from the queue: claims them, attempts each, passes the results on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any

import structlog

from app.bus.work import Stream, Streams, Taken
from app.db.database import Database
from app.errors import AppError, Unavailable
from app.events import reads as events
from app.events.store import Subject
from app.http.metrics import Metrics
from app.settings import WebhookSettings
from app.webhooks.pipeline import SQL
from app.webhooks.policy import Dead, Decision, Delivered, decide, pauses
from app.webhooks.relay import HandOut, hand_back
from app.webhooks.room import TAKEN_BYTES, TAKEN_MAX, Room
from app.webhooks.sealing import Seal, Secrets
from app.webhooks.sender import Message, Outcome, Sender
from app.webhooks.settling import MARGIN_SECONDS, Interrupted, Result, Settled, Settler

# How long one call waits for work; longer would change nothing.
TAKE_SECONDS = 5.0
# Between two tries while the queue or PostgreSQL is away.
PAUSE_SECONDS = 0.5
# How long attempts may go on once the process stops, and when all must have ended.
GRACE_SECONDS, STOP_SECONDS = 0.4, 1.5
# How many hundreds of messages are given back then; more of them lapse.
GIVEN_BACK_MAX = 20
log = structlog.get_logger("cairn.webhooks")


class Worker:
    """Takes deliveries from the queue and sends them, a bounded number at once."""

    def __init__(
        self,
        settings: WebhookSettings,
        database: Database,
        streams: Streams,
        subjects: Sequence[Subject],
        metrics: Metrics,
        moved: Callable[[Settled], None],
    ) -> None:
        """`moved` is told what was settled, after the commit."""
        self._settings, self._database, self._streams, self._metrics = settings, database, streams, metrics
        self._subjects = {subject.type: subject for subject in subjects}
        self._schedule = pauses(settings.schedule)
        self._moved = moved
        keys = settings.encryption_keys
        self._secrets = Secrets(Seal(keys.get_secret_value() if keys is not None else None))
        self._sender = Sender(settings)
        self._settler = Settler(database, settings, self._settled)
        self._attempts: set[asyncio.Task[None]] = set()
        self._room = Room(settings.in_flight_max)
        self._strangers_told = False
        self._task: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._settler.start()
        self._task = asyncio.create_task(self._run(), name="send deliveries")

    async def stop(self) -> None:
        """End within about a second. Attempts that do not end by then are broken off, and due again at once."""
        ends_at = asyncio.get_running_loop().time() + STOP_SECONDS
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._beginning is not None:
            await _ended({self._beginning})
        await _ended(self._attempts)
        try:
            async with asyncio.timeout_at(ends_at):
                await self._settler.close()
                await self._give_back()
        except (AppError, TimeoutError) as error:
            # What is not written down lapses, and is made again.
            log.warning("ended without writing down what was under way", error=str(error) or type(error).__name__)
        await self._sender.close()

    async def _give_back(self) -> None:
        """Let wait again what this process holds and would have taken next."""
        for _ in range(GIVEN_BACK_MAX):
            taken = await self._streams.take(Stream.QUEUED, TAKEN_MAX, 0)
            if not taken:
                return
            await hand_back(self._database, [each for each in map(_handed, taken) if each is not None])
            for each in taken:
                await each.done()

    async def _run(self) -> None:
        failing = False
        while True:
            free = await self._room.free()
            try:
                taken = await self._streams.take(Stream.QUEUED, free, TAKE_SECONDS)
                if taken:
                    # A claim is not cut off: what it claimed would lapse.
                    self._beginning = asyncio.create_task(self._begin(taken), name="begin deliveries")
                    await asyncio.shield(self._beginning)
                failing = False
            except Exception as error:
                if not failing:
                    log.warning("cannot take deliveries", error=f"{type(error).__name__}: {error}"[:500],
                                exc_info=None if isinstance(error, AppError) else error)  # fmt: skip
                failing = True
                await asyncio.sleep(PAUSE_SECONDS)

    async def _begin(self, taken: Sequence[Taken]) -> None:
        """Claim what the messages speak of, and begin an attempt at each.

        From the commit of the claim on the rows say what is under way, so the messages have done their work: however
        long an attempt takes, none of them comes again.
        """
        handed = [each for each in map(_handed, taken) if each is not None]
        # Of messages of one delivery the latest counts; an older one may come again beside it.
        latest = {each[:2]: each for each in sorted(handed)}
        handed = [latest[delivery] for delivery in dict.fromkeys(each[:2] for each in handed)]
        rows = await self._claim(handed) if handed else []
        if len(rows) < len(handed) and not self._strangers_told:
            await self._look_for_strangers(handed)
        wanted = [row for row in rows if row["wanted"]]
        try:
            begun = await self._bodies(wanted)
        except Exception as error:
            self._room.begin([0] * len(wanted))
            for row in wanted:
                outcome = Outcome(None, "The service could not read what is to be sent.", None, 0, None)
                # What fails by itself is not tried for ever.
                away = isinstance(error, Unavailable)
                self._end(row, outcome, None if away else decide(outcome, row["round_count"], self._schedule, 0))
            raise
        if len(begun) < len(rows):
            self._moved(Settled(len(rows) - len(begun), 0, 0))
        self._room.begin([len(body or b"") for _, body in begun])
        for row, body in begun:
            task = asyncio.create_task(self._attempt(row, body), name="attempt")
            self._attempts.add(task)
            task.add_done_callback(self._attempts.discard)
        for each in taken:
            await each.done()

    async def _claim(self, handed: Sequence[HandOut]) -> list[Any]:
        return await self._database.rows(
            SQL["claim"],
            tenant_ids=[each.tenant_id for each in handed],
            ids=[each.delivery_id for each in handed],
            dispatches=[each.dispatch for each in handed],
            seconds=self._settings.attempt_seconds + MARGIN_SECONDS,
            bytes_max=TAKEN_BYTES,
        )

    async def _look_for_strangers(self, handed: Sequence[HandOut]) -> None:
        """Say once that another Cairn uses these streams: each takes what is the other's, which then comes later."""
        row = await self._database.row(
            SQL["unknown"],
            tenant_ids=[each.tenant_id for each in handed],
            ids=[each.delivery_id for each in handed],
        )
        if row is not None and row["deliveries"]:
            self._strangers_told = True
            log.error(
                "the queue holds deliveries of another database: give each Cairn its own CAIRN_NATS__STREAM_PREFIX",
                deliveries=row["deliveries"],
            )

    async def _bodies(self, rows: Sequence[Any]) -> list[tuple[Any, bytes | None]]:
        """What is sent for each row; what a webhook wants included is read once, and kept before it is sent.

        Rows that would be too much at once beside the others are put back, and are not among them.
        """
        begun: list[tuple[Any, bytes | None]] = [(row, row["body"]) for row in rows if not _lacks_fields(row)]
        late: list[Any] = []
        bytes_left = TAKEN_BYTES
        for (tenant_id, include), group in groupby(
            sorted((row for row in rows if _lacks_fields(row)), key=_including), key=_including
        ):
            some, shown = list(group), list[bytes]()
            if bytes_left > 0:
                shown = await events.with_fields(self._database, tenant_id, some, include, self._subjects, bytes_left)
            begun += await self._keep(list(zip(some, shown, strict=False)))
            late += some[len(shown) :]
            bytes_left -= sum(map(len, shown))
        if late:
            await self._database.rows(SQL["put_back"], **_attempts_of(late))
        return begun

    async def _keep(self, found: Sequence[tuple[Any, bytes]]) -> list[tuple[Any, bytes]]:
        """Keep these bodies with their deliveries; those that were, as one that is under way no more is not sent."""
        if not found:
            return []
        rows = await self._database.rows(
            SQL["keep_bodies"], **_attempts_of([row for row, _ in found]), bodies=[body for _, body in found]
        )
        kept = {(row["tenant_id"], row["id"]) for row in rows}
        return [(row, body) for row, body in found if (row["tenant_id"], row["id"]) in kept]

    async def _attempt(self, row: Any, body: bytes | None) -> None:
        began = time.monotonic()
        with self._room.attempt(len(body or b"")):
            try:
                if body is None:
                    self._end(row, Outcome(None, "The event is no longer kept.", None, 0, None), Dead("event_gone"))
                    return
                outcome = await self._send(row, body)
                limit = self._settings.retry_after_seconds_max
                self._end(row, outcome, decide(outcome, row["round_count"], self._schedule, limit))
            except asyncio.CancelledError:
                duration_ms = int((time.monotonic() - began) * 1000)
                self._end(row, Outcome(None, "The process stopped during the attempt.", None, duration_ms, None))
            except Exception:
                log.exception("attempt failed", delivery_id=row["id"])
                outcome = Outcome(None, "The attempt failed within the service; its log says why.", None, 0, None)
                self._end(row, outcome, decide(outcome, row["round_count"], self._schedule, 0))

    def _end(self, row: Any, outcome: Outcome, decision: Decision | None = None) -> None:
        """Pass on how an attempt went; without a decision it was broken off by this process."""
        ended = decision or Interrupted()
        self._metrics.webhook_attempted(_word(ended), outcome.duration_ms / 1000)
        self._settler.add(
            Result(row["tenant_id"], row["id"], row["number"], row["started_at"], outcome, ended, row["url"])
        )

    async def _send(self, row: Any, body: bytes) -> Outcome:
        try:
            secrets = self._secrets.signing(row["secret"], row["previous_secret"])
            headers = self._secrets.headers(row["headers"]) if row["headers"] is not None else {}
        except AppError as error:
            # The operator took a key away: it is tried again, as the schedule says.
            return Outcome(None, error.detail, None, 0, None)
        return await self._sender.send(Message(row["url"], row["id"], body, secrets, headers))

    def _settled(self, results: int, settled: Settled) -> None:
        self._room.end(results)
        self._moved(settled)


async def _ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait for tasks a bounded time, then break them off."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def _handed(taken: Taken) -> HandOut | None:
    try:
        return HandOut.of(taken.body)
    except ValueError:
        log.warning("a message in the queue of deliveries is none of ours", bytes=len(taken.body))
        return None


def _lacks_fields(row: Any) -> bool:
    """Whether what its webhook wants included is to be read yet."""
    return bool(row["include"]) and not row["kept"] and row["body"] is not None


def _attempts_of(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Which attempts at which deliveries, as statements take them."""
    return {
        "tenant_ids": [row["tenant_id"] for row in rows],
        "ids": [row["id"] for row in rows],
        "numbers": [row["number"] for row in rows],
    }


def _including(row: Any) -> tuple[str, tuple[str, ...]]:
    return row["tenant_id"], tuple(sorted(row["include"]))


def _word(decision: Decision | Interrupted) -> str:
    if isinstance(decision, Delivered):
        return "delivered"
    if isinstance(decision, Interrupted):
        return "interrupted"
    return "dead" if isinstance(decision, Dead) else "failed"
