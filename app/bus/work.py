"""Work that processes hand to each other: whoever takes it first does it. The rows behind it are the truth.

A message may come twice, late, or never: who takes one asks the row first, and a row of which nothing is heard is
handed out anew.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from app.bus.standing import ConsumerStanding, Standing
from app.errors import Unavailable

# Messages of a stream that wait in an embedded one; beyond that nothing more is put in.
WAITING_MAX = 100_000
# What a message may measure with its id, in an embedded stream: as in a NATS that is left as it comes.
MESSAGE_BYTES_MAX = 1_048_576
# What stands around the id in the header of a message.
HEADER_BYTES = len(b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n")


class Stream(StrEnum):
    """The streams, by the end of their subject."""

    QUEUED = "webhook.queued"
    DEAD_LETTER = "webhook.dead_letter"


class Work(NamedTuple):
    """A message: its id, by which a second one is known for a duplicate, and its body."""

    id: str
    body: bytes

    @property
    def size_bytes(self) -> int:
        """What a server counts: the body, and the header with the id."""
        return len(self.body) + len(self.id.encode()) + HEADER_BYTES


class WorkTooLarge(ValueError):
    """A message that no stream takes, now or later; nothing was sent. What is this large travels as a reference."""

    def __init__(self, work: Work, most: int) -> None:
        super().__init__(f"The message {work.id[:200]} has {work.size_bytes} bytes with its id; {most} are possible.")


class Taken(Protocol):
    """A message that was taken. It comes again, to anybody, unless it is done in time."""

    @property
    def body(self) -> bytes: ...

    async def done(self) -> None:
        """It need not come again. Never raises: if this is lost, it comes again."""


class Streams(Protocol):
    """Puts work into streams and takes it out."""

    async def open(self) -> None:
        """Begin; returns after the first try, whatever came of it."""

    def bytes_max(self, stream: Stream) -> int:
        """What a message may measure, as `Work.size_bytes` counts; with 1 MiB or less one travels everywhere."""

    async def put(self, stream: Stream, works: Sequence[Work]) -> None:
        """Store messages, in this order. Raises `Unavailable`; then some of them may be stored.

        Raises `WorkTooLarge` where one does not fit; then none is.
        """

    async def take(self, stream: Stream, limit: int, seconds: float) -> Sequence[Taken]:
        """At most so many messages, as soon as there are any; none after so many seconds. Raises `Unavailable`.

        Dead letters are for readers outside: taking them here gives none.
        """

    async def erase(self, tenant_id: str) -> int:
        """Hold no message of a tenant any more; how many that were. Raises `Unavailable` where it cannot be done."""

    async def look(self, seconds: float) -> Sequence[Standing]:
        """How each stream is, within so many seconds. Raises `Unavailable`."""

    async def close(self) -> None:
        """End, within about a second."""


def is_of(body: bytes, tenant_id: str) -> bool:
    """Whether a message is one of this tenant: each names its tenant as `tenant_id`."""
    if json.dumps(tenant_id).encode() not in body:
        return False
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and read.get("tenant_id") == tenant_id


def require_fit(works: Sequence[Work], most: int) -> None:
    """Raise `WorkTooLarge` for the first that is larger."""
    for work in works:
        if work.size_bytes > most:
            raise WorkTooLarge(work, most)


class _Held:
    def __init__(self, streams: EmbeddedStreams, stream: Stream, work: Work) -> None:
        self._streams, self._stream, self._work = streams, stream, work

    @property
    def body(self) -> bytes:
        return self._work.body

    async def done(self) -> None:
        self._streams.forget(self._stream, self._work.id)


class EmbeddedStreams:
    """Streams of a process that stands alone, in its memory: what is lost with it is handed out anew by its rows."""

    def __init__(self, again_seconds: float) -> None:
        self._again_seconds = again_seconds
        self._waiting: dict[Stream, deque[Work]] = {stream: deque() for stream in Stream}
        self._known: dict[Stream, dict[str, float]] = {stream: {} for stream in Stream}
        self._taken: dict[Stream, dict[str, tuple[float, Work]]] = {stream: {} for stream in Stream}
        self._more = asyncio.Condition()

    async def open(self) -> None:
        """Nothing is to be opened."""

    def bytes_max(self, stream: Stream) -> int:  # noqa: ARG002 - as every other
        """As much as NATS takes."""
        return MESSAGE_BYTES_MAX

    @property
    def empty(self) -> bool:
        """Whether nothing waits, and nothing is out that may come again."""
        return not any(self._known.values())

    async def put(self, stream: Stream, works: Sequence[Work]) -> None:
        """Keep messages until they are taken. Raises `Unavailable` when there are too many."""
        require_fit(works, MESSAGE_BYTES_MAX)
        waiting, known = self._waiting[stream], self._known[stream]
        if stream is Stream.DEAD_LETTER:
            return  # Nobody takes them here; they are listed by `GET /v1/dead-letters`.
        async with self._more:
            for work in works:
                if len(waiting) >= WAITING_MAX:
                    raise Unavailable("The queue of this process is full.")
                if work.id not in known:
                    known[work.id] = time.monotonic()
                    waiting.append(work)
            self._more.notify_all()

    async def take(self, stream: Stream, limit: int, seconds: float) -> Sequence[Taken]:
        """At most so many messages, the oldest first."""
        ends_at = time.monotonic() + seconds
        async with self._more:
            while not (found := self._ready(stream, limit)):
                left = min(ends_at - time.monotonic(), self._again_seconds)
                if ends_at <= time.monotonic():
                    return ()
                try:
                    async with asyncio.timeout(left):
                        await self._more.wait()
                except TimeoutError:
                    continue
        return [_Held(self, stream, work) for work in found]

    def _ready(self, stream: Stream, limit: int) -> list[Work]:
        now, taken, waiting = time.monotonic(), self._taken[stream], self._waiting[stream]
        late = [key for key, (since, _) in taken.items() if now - since >= self._again_seconds][:limit]
        found = [taken.pop(key)[1] for key in late]
        while waiting and len(found) < limit:
            found.append(waiting.popleft())
        taken.update((work.id, (now, work)) for work in found)
        return found

    def forget(self, stream: Stream, work_id: str) -> None:
        """It is done."""
        self._taken[stream].pop(work_id, None)
        self._known[stream].pop(work_id, None)

    async def erase(self, tenant_id: str) -> int:
        """Forget what waits, and what is out and may come again."""
        erased = 0
        for stream in Stream:
            waiting = [work for work in self._waiting[stream] if is_of(work.body, tenant_id)]
            taken = [work for _, work in self._taken[stream].values() if is_of(work.body, tenant_id)]
            for work in waiting:
                self._waiting[stream].remove(work)
            for work in (*waiting, *taken):
                self.forget(stream, work.id)
            erased += len(waiting) + len(taken)
        return erased

    async def look(self, seconds: float) -> Sequence[Standing]:  # noqa: ARG002 - as every other
        """How many messages wait in this process, and how many are out."""
        return [
            Standing(
                stream,
                "embedded",
                messages=len(self._known[stream]),
                consumer=ConsumerStanding(
                    "embedded",
                    pending=len(self._waiting[stream]),
                    ack_pending=len(self._taken[stream]),
                    redelivered=0,
                    waiting=0,
                    ack_seconds=self._again_seconds,
                ),
            )
            for stream in (Stream.QUEUED,)
        ]

    async def close(self) -> None:
        """Nothing is to be closed."""
