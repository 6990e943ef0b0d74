"""Streams of work in JetStream over one connection, until it breaks."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from app.bus.connection import FAILURES, OPEN_SECONDS, close, connect, explained
from app.bus.declared import API, CONSUMER, Declared, Refused
from app.bus.observed import observe
from app.bus.standing import Standing
from app.bus.work import Stream, Taken, Work, require_fit
from app.errors import Unavailable

# The longest a put waits for its acknowledgements, and how many of them are under way at once.
PUT_SECONDS = 5.0
UNDER_WAY_MAX = 500
# How often the connection, the streams and the consumer are looked at, and how long an answer may take.
PROBE_SECONDS, SILENCE_SECONDS = 2.0, 2.0
LOOK_SECONDS = 4.0
ID = "Nats-Msg-Id"
# So begins the id of a message that only tries whether it is stored.
PROBE = "probe "
# A stream that has no room refuses what is new; the row waits, and nothing is broken.
FULL = (10054, 10076, 10077)


class _Put:
    """The messages of one call that are under way; `ended` is done when each was stored, or with what refused one."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stored(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.ended.done():
            self.ended.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


class _Message:
    """A message that was taken from JetStream."""

    def __init__(self, streams: JetStreams, message: Any) -> None:
        self._streams, self._message = streams, message

    @property
    def body(self) -> bytes:
        return bytes(self._message.data)

    async def done(self) -> None:
        await self._streams.answer(self._message, b"+ACK")


class JetStreams:
    """Streams in JetStream. `broken` is set once the connection, a stream or the consumer is lost; then open another.

    Opening declares the streams. `must_store` is set once something could not be stored: a server whose disk is full
    answers everything else, so where it is set before `open`, opening stores an empty message, which nobody is given.
    `seen` is told how they are, every two seconds or so. No call but `take` waits longer
    than five seconds.
    """

    def __init__(
        self,
        url: str,
        declared: dict[Stream, Declared],
        seen: Callable[[Sequence[Standing]], None] = lambda _standing: None,
    ) -> None:
        self._url, self._declared, self._seen = url, declared, seen
        self._client: Any = None
        self._inbox, self._payload_max = "", 0
        self._puts: dict[str, _Put] = {}
        self._numbers = itertools.count()
        self._arrived: deque[tuple[float, Any]] = deque()
        self._asked, self._asked_until = 0, 0.0
        self._moved = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None
        self.broken = asyncio.Event()
        self.why = "NATS went away."
        self.must_store = False

    async def connect(self) -> None:
        """Connect, and change nothing. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                # No bound on what waits to be sent: the library would wait at it, for a server that hangs for ever. So
                # few messages are under way at once that it needs none.
                self._client = await connect(self._url, self._closed, pending_size=0)
                self._payload_max = self._client.max_payload
        except FAILURES as error:
            raise Unavailable(explained(error)) from error

    async def open(self) -> None:
        """Connect, declare the streams and begin to take. Raises `Unavailable`."""
        await self.connect()
        client = self._client
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                for declared in self._declared.values():
                    await declared.bring_about(client)
                self._inbox = client.new_inbox()
                await client.subscribe(f"{self._inbox}.put.*", cb=self._acknowledged)
                await client.subscribe(f"{self._inbox}.take", cb=self._delivered)
        except FAILURES as error:
            raise Unavailable(explained(error)) from error
        if self.must_store:
            await self.put(Stream.QUEUED, [Work(f"{PROBE}{uuid4().hex}", b"")])
            self.must_store = False
        self._probing = asyncio.create_task(self._probe(), name="look at the streams")

    def bytes_max(self, stream: Stream) -> int:
        """What the server takes, and no more than half of what the stream holds."""
        return int(min(self._payload_max, self._declared[stream].config["max_bytes"] // 2))

    async def put(self, stream: Stream, works: Sequence[Work]) -> None:
        """Publish them and wait until each was acknowledged. Raises `Unavailable`, `WorkTooLarge`."""
        self._require_open()
        # The server would end the connection of whoever sends more than it takes.
        require_fit(works, self.bytes_max(stream))
        try:
            async with asyncio.timeout(PUT_SECONDS):
                for start in range(0, len(works), UNDER_WAY_MAX):
                    await self._publish(self._declared[stream].subject, works[start : start + UNDER_WAY_MAX])
        except Refused as refusal:
            full = refusal.number in FULL
            if not full:
                self.must_store = True
                self._break(f"JetStream refuses messages: {refusal}.")
            raise Unavailable(f"The stream {stream} is full." if full else self.why) from refusal
        except FAILURES as error:
            self.must_store = True
            self._break(f"JetStream does not store what it is sent ({type(error).__name__}); is its disk full?")
            raise Unavailable(self.why) from error

    async def _publish(self, subject: str, works: Sequence[Work]) -> None:
        number = str(next(self._numbers))
        put = self._puts[number] = _Put(len(works))
        try:
            reply = f"{self._inbox}.put.{number}"
            for work in works:
                await self._client.publish(subject, work.body, reply, {ID: work.id})
            await put.ended
        finally:
            del self._puts[number]

    async def _acknowledged(self, message: Any) -> None:
        put = self._puts.get(message.subject.rpartition(".")[2])
        if put is None:
            return
        if not message.data:
            put.failed(Refused({"code": 503, "description": "there is no such stream"}))
        elif b'"error"' in message.data:
            put.failed(Refused(json.loads(message.data)["error"]))
        else:
            put.stored()

    async def take(self, stream: Stream, limit: int, seconds: float) -> Sequence[Taken]:
        """What is there, or else what comes first. Raises `Unavailable`; who is cancelled has taken nothing."""
        if self._declared[stream].consumer is None:
            await asyncio.sleep(seconds)
            return ()
        ends_at = time.monotonic() + seconds
        while True:
            if found := self._ready(limit):
                return found
            self._require_open()
            left = ends_at - time.monotonic()
            if left <= 0:
                return ()
            moved = self._moved
            try:
                await self._ask_for(stream, limit, left)
            except FAILURES as error:
                self._break(f"NATS does not answer ({type(error).__name__}).")
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await moved.wait()

    def _ready(self, limit: int) -> list[Taken]:
        found: list[Taken] = []
        too_old = time.monotonic() - self._ack_seconds
        while self._arrived and len(found) < limit:
            at, message = self._arrived.popleft()
            # What has waited here for so long has come to somebody again.
            if at > too_old:
                found.append(_Message(self, message))
        return found

    async def _ask_for(self, stream: Stream, limit: int, seconds: float) -> None:
        """Ask for as many as are wanted and not asked for yet."""
        now = time.monotonic()
        if now > self._asked_until:
            self._asked = 0
        wanted = limit - self._asked
        if wanted <= 0:
            return
        self._asked += wanted
        self._asked_until = max(self._asked_until, now + seconds + 1)
        asked = json.dumps({"batch": wanted, "expires": math.ceil(seconds * 1e9)}).encode()
        name = self._declared[stream].name
        await self._client.publish(f"{API}CONSUMER.MSG.NEXT.{name}.{CONSUMER}", asked, f"{self._inbox}.take")

    async def _delivered(self, message: Any) -> None:
        if message.reply:
            self._asked = max(0, self._asked - 1)
            if not str((message.headers or {}).get(ID)).startswith(PROBE):
                self._arrived.append((time.monotonic(), message))
            else:
                await self.answer(message, b"+ACK")
        else:
            told = message.headers or {}
            # What was asked for and will not come any more.
            self._asked = max(0, self._asked - int(told.get("Nats-Pending-Messages", self._asked)))
            if told.get("Status") == "503" or "Deleted" in str(told.get("Description")):
                self._break("The consumer, or its stream, was deleted.")
        self._tell()

    async def answer(self, message: Any, what: bytes) -> None:
        """Tell the server about a message; if that is lost, it comes again."""
        if not self.broken.is_set():
            with suppress(*FAILURES):
                await self._client.publish(message.reply, what)

    async def erase(self, tenant_id: str) -> int:
        """Delete the messages of a tenant from every stream; how many that were. Raises `Unavailable`.

        Subjects name no tenant, so each message that is there when it begins is read.
        """
        try:
            return sum([await declared.erase(self._client, tenant_id) for declared in self._declared.values()])
        except Refused as refusal:
            raise Unavailable(f"JetStream refuses to delete messages: {refusal}.") from refusal
        except FAILURES as error:
            raise Unavailable(explained(error)) from error

    async def look(self, seconds: float) -> Sequence[Standing]:
        """How the streams are. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(seconds):
                return [await observe(self._client, declared, seconds) for declared in self._declared.values()]
        except Refused as refusal:
            raise Unavailable(f"JetStream refuses to tell of its streams: {refusal}.") from refusal
        except FAILURES as error:
            raise Unavailable(explained(error)) from error

    async def close(self) -> None:
        """Give back what nobody took, and close the connection."""
        while self._arrived:
            await self.answer(self._arrived.popleft()[1], b"-NAK")
        self._break("It was closed.")
        if self._probing is not None:
            self._probing.cancel()
        await close(self._client)

    async def _closed(self) -> None:
        self._break("NATS went away.")

    def _break(self, why: str) -> None:
        if not self.broken.is_set():
            self.why = why
        self.broken.set()
        for put in self._puts.values():
            put.failed(Refused({"description": self.why}))
        self._tell()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _require_open(self) -> None:
        if self.broken.is_set():
            raise Unavailable(self.why)

    @property
    def _ack_seconds(self) -> float:
        consumer = self._declared[Stream.QUEUED].consumer or {}
        return float(consumer["ack_wait"]) / 1e9

    async def _probe(self) -> None:
        """Look at the server, and break when it is silent or has lost what was declared."""
        why = "NATS does not answer."
        try:
            # Not for ever, even if it is cancelled in vain: the library may swallow that.
            while not self.broken.is_set():
                await self._client.flush(SILENCE_SECONDS)
                standing = await self.look(LOOK_SECONDS)
                self._seen(standing)
                if missing := [one.stream for one in standing if one.missing]:
                    why = f"The stream {missing[0]}, or its consumer, was deleted."
                    return
                await asyncio.sleep(PROBE_SECONDS)
        except (Unavailable, *FAILURES) as error:
            why = error.detail if isinstance(error, Unavailable) else f"NATS does not answer ({type(error).__name__})."
        finally:
            self._break(why)
