"""The servers of a run, each of which may be killed, paused, and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from app.embedded.binaries import find_nats, find_valkey
from app.embedded.nats import await_nats, nats_url, start_nats
from app.embedded.process import Launch, Process, free_port
from app.embedded.valkey import await_valkey, redis_url, start_valkey

PASSWORD = "faults"


class Part(Protocol):
    """A process that may be killed, paused, and started again at the same address."""

    name: str

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


@contextlib.contextmanager
def paused(part: Part) -> Iterator[None]:
    """Let it hang while the block runs: it answers nobody, and ends no connection."""
    pid = part.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class EmbeddedPart:
    """A server of the embedded ones, on one port and in one folder for the whole run; `url` is where it is."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        url: str,
        begin: Callable[[Launch], Process],
        await_ready: Callable[[Process, Launch], None],
    ) -> None:
        self.name, self.url, self._launch, self._begin, self._await_ready = name, url, launch, begin, await_ready
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._process = self._begin(self._launch)
        self._await_ready(self._process, self._launch)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        if self._process is not None:
            if self._process.is_running():
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.stop()


def nats_part(folder: Path, *, fast: bool = False) -> EmbeddedPart:
    """NATS, not started yet; what its streams hold outlives it."""
    at = _launch(folder, fast=fast)
    return EmbeddedPart("nats-server", at, nats_url(at), lambda launch: start_nats(find_nats(), launch), await_nats)


def valkey_part(folder: Path, *, fast: bool = False) -> EmbeddedPart:
    """Valkey, not started yet; where it is `fast` it begins empty each time."""
    at = _launch(folder, fast=fast)
    return EmbeddedPart("Valkey", at, redis_url(at), lambda launch: start_valkey(find_valkey(), launch), await_valkey)


def _launch(folder: Path, *, fast: bool) -> Launch:
    return Launch(folder, PASSWORD, True, free_port(), fast, lambda _line: None, threading.Event())
