"""The API as a process of its own, to be killed, stopped and started again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx

from tests.conftest import ADMIN_KEY, WEBHOOK_KEY
from tests.waiting import until
from tests.warm import Forked

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 40
STOP_SECONDS = 30


class Command:
    """One command of Cairn in a process of its own, which has the code loaded; what it says goes to a file."""

    def __init__(self, *arguments: str, url: str, **settings: object) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cairn-test-")
        self.said = Path(self._folder.name, "said")
        given = {
            "database__url": url, "auth__admin_key": ADMIN_KEY, "background__enabled": False,
            "webhooks__encryption_keys": WEBHOOK_KEY, "webhooks__allow_private": "127.0.0.1", **settings,
        }  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
        environment |= {f"CAIRN_{name.upper()}": str(value) for name, value in given.items()}
        environment["PYTHONPATH"] = str(ROOT)
        self.said.touch()
        self.process = Forked([*arguments], cwd=self._folder.name, env=environment, said=self.said)

    def output(self) -> str:
        """Everything that it has said so far."""
        return self.said.read_text(errors="replace")

    def wait(self, seconds: float = START_SECONDS) -> int:
        """Its exit status; fails after a bound."""
        return self.process.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Kill it if it still runs, and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_SECONDS)
        self._folder.cleanup()


class ApiProcess(Command):
    """`cairn serve` on a free port, or the one that is given; `url` is where it answers."""

    def __init__(self, database_url: str, port: int = 0, **settings: object) -> None:
        super().__init__("serve", "--port", str(port), url=database_url, **settings)
        try:
            self.url = str(until(self._address, "the address of the API"))
            until(self._listens, "the API")
        except BaseException:
            self.close()
            raise

    @property
    def port(self) -> int:
        """Where another one can take over."""
        return int(self.url.rpartition(":")[2])

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.output()
        found = re.search(r"Cairn serves (http://\S+)", self.output())
        return found and found[1]

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.output()
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True


@contextmanager
def serving(database_url: str, **settings: object) -> Iterator[ApiProcess]:
    """A running API; it is gone when the block ends."""
    process = ApiProcess(database_url, **settings)
    try:
        yield process
    finally:
        process.close()


def of(process: ApiProcess) -> httpx.AsyncClient:
    """A client of an API that is a process of its own."""
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    return httpx.AsyncClient(base_url=process.url, headers=headers, timeout=60)


@asynccontextmanager
async def two_processes(
    url: str, **settings: object
) -> AsyncIterator[tuple[ApiProcess, ApiProcess, httpx.AsyncClient, httpx.AsyncClient]]:
    """Two API processes on one database, and a client of each for the tenant `acme`."""
    with ExitStack() as processes:
        # Each takes seconds to start: both at once.
        one, two = await asyncio.gather(
            *(asyncio.to_thread(processes.enter_context, serving(url, **settings)) for _ in range(2))
        )
        async with of(one) as first, of(two) as second:
            assert (await first.put("/v1/tenants/acme", json={})).status_code == 201
            for client in (first, second):
                client.headers["x-tenant-id"] = "acme"
            yield one, two, first, second
