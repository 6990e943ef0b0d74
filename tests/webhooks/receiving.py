"""Endpoints of the tests: real HTTP servers on loopback, which remember what they were sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Received:
    """A request that came: its path, headers and body, and when it did."""

    path: str
    headers: dict[str, str]
    body: bytes
    request: web.Request
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        """Of which delivery it is an attempt."""
        return self.headers["webhook-id"]

    @property
    def says(self) -> dict[str, Any]:
        """The body, read."""
        read: dict[str, Any] = json.loads(self.body)
        return read


Answering = Callable[[Received], Awaitable[web.StreamResponse | int]]


async def well(_received: Received) -> int:
    """Takes everything."""
    return 204


class Receiver:
    """An endpoint: answers as it is told, and keeps what it got, in order."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Answering = well
        self.open = 0
        self.open_most = 0
        self._more = asyncio.Condition()
        self.url = ""

    def of(self, path: str) -> list[Received]:
        """What came to one path."""
        return [each for each in self.received if each.path == path]

    async def until(self, enough: Callable[[], bool], seconds: float = 40) -> None:
        """Until the condition holds, looked at whenever something came; fails after a bound."""
        async with asyncio.timeout(seconds), self._more:
            await self._more.wait_for(enough)

    async def _tell(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Keep a request, then answer it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.path, headers, await request.read(), request)
        self.received.append(received)
        self.open += 1
        self.open_most = max(self.open, self.open_most)
        await self._tell()
        try:
            answer = await self.answer(received)
        finally:
            self.open -= 1
            await self._tell()
        return web.Response(status=answer) if isinstance(answer, int) else answer


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver that listens for as long as the block lasts."""
    receiver = Receiver()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield receiver
    finally:
        await runner.cleanup()
