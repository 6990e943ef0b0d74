"""A receiver of webhooks on this machine, for trying them: it checks each delivery, prints a line, and answers."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import msgspec
from rich.console import Console

from app.client import InvalidSignatureError, verify
from app.commands.sketches import PIPE_LINE_COLUMNS, console_of, line_of, spelled, without_unicode

HOST = "127.0.0.1"
BODY_BYTES_MAX = 256 * 1024 * 1024
SILENT_SECONDS = 30
# So many deliveries are remembered, to count their attempts.
REMEMBERED_MAX = 10_000
SUCCESS = range(200, 300)


class Receiver(ThreadingHTTPServer):
    """Listens on loopback and answers every delivery alike. Raises OSError where the port is taken."""

    daemon_threads = True

    def __init__(self, port: int, secret: str, answer: int, *, bodies: bool) -> None:
        super().__init__((HOST, port), _Delivery)
        self.secret, self.answer, self.bodies = secret, answer, bodies
        self.console: Console = console_of(PIPE_LINE_COLUMNS)
        self.received = 0
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.server_port}/"

    def show(self, headers: dict[str, str], body: bytes) -> None:
        """Print one delivery: when it came, what it tells and about what, its id, its attempt, and its signature."""
        name = headers.get("webhook-id", "")
        try:
            verify(self.secret, headers, body)
            signature = ("signature ✓", "green")
        except InvalidSignatureError as error:
            signature = (f"signature ✗ {error}", "bold red")
        type_, subject = _told(body)
        with self._lock:
            self.received += 1
            attempt = self._attempts[name] = self._attempts.pop(name, 0) + 1
            if len(self._attempts) > REMEMBERED_MAX:
                self._attempts.popitem(last=False)
            answered = (f"answered {self.answer}", "" if self.answer in SUCCESS else "yellow")
            self._print(
                (time.strftime("%H:%M:%S"), "dim"), (type_, "bold"), (subject, "cyan"), (name, "dim"),
                (f"attempt {attempt}", ""), signature, answered,
            )  # fmt: skip
            if self.bodies:
                for line in _indented(body).split("\n"):
                    self._print((line, ""))

    def _print(self, *parts: tuple[str, str]) -> None:
        shown = [(self._spelled(text), style) for text, style in parts if text]
        spaced = [part for each in shown for part in (("  ", ""), each)][1:]
        self.console.print(line_of(*spaced), soft_wrap=True)

    def _spelled(self, text: str) -> str:
        ascii_only = without_unicode(self.console)
        plain = text.replace("✓", "ok").replace("✗", "WRONG:") if ascii_only else text
        return spelled(plain, ascii_only=ascii_only)


class _Delivery(BaseHTTPRequestHandler):
    """One connection of the service."""

    protocol_version = "HTTP/1.1"
    timeout = SILENT_SECONDS
    server: Receiver

    def do_POST(self) -> None:
        """Take a delivery, print it, and answer."""
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal() and int(length) <= BODY_BYTES_MAX):
            self.close_connection = True
            self.send_error(411)
            return
        body = self.rfile.read(int(length))
        self.server.show({name.lower(): value for name, value in self.headers.items()}, body)
        self.send_response(self.server.answer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing beside what is printed of deliveries."""


@contextmanager
def receiving(receiver: Receiver) -> Iterator[None]:
    """The receiver, listening for as long as the block lasts."""
    serving = Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="receiver")
    serving.start()
    try:
        yield
    finally:
        receiver.shutdown()
        receiver.server_close()


def _told(body: bytes) -> tuple[str, str]:
    """The type that a delivery tells of, and the id of its subject."""
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return "no JSON object", ""
    data = told.get("data")
    subject = (data.get("id") or data.get("path") or "") if isinstance(data, dict) else ""
    return str(told.get("type", "no type")), str(subject)


def _indented(body: bytes) -> str:
    """The body on lines of its members; as it is where it cannot be read."""
    try:
        return msgspec.json.format(body, indent=2).decode(errors="replace")
    except msgspec.DecodeError:
        return body.decode(errors="replace")
