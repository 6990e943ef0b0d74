"""What the fault run stands on, and can be broken: NATS, Valkey and two API processes on one PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.faults.parts import EmbeddedPart, Part, nats_part, valkey_part
from benchmarks.process import HOST, Server, await_server, free_port

END_SECONDS = 30


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

        nats, valkey = nats_part(servers.folder), valkey_part(servers.folder)
        environment = {
            "CAIRN_DATABASE__URL": servers.postgres_url,
            "CAIRN_NATS__URL": nats.url,
            "CAIRN_REDIS__URL": valkey.url,
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
            yield Stage(servers.postgres_url, valkey.url, steady, shaky, nats, valkey, servers.folder)
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
