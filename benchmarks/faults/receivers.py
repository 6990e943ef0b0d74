"""`python -m benchmarks.faults.receivers FILE KIND:PORT …`: endpoints of webhooks in one process.

A healthy one answers 204 at once, a failing one 500, a hanging one never. On SIGTERM the process writes to the file, by
port, what the healthy and the failing ones were sent: the ids of deliveries by the id of the resource told of.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop

HOST = "127.0.0.1"
ANSWERS = {
    "healthy": b"HTTP/1.1 204 No Content\r\n\r\n",
    "failing": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nnope",
    "hanging": b"",
}


class Endpoint(asyncio.Protocol):
    """One connection of an endpoint; it reads as much of HTTP as a delivery needs."""

    def __init__(self, kind: str, seen: dict[str, list[str]]) -> None:
        self._answer, self._seen = ANSWERS[kind], seen
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what is whole."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            headers = dict(
                line.lower().split(b": ", 1) for line in self._data[:end].split(b"\r\n")[1:] if b": " in line
            )
            ends_at = end + 4 + int(headers.get(b"content-length", b"0"))
            if len(self._data) < ends_at:
                return
            self._take(headers[b"webhook-id"].decode(), self._data[end + 4 : ends_at])
            self._data = self._data[ends_at:]

    def _take(self, delivery_id: str, body: bytes) -> None:
        self._seen.setdefault(json.loads(body)["data"]["id"], []).append(delivery_id)
        assert self._transport is not None
        if self._answer:
            self._transport.write(self._answer)


async def serve(endpoints: list[tuple[str, int]]) -> dict[int, dict[str, list[str]]]:
    """Serve until SIGTERM; what came."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    seen: dict[int, dict[str, list[str]]] = {port: {} for _, port in endpoints}

    def of(kind: str, port: int) -> Callable[[], Endpoint]:
        return lambda: Endpoint(kind, seen[port])

    servers = [await loop.create_server(of(kind, port), HOST, port) for kind, port in endpoints]
    await ended.wait()
    for server in servers:
        server.close()
    return seen


def main() -> None:
    """Read the endpoints from the command line, and serve."""
    endpoints = [(kind, int(port)) for kind, _, port in (word.partition(":") for word in sys.argv[2:])]
    seen = uvloop.run(serve(endpoints))
    Path(sys.argv[1]).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
