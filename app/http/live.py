"""Answers that wait for what others write: long-polls and event streams (SSE). Nothing is held while they wait."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.bus.hints import Key
from app.bus.watcher import Wake, Watcher
from app.errors import AppError, Unavailable
from app.http.body import Disconnected
from app.http.call import Call
from app.http.event import HEARTBEAT, MEDIA_TYPE, Event
from app.http.problems import problem

T = TypeVar("T")
P = TypeVar("P", bound=Hashable)

# A client that takes nothing for so long is taken for gone.
STALLED_SECONDS = 60.0


class LiveReadersFull(Unavailable):
    """This process has as many waiting readers as it may; try again, or read without waiting."""

    code, title = "live_readers_full", "Too many readers wait already"


class Live:
    """The readers of this process that wait: no more than `readers_max`, and not beyond the end of the process."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        readers_max: int,
        heartbeat_seconds: float,
        stream_seconds: float,
        counted: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.watcher, self.readers_max, self.readers = watcher, readers_max, 0
        self.heartbeat_seconds, self.stream_seconds = heartbeat_seconds, stream_seconds
        self._counted = counted
        self._lines: dict[Key, deque[Wake]] = {}
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}

    def end(self) -> None:
        """Let every reader go: streams end at the border of an event, long-polls answer with what they have."""
        self.watcher.end()

    @asynccontextmanager
    async def reader(self, call: Call, *keys: Key) -> AsyncIterator[Wake]:
        """A bell for these keys, which ends when the client goes away. Raises `LiveReadersFull`."""
        if self.readers >= self.readers_max:
            raise LiveReadersFull(
                f"{self.readers_max} readers wait in this process already.",
                retry_after_seconds=1,
                readers_max=self.readers_max,
            )
        self.readers += 1
        try:
            with self._counted(), self.watcher.watch(*keys) as wake:
                gone = asyncio.create_task(_end_when_gone(call, wake), name="until the client is gone")
                try:
                    yield wake
                finally:
                    gone.cancel()
        finally:
            self.readers -= 1

    async def poll(
        self,
        call: Call,
        keys: Sequence[Key],
        seconds: float,
        read: Callable[[Wake], Awaitable[T]],
        enough: Callable[[T], bool],
    ) -> T:
        """A long-poll: what `read` gives once that is `enough`; after so many seconds what it gave last.

        `read` runs at least once, and again when one of the keys has moved; it sets the mark of the bell it is given.
        It does not run once the client has gone or the process ends. Raises `LiveReadersFull`, and what `read` raises.
        """
        if seconds <= 0:
            return await read(Wake())
        async with self.reader(call, *keys) as wake:
            ends_at = time.monotonic() + seconds
            while True:
                found = await read(wake)
                if enough(found):
                    return found
                begun = time.monotonic()
                rung = await wake.wait(ends_at - begun)
                call.waited_seconds += time.monotonic() - begun
                if not rung:
                    return found
                await call.check_caller()

    async def first(
        self, call: Call, key: Key, seconds: float, take: Callable[[bool], Awaitable[T | None]]
    ) -> T | None:
        """What `take` gives once it gives anything; None where the client goes or the process ends before.

        For what only one can have: of all who wait for a key the first in line tries when it has moved, and the next
        one tries once that one got something, so what moved costs as many tries as there is to take. `take` is told
        whether this is its last try, after so many seconds. Raises `LiveReadersFull`, and what `take` raises.
        """
        found = await take(seconds <= 0)
        if found is not None or seconds <= 0:
            return found
        async with self.reader(call, key) as wake:
            ends_at = time.monotonic() + seconds
            with self._in_line(key, wake) as line:
                while True:
                    if line[0] is wake and not wake.ended:
                        await call.check_caller()
                        found = await take(False)
                        if found is not None:
                            return found
                    begun = time.monotonic()
                    rung = await wake.wait(ends_at - begun)
                    call.waited_seconds += time.monotonic() - begun
                    if not rung:
                        break
            if wake.ended:
                return None
            await call.check_caller()
            return await take(True)

    async def together(self, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives, which runs once for all who ask for the same before it begins.

        Many readers of one row are woken at once and look at the same place: they share a statement and its answer.
        """
        asked: asyncio.Task[T] | None = self._asked.get(what)
        if asked is None:
            asked = self._asked[what] = asyncio.create_task(self._begin(what, read), name="a read for many")
        return await asyncio.shield(asked)

    async def _begin(self, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        try:
            # Those who are woken in the same turn of the loop come first.
            await asyncio.sleep(0)
        finally:
            # What is written from now on may be missing: who asks now asks anew.
            del self._asked[what]
        return await read()

    @contextmanager
    def _in_line(self, key: Key, wake: Wake) -> Iterator[deque[Wake]]:
        line = self._lines.setdefault(key, deque())
        line.append(wake)
        try:
            yield line
        finally:
            was_first = line[0] is wake
            line.remove(wake)
            if not line:
                del self._lines[key]
            elif was_first:
                line[0].ring()

    def stream(
        self, call: Call, key: Key, read: Callable[[P], Awaitable[tuple[Sequence[Event], P]]], position: P
    ) -> Response:
        """An event stream of what `read` gives after a position, with the position after that; then of what follows.

        The position is also the mark of the bell. What the first read raises is the answer; what a later one raises
        is sent as an event of type `problem`, the last of the stream. The stream ends by itself after
        `stream_seconds`; the client resumes it by the last id, as after any other end.
        """
        return _Stream(self, call, key, read, position)


async def _end_when_gone(call: Call, wake: Wake) -> None:
    # What arrives before is the empty body of a request that has none.
    while (await call.receive())["type"] != "http.disconnect":
        pass
    wake.end()


class _Stream(Response):
    """The answer that is a stream; it reads, waits and sends as the server asks for it."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        live: Live,
        call: Call,
        key: Key,
        read: Callable[[P], Awaitable[tuple[Sequence[Event], P]]],
        position: P,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._live, self._call, self._key, self._read, self._position = live, call, key, read, position

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the call receives
        """Answer. Raises what the first read raises, and `Disconnected` where the client takes nothing any more."""
        ends_at = time.monotonic() + self._live.stream_seconds
        async with self._live.reader(self._call, self._key) as wake:
            events, self._position = await self._read(self._position)
            wake.mark = self._position
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                # Something at once: a proxy that waits for a first byte passes the head on.
                await _sent(send, HEARTBEAT)
                while await self._send_all(send, wake, events) and await self._rung(send, wake, ends_at):
                    try:
                        await self._call.check_caller()
                        events, self._position = await self._read(self._position)
                    except AppError as refusal:
                        for piece in self._problem(refusal).pieces():
                            await _sent(send, piece)
                        break
                    wake.mark = self._position
            await send({"type": "http.response.body", "body": b""})

    @staticmethod
    async def _send_all(send: Send, wake: Wake, events: Sequence[Event]) -> bool:
        """Send the events; whether to go on. The end waits for the border of one, not for all of them."""
        for event in events:
            if wake.ended:
                return False
            for piece in event.pieces():
                await _sent(send, piece)
        if events:
            # There may be more than one read gives.
            wake.ring()
        return not wake.ended

    async def _rung(self, send: Send, wake: Wake, ends_at: float) -> bool:
        """Wait for more, with heartbeats; false where the stream ends instead."""
        while (left := ends_at - time.monotonic()) > 0:
            if await wake.wait(min(left, self._live.heartbeat_seconds)):
                return True
            if wake.ended:
                return False
            await _sent(send, HEARTBEAT)
        return False

    def _problem(self, refusal: AppError) -> Event:
        request_id = str(structlog.contextvars.get_contextvars().get("request_id", ""))
        return Event(problem(refusal, self._call.raw_path, request_id), type="problem")


async def _sent(send: Send, text: bytes) -> None:
    """Send, which waits while the client takes nothing. Raises `Disconnected` when that lasts too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(STALLED_SECONDS):
            await send({"type": "http.response.body", "body": text, "more_body": True})
            return
    raise Disconnected
