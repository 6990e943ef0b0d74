"""What the parser of HTTP refuses is refused as a problem too, and no head holds a connection or memory for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.commands import protocol
from tests.api_process import ApiProcess, serving

SECONDS = 20


@pytest.fixture(scope="module")
def api(kept_clone: Callable[[], Awaitable[str]]) -> Iterator[ApiProcess]:
    async def made() -> str:
        return await kept_clone()

    with serving(asyncio.run(made())) as started:
        yield started


def said(api: ApiProcess, sent: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what the service says to these bytes before it hangs up."""
    host, _, port = api.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), SECONDS) as connection:
        # It may hang up before it has read everything.
        with suppress(ConnectionError):
            connection.sendall(sent)
        got = b""
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                got += part
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\r\n\r\n",
        b"FOO / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET no-slash HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /v1/workflows/é HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PUT /v1/workflows/w HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n{}",
        b"PUT /v1/workflows/w HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"PUT /v1/workflows/w HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n{}",
    ],
)
def test_bytes_that_are_no_request_are_told_so_by_a_problem(api: ApiProcess, sent: bytes) -> None:
    status, headers, body = said(api, sent)
    told = json.loads(body)
    assert (status, headers["content-type"]) == (400, "application/problem+json")
    assert (told["code"], told["status"]) == ("malformed_request", 400)
    assert told["request_id"] == headers["x-request-id"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("line", [b"", b"x: y\r\n"], ids=["one endless header", "endless headers"])
def test_a_head_without_an_end_is_refused_as_soon_as_it_is_too_large(api: ApiProcess, line: bytes) -> None:
    # Several times what the socket's buffers and one read take.
    endless = (line or b"a") * (4 * 1024 * 1024 // max(1, len(line)))
    status, headers, body = said(api, b"GET / HTTP/1.1\r\nhost: x\r\nmore: " + endless)
    assert (status, headers["content-type"]) == (431, "application/problem+json")
    assert json.loads(body)["code"] == "request_head_too_large"


def test_a_head_as_large_as_requests_have_is_read(api: ApiProcess) -> None:
    lines = b"".join(b"x-%d: y\r\n" % number for number in range(2000))
    status, _, _ = said(api, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + lines + b"\r\n")
    assert status == 200


def test_requests_that_come_together_are_answered_one_by_one(api: ApiProcess) -> None:
    last = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    status, _, rest = said(api, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 20 + last)
    assert status == 200
    assert rest.count(b"HTTP/1.1 200 OK") == 20


async def test_a_head_that_does_not_end_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    served = await _served()
    async with served:
        reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname())
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: ")
        got = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in got


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_takes_nothing_of_an_answer_is_gone_and_who_takes_it_slowly_is_not(
    monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.4)
    size = 32 * 1024 * 1024

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(size)})

    async def taken(pauses: int, pause_seconds: float) -> int:
        """How much of the answer comes to who begins to take it after some pauses, with a little before each."""
        async with await _served(application) as served:
            sock = socket.create_connection(served.sockets[0].getsockname())
            sock.setblocking(False)
            running = asyncio.get_running_loop()
            await running.sock_sendall(sock, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            got = 0
            with closing(sock), suppress(ConnectionError):
                for _ in range(pauses):
                    # As much as makes the kernel tell the other side that there is room again.
                    for _ in range(64):
                        got += len(await running.sock_recv(sock, 65536))
                    await asyncio.sleep(pause_seconds)
                while part := await running.sock_recv(sock, 1024 * 1024):
                    got += len(part)
            return got

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(taken(pauses=4, pause_seconds=0.2)) > size
        assert runner.run(taken(pauses=1, pause_seconds=2)) < size


async def _nothing(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("no request is ever whole")


async def _served(application: Callable[..., Any] = _nothing) -> asyncio.Server:
    """The protocol alone, over an application that never comes to anything unless another is given."""
    config = Config(application, interface="asgi3", http=protocol.BoundedProtocol, log_config=None)
    config.load()
    state = ServerState()
    return await asyncio.get_running_loop().create_server(
        lambda: protocol.BoundedProtocol(config, state, {}), "127.0.0.1", 0
    )
