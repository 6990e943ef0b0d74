"""A small real HTTP server that answers as a test tells it to, for what only a misbehaving server can show."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from app.client import Retry

QUICK = Retry(attempt_max=4, first_pause_seconds=0.001, pause_max_seconds=0.002)


@dataclass
class Asked:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Answers requests from a queue of `(status, headers, body)`; a None hangs up without an answer.

    An answer with the header `X-Cut` ends after so many bytes of its body.
    """

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: deque[tuple[int, dict[str, str], bytes] | None] = field(default_factory=deque)
    otherwise: Callable[[Asked], tuple[int, dict[str, str], bytes] | None] | None = None

    def will_answer(self, status: int, body: Any = b"", **headers: str) -> None:
        """Queue an answer; a body that is no bytes is dumped as JSON, underscores in header names become dashes."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, {name.replace("_", "-"): text for name, text in headers.items()}, sent))

    def will_refuse(self, status: int, code: str, **facts: Any) -> None:
        """Queue a problem document."""
        problem = {"type": f"/problems/{code}", "title": code, "status": status, "code": code, "detail": "No.", **facts}
        self.will_answer(status, problem, Content_Type="application/problem+json", X_Request_Id="req_1")

    def will_hang_up(self) -> None:
        """Queue a lost connection."""
        self.answers.append(None)

    def answer(self, asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
        """Take the next answer."""
        self.asked.append(asked)
        if self.otherwise is not None:
            return self.otherwise(asked)
        return self.answers.popleft()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): text for name, text in self.headers.items()}
            answer = scripted.answer(Asked(self.command, self.path, headers, body))
            if answer is None:
                self.close_connection = True
                return
            status, more, content = answer
            self.send_response(status)
            for name, text in more.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if "X-Cut" in more:
                self.wfile.write(content[: int(more["X-Cut"])])
                self.close_connection = True
            elif self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read what was asked from the script."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    scripted.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield scripted
    http.shutdown()
    http.server_close()
    thread.join(timeout=5)
