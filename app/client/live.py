"""Following conversations, over a stream or by asking again and again; and events, by asking again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Unpack

import httpx

from app.client.call import Call, nothing, path, query
from app.client.conversation_models import ConversationBatch
from app.client.conversations import LIVE_WAIT_SECONDS, Conversations
from app.client.event_stream import EventReader
from app.client.exact import decode_exactly, members
from app.client.operations import Event, EventFilter, Events
from app.client.reply import Reply
from app.client.retry import Outcome
from app.client.transport import AsyncTransport, SyncTransport, conclude

START, NOW = "-1", "now"
# An empty answer that comes sooner than this was not waited for; we wait instead of asking at once.
POLL_SECONDS_MIN = 0.5


class SyncConversations(Conversations[SyncTransport]):
    """Conversations, with a way to follow one."""

    def poll(self, stream: str, *, offset: str = START) -> Iterator[ConversationBatch]:
        """The batches after an offset as they come, without end; each wait is one request."""
        if offset == NOW:
            # Once, before any wait that may have to be tried again: by then it would be another offset.
            offset = self.read(stream, offset=NOW).next_offset
        while True:
            asked_at = time.monotonic()
            page = self.read(stream, offset=offset, live="long-poll")
            yield from page.batches
            offset = page.next_offset
            if not page.batches:
                time.sleep(_pause(asked_at))


class AsyncConversations(Conversations[AsyncTransport]):
    """Conversations, with two ways to follow one."""

    async def poll(self, stream: str, *, offset: str = START) -> AsyncIterator[ConversationBatch]:
        """The batches after an offset as they come, without end; each wait is one request."""
        if offset == NOW:
            offset = (await self.read(stream, offset=NOW)).next_offset
        while True:
            asked_at = time.monotonic()
            page = await self.read(stream, offset=offset, live="long-poll")
            for batch in page.batches:
                yield batch
            offset = page.next_offset
            if not page.batches:
                await asyncio.sleep(_pause(asked_at))

    async def follow(self, stream: str, *, offset: str | None = None) -> AsyncIterator[ConversationBatch]:
        """The batches after an offset (from the start unless given) as they come, without end, over one connection.

        A connection that breaks is opened again behind the last batch that came, so none is missed and none comes
        twice; it is given up after as many failures in a row as calls have tries. A stream that was deleted and made
        anew raises `StreamReplacedError`. Close the iterator (`contextlib.aclosing`) when you leave it early.
        """
        if offset == NOW:
            offset = (await self.read(stream, offset=NOW)).next_offset
        last_id: str | None = None
        failures = 0
        while True:
            opened_at = time.monotonic()
            outcome: Outcome | None = None
            asked = query({"path": stream, "offset": offset if last_id is None else None})
            call = Call("GET", path("conversations", "events"), nothing, asked, wait_seconds=LIVE_WAIT_SECONDS)
            resume = {} if last_id is None else {"Last-Event-ID": last_id}
            try:
                async with self._mode.opened(call, {"Accept": "text/event-stream", **resume}) as response:
                    if not response.is_success:
                        outcome = Reply(response.status_code, response.headers, await response.aread())
                    else:
                        events = EventReader()
                        async for chunk in response.aiter_bytes():
                            failures = 0
                            for event in events.feed(chunk):
                                if event.name == "problem":
                                    outcome = _problem(event.data)
                                else:
                                    last_id = event.id
                                    yield ConversationBatch(event.data)
            except httpx.TransportError as error:
                outcome = error
            if outcome is None:
                # A stream ends by itself now and then.
                await asyncio.sleep(_pause(opened_at))
                continue
            failures += 1
            pause = self._mode.manner.retry.pause_seconds(failures, outcome)
            if pause is None:
                conclude(call, outcome)
                return
            await asyncio.sleep(pause)


class SyncEvents(Events[SyncTransport]):
    """Events, with a way to follow them."""

    def follow(self, *, quiet_max_seconds: float | None = None, **filters: Unpack[EventFilter]) -> Iterator[Event]:
        """Events as they come, each once and in order, without end; or until none came for `quiet_max_seconds`.

        Each wait is one request, tried again as every call is. To go on later, keep what `page` and `wait` give as
        `next_cursor`. Raises `CursorExpiredError` where events after the place are no longer kept.
        """
        if filters.get("after") == NOW:
            # Once, before any wait that may have to be tried again: by then it would be another place.
            filters["after"] = self.wait(0, after=NOW).next_cursor or NOW
        quiet = _Quiet(quiet_max_seconds)
        while True:
            asked_at = time.monotonic()
            page = self.wait(quiet.wait_seconds(), **filters)
            yield from page.items
            filters["after"] = page.next_cursor or ""
            if quiet.is_over(came=bool(page.items)):
                return
            if not page.items:
                time.sleep(_pause(asked_at))


class AsyncEvents(Events[AsyncTransport]):
    """Events, with a way to follow them."""

    async def follow(
        self, *, quiet_max_seconds: float | None = None, **filters: Unpack[EventFilter]
    ) -> AsyncIterator[Event]:
        """Events as they come, each once and in order, without end; or until none came for `quiet_max_seconds`.

        Each wait is one request, tried again as every call is. To go on later, keep what `page` and `wait` give as
        `next_cursor`. Raises `CursorExpiredError` where events after the place are no longer kept.
        """
        if filters.get("after") == NOW:
            filters["after"] = (await self.wait(0, after=NOW)).next_cursor or NOW
        quiet = _Quiet(quiet_max_seconds)
        while True:
            asked_at = time.monotonic()
            page = await self.wait(quiet.wait_seconds(), **filters)
            for event in page.items:
                yield event
            filters["after"] = page.next_cursor or ""
            if quiet.is_over(came=bool(page.items)):
                return
            if not page.items:
                await asyncio.sleep(_pause(asked_at))


class _Quiet:
    """How long nothing has come, and whether that is enough."""

    def __init__(self, max_seconds: float | None) -> None:
        self._max_seconds, self._since = max_seconds, time.monotonic()

    def wait_seconds(self) -> float:
        """How long the next wait may last."""
        if self._max_seconds is None:
            return LIVE_WAIT_SECONDS
        left = self._since + self._max_seconds - time.monotonic()
        return round(min(LIVE_WAIT_SECONDS, max(0.0, left)), 3)

    def is_over(self, *, came: bool) -> bool:
        """Whether nothing has come for so long, after a wait in which something came or not."""
        if came:
            self._since = time.monotonic()
        return self._max_seconds is not None and not came and time.monotonic() - self._since >= self._max_seconds


def _problem(data: bytes) -> Reply:
    """What went wrong after the answer had begun, as the answer it would have been."""
    return Reply(int(decode_exactly(members(data)["status"])), {}, data)


def _pause(asked_at: float) -> float:
    return max(0.0, POLL_SECONDS_MIN - (time.monotonic() - asked_at))
