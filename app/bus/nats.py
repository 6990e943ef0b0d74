"""The door to NATS: hints over one connection, until it breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from app.bus.connection import CONNECT_SECONDS, FAILURES, OPEN_SECONDS, close, connect, explained, version_of
from app.bus.hints import Heard, Key, nobody
from app.errors import Unavailable

# An idle connection is asked this often whether it still stands, and may be silent for so long.
PROBE_SECONDS = 2.0
SILENCE_SECONDS = 2.0
# Keys that wait to be sent, each once; of what comes on top, the readers learn by their own look.
WAITING_MAX = 10_000


class NatsHints:
    """Hints over core NATS. A key is a subject; its message is empty. `broken` is set once the connection is lost.

    What it cannot send at once waits, bounded, in memory: publishing costs an answer nothing, however the server does.
    """

    def __init__(self, url: str, prefix: str = "cairn", dropped: Callable[[int], None] = lambda _count: None) -> None:
        self._url, self._root, self._dropped = url, f"{prefix}.hint.", dropped
        self._heard: Heard = nobody
        self._client: Any = None
        self._waiting: dict[Key, None] = {}
        self._called = asyncio.Event()
        self._carrying: asyncio.Task[None] | None = None
        self.broken = asyncio.Event()
        self.why = "NATS went away."

    def listen(self, heard: Heard) -> None:
        """Say who is called."""
        self._heard = heard

    async def open(self) -> None:
        """Connect, and subscribe before it returns. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                self._client = await connect(self._url, self._closed, no_echo=True)
                await self._client.subscribe(self._root + ">", cb=self._received)
                # Twice: the library sends the first ping ahead of the subscription, whose commands it gathers; the
                # answer to the second says that the server has it.
                await self._client.flush(CONNECT_SECONDS)
                await self._client.flush(CONNECT_SECONDS)
        except FAILURES as error:
            await self.close()
            raise Unavailable(explained(error)) from error
        self._carrying = asyncio.create_task(self._carry(), name="hints to NATS")

    def publish(self, *keys: Key) -> None:
        """Tell the own process at once, and the others soon."""
        for key in keys:
            self._heard(key)
            if self.broken.is_set() or (len(self._waiting) >= WAITING_MAX and key not in self._waiting):
                self._dropped(1)
            else:
                self._waiting[key] = None
                self._called.set()

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds; JetStream must be on. Raises `Unavailable`."""
        client = self._client
        try:
            async with asyncio.timeout(seconds):
                await client.jetstream(timeout=seconds).account_info()
        except FAILURES as error:
            raise Unavailable(explained(error)) from error
        return version_of(client)

    async def close(self) -> None:
        """Send what waits, if that is quick, and close the connection."""
        self.broken.set()
        self._called.set()
        if self._carrying is not None:
            await asyncio.wait({self._carrying}, timeout=0.5)
            self._carrying.cancel()
        client, self._client = self._client, None
        await close(client)

    async def _closed(self) -> None:
        self.broken.set()
        self._called.set()

    async def _received(self, message: Any) -> None:
        kind, _, rest = message.subject.removeprefix(self._root).partition(".")
        tenant_id, _, name = rest.partition(".")
        self._heard(Key(kind, tenant_id, unquote(name.removeprefix("-"))))

    def _subject(self, key: Key) -> str:
        # A token of a subject is never empty and holds no dot, space or wildcard.
        return f"{self._root}{key.kind}.{key.tenant_id}.-" + quote(key.name, safe="").replace(".", "%2E")

    async def _carry(self) -> None:
        """Send what waits, and ask now and then whether the server is there; ends when it is not."""
        probed = time.monotonic()
        try:
            while not self.broken.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_SECONDS):
                        await self._called.wait()
                self._called.clear()
                async with asyncio.timeout(SILENCE_SECONDS):
                    await self._send()
                    if time.monotonic() - probed >= PROBE_SECONDS:
                        await self._client.flush(SILENCE_SECONDS)
                        probed = time.monotonic()
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._send()
        except FAILURES:
            pass  # `broken` says it; what was not sent is seen by the look that stands behind every hint
        finally:
            self.broken.set()
            self._dropped(len(self._waiting))
            self._waiting.clear()

    async def _send(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            await self._client.publish(self._subject(key))
            # Not before: what could not be sent still counts as waiting.
            self._waiting.pop(key, None)
