"""What the fault run stands on, and can be broken: NATS, Valkey and two API processes on one PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.db.migrate import migrate
from app.embedded import start_servers
from app.embedded.binaries import find_nats, find_valkey
from app.embedded.nats import await_nats, nats_url, start_nats
from app.embedded.process import Launch, Process
from app.embedded.valkey import await_valkey, redis_url, start_valkey
from app.settings import DatabaseSettings
from benchmarks.process import HOST, Server, await_server, free_port

PASSWORD = "faults"
END_SECONDS = 30


class Part(Protocol):
    """A process that may be killed, paused, and started again at the same address."""

    name: str

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


class EmbeddedPart:
    """A server of the embedded ones, on one port and in one folder for the whole run."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        begin: Callable[[Launch], Process],
        await_ready: Callable[[Process, Launch], None],
    ) -> None:
        self.name, self._launch, self._begin, self._await_ready = name, launch, begin, await_ready
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


class ApiPart:
    """`cairn serve` on one port for the whole run; what it says goes to a file."""

    def __init__(self, name: str, environment: Mapping[str, str], log: Path) -> None:
        self.name, self.port, self.log = name, free_port(), log
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it answers."""
        command = [sys.executable, "-m", "app.cli", "serve", "--host", HOST, "--port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        await_server(self._process, self.port)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(END_SECONDS)


@dataclass(frozen=True)
class Stage:
    """Everything, running. `steady` is the API process that nobody kills."""

    database_url: str
    redis_url: str
    steady: ApiPart
    shaky: ApiPart
    nats: EmbeddedPart
    valkey: EmbeddedPart
    folder: Path


@contextlib.contextmanager
def standing(folder: Path, settings: Mapping[str, str]) -> Iterator[Stage]:
    """Start everything, and stop and remove it when the block ends."""
    with start_servers(folder, ephemeral=True, nats=False, redis=False, fast=False) as servers:
        migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)

        def launch() -> Launch:
            return Launch(servers.folder, PASSWORD, True, free_port(), False, lambda _line: None, threading.Event())

        at_nats, at_valkey = launch(), launch()
        nats = EmbeddedPart("nats-server", at_nats, lambda at: start_nats(find_nats(), at), await_nats)
        valkey = EmbeddedPart("Valkey", at_valkey, lambda at: start_valkey(find_valkey(), at), await_valkey)
        environment = {
            "CAIRN_DATABASE__URL": servers.postgres_url,
            "CAIRN_NATS__URL": nats_url(at_nats),
            "CAIRN_REDIS__URL": redis_url(at_valkey),
            **settings,
        }
        steady, shaky = (
            ApiPart(name, environment, servers.folder / f"api-{place}.log")
            for place, name in enumerate(("the steady API process", "the other API process"))
        )
        parts: tuple[Part, ...] = (nats, valkey, steady, shaky)
        try:
            for part in parts:
                part.start()
            yield Stage(servers.postgres_url, redis_url(at_valkey), steady, shaky, nats, valkey, servers.folder)
        finally:
            for part in reversed(parts):
                part.kill()


@contextlib.contextmanager
def receiving(file: Path, endpoints: Mapping[int, str]) -> Iterator[Server]:
    """The endpoints, in a process of their own; what they were sent is in the file when the block ends."""
    words = [f"{kind}:{port}" for port, kind in endpoints.items()]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.faults.receivers", str(file), *words])
    try:
        yield Server("", process.pid)
    finally:
        process.terminate()
        process.wait(END_SECONDS)
