"""What stands in for the service: the framework with an empty handler, and a server that does not even parse.

`python -m benchmarks.bare framework|nothing PORT FILE` answers every request with the file's bytes. The first is the
limit of any route on this framework; the second is as close as Python comes to no server at all, and shows the load
generator's own ceiling.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response


def framework(body: bytes) -> FastAPI:
    """A FastAPI application whose one route takes any request and answers a fixed body."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH"])
    async def answer(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    return app


class Nothing(asyncio.Protocol):
    """Answers as soon as the end of a request's head was seen and its body, if it came along, was skipped."""

    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.missing, self.head = 0, b""

    def data_received(self, data: bytes) -> None:
        if not self.missing:
            head, found, rest = (self.head + data).partition(b"\r\n\r\n")
            if not found:
                self.head = head
                return
            self.head = b""
            _, _, length = head.partition(b"Content-Length: ")
            self.missing = int(length.partition(b"\r\n")[0] or 0)
            data = rest
        self.missing -= len(data)
        if self.missing <= 0:
            self.missing = 0
            self.transport.write(self.answer)  # type: ignore[attr-defined]


async def nothing(port: int, body: bytes) -> None:
    """Serve `Nothing` until cancelled."""
    Nothing.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    server = await asyncio.get_running_loop().create_server(Nothing, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    kind, chosen, body_file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
    if kind == "nothing":
        uvloop.run(nothing(chosen, body_file))
    else:
        uvicorn.run(
            framework(body_file), host="127.0.0.1", port=chosen, loop="uvloop", http="httptools", log_level="warning",
            access_log=False, server_header=False,
        )  # fmt: skip
