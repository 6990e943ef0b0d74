"""HTTP/1.1 as uvicorn reads it, with a bound on the head of a request, and refusals like every other of ours."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from app.errors import AppError, HeadTooLarge, MalformedRequest, RequestTimeout
from app.http.live import STALLED_SECONDS
from app.http.problems import MEDIA_TYPE, problem
from app.http.service import Service

# What browsers and proxies send stays far below; the parser itself keeps a target of at most 64 KiB.
HEAD_BYTES_MAX = 128 * 1024
HEAD_SECONDS = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A head that is too large or does not end in time is refused, as is what is no HTTP.

    A client that takes nothing of what it is sent for `STALLED_SECONDS` is gone: to close the connection in order would
    wait for it for ever, with what is left of its answer in memory.
    """

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self._head_bytes: int | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first request is awaited as long as any later one."""
        super().connection_made(transport)
        self._await_head(0, self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes less than it is sent: it is watched until it has taken nearly everything."""
        super().pause_writing()
        self._watch_stall()

    def resume_writing(self) -> None:
        """The client has taken it."""
        self._end_stall()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head that these bytes belong to is too large already."""
        if self._head_bytes is not None:
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(HeadTooLarge(f"The head of a request may have at most {HEAD_BYTES_MAX} bytes."))
                return
            self._head_bytes += len(data)
        super().data_received(data)

    def shutdown(self) -> None:
        """The server begins to stop: it tells each connection, before it waits for their answers."""
        if isinstance(self.app, Service):
            self.app.end_waits()
        super().shutdown()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._await_head(1, HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._end_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Refuse what is no HTTP/1.1."""
        self._refuse(MalformedRequest("This is no HTTP/1.1 request that the service can read."))

    def _watch_stall(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self._check_stall, left)

    def _check_stall(self, left_before: int) -> None:
        # While it is paused nothing is added.
        if self.transport.get_write_buffer_size() >= left_before:
            self.transport.abort()
        else:
            self._watch_stall()

    def _end_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _await_head(self, begun: int, seconds: float) -> None:
        self._end_head()
        self._head_bytes = begun
        self._head_timer = self.loop.call_later(seconds, self._late)

    def _end_head(self) -> None:
        self._head_bytes = None
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # Its answer is still under way: the connection is not idle, and nothing may come between.
            self._await_head(self._head_bytes or 0, HEAD_SECONDS)
        elif self._head_bytes:
            self._refuse(RequestTimeout(f"The head of the request did not end within {HEAD_SECONDS:g} s."))
        else:
            self.transport.close()

    def _refuse(self, refusal: AppError) -> None:
        """Answer and hang up; where an answer is under way already, only hang up."""
        self._end_head()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            request_id = f"req_{os.urandom(16).hex()}"
            body = problem(refusal, "", request_id)
            headers = [
                *self.server_state.default_headers,
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
                (b"x-request-id", request_id.encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[refusal.status], lines, body))
        self.transport.close()
