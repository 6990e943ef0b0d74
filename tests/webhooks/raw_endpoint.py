"""An endpoint that answers as a test says, byte by byte, and remembers what arrived."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from standardwebhooks import Webhook

from app.settings import WebhookSettings
from app.webhooks.addresses import Lookup
from app.webhooks.sender import Message, Sender

Answer: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"type":"invocation.ended","timestamp":"2026-11-30T12:00:00Z","data":{"text":"\xe4\xbd\xa0"}}'


@dataclass
class Arrived:
    """A request, as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    def verify(self, secret: str = SECRET) -> None:
        """Raise unless the public library accepts it."""
        Webhook(secret).verify(self.body, self.headers)


@dataclass
class RawEndpoint:
    """Where it listens, and what has arrived there."""

    port: int = 0
    arrived: list[Arrived] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    def url(self, host: str = "127.0.0.1", path: str = "/hook", scheme: str = "http") -> str:
        """Its URL under some name."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def answering(answer: Answer = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawEndpoint]:
    """An endpoint on a free port of this machine; every connection is closed when the block ends."""
    receiver, tasks = RawEndpoint(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        try:
            while True:
                receiver.arrived.append(await _request(reader))
                if callable(answer):
                    await answer(writer)
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            receiver.closed += 1
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> Arrived:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    return Arrived(head[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def sending(
    allow_private: str = "127.0.0.1", lookup: Lookup | None = None, **settings: float
) -> AsyncIterator[Sender]:
    """A sender that may reach this machine, unless told otherwise."""
    chosen = WebhookSettings.model_validate({"allow_private": allow_private, "attempt_seconds": 5, **settings})
    sender = Sender(chosen, lookup)
    try:
        yield sender
    finally:
        await sender.close()


def message(url: str, body: bytes = BODY, secrets: tuple[str, ...] = (SECRET,), **headers: str) -> Message:
    """A delivery to send; custom headers are named with `_` for `-`."""
    return Message(url, "dlv_1", body, secrets, {name.replace("_", "-"): value for name, value in headers.items()})
