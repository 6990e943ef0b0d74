"""A door between a worker and the service, at which something happens to the worker at a chosen request."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import httpx

from app.client import Cairn

ROOT = Path(__file__).resolve().parents[2]
# The command itself, without the server's code that the whole command line loads.
EVOLVE = "import typer; from app.commands.demo import evolve; typer.run(evolve)"
RUN_SECONDS = 200
PASSED_ON = ("authorization", "content-type", "idempotency-key", "accept")


def killed(worker: subprocess.Popen[bytes]) -> None:
    """End the worker as kill -9 does, and see it gone."""
    worker.send_signal(signal.SIGKILL)
    worker.wait(RUN_SECONDS)


@dataclass(frozen=True)
class Blow:
    """What happens to a worker at the `nth` request (from 1) that `is_it`, before or after the service did it.

    The worker never hears the answer: its connection is closed.
    """

    when: Literal["before", "after"]
    is_it: Callable[[str, str, bytes], bool]
    nth: int = 1
    falls: Callable[[subprocess.Popen[bytes]], object] = killed


class Door(ThreadingHTTPServer):
    """Passes requests on, and counts those that a blow waits for."""

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.http = httpx.Client(base_url=service, timeout=60)
        self.said = ""
        """What the last worker said on stderr."""
        self.is_locked = False
        self._blow: Blow | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self, key: str, *arguments: str, blow: Blow | None = None) -> int:
        """Run a worker through this door, and give its exit status."""
        command = [sys.executable, "-c", EVOLVE, "--url", self.url, "--key", key, *arguments]
        self._blow, self._counted = blow, 0
        self._worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, said = self._worker.communicate(timeout=RUN_SECONDS)
            self.said = said.decode()
            return self._worker.returncode
        finally:
            self._worker.kill()

    def blow_at(self, method: str, path: str, body: bytes) -> Blow | None:
        """Count a request; the blow if this is the one."""
        if self._blow is None or not self._blow.is_it(method, path, body):
            return None
        self._counted += 1
        return self._blow if self._counted == self._blow.nth else None

    def lock(self) -> None:
        """Pass nothing on from now on: every connection is closed without an answer."""
        self.is_locked = True

    def strike(self, blow: Blow) -> None:
        """Let the blow fall."""
        assert self._worker is not None
        blow.falls(self._worker)


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Door

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.server.is_locked:
            self.close_connection = True
            return None
        blow = self.server.blow_at(self.command, self.path, body)
        if blow is not None and blow.when == "before":
            return self._break_off(blow)
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        answer = self.server.http.request(self.command, self.path, content=body, headers=headers)
        assert answer.status_code < 500, answer.text
        if blow is not None:
            return self._break_off(blow)
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers.get("content-type", "application/json"))
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)
        return None

    def _break_off(self, blow: Blow) -> None:
        self.close_connection = True
        self.server.strike(blow)

    do_GET = do_POST = do_PUT = _pass  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def door_to(service: str) -> Iterator[Door]:
    """An open door; it is closed when the block ends."""
    door = Door(service)
    thread = threading.Thread(target=door.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield door
    finally:
        door.shutdown()
        thread.join()
        door.server_close()
        door.http.close()


def record_of(cairn: Cairn, run_id: str) -> dict[str, object]:
    """Everything that a search wrote, without what the clock decides."""
    generations = list(cairn.generations.list(run_id))
    read = cairn.batch()
    members = {one.number: read.generations.members(one.id) for one in generations}
    read.send()
    run = cairn.evolution_runs.get(run_id)
    stats = ("best_fitness", "worst_fitness", "avg_fitness", "fitness_std_dev", "evaluation_cost", "improvement_rate")
    return {
        "run": (run.status, run.config, run.generation_count, run.invocation_count, run.total_cost),
        "checkpoint": cairn.evolution_runs.checkpoint(run_id).text,
        "generations": [
            (one.id, one.number, one.ended_at is not None, one.best_version_id, *(one.stats[name] for name in stats))
            for one in generations
        ],
        "members": {
            number: [(one.version_id, one.rank, one.fitness) for one in found.result()]
            for number, found in members.items()
        },
        "versions": sorted(
            (one.id, one.dsl.text, one.operation, one.parent1_id or "", one.parent2_id or "", one.generation_id)
            for one in cairn.versions.list(workflow_id=run_id, include=["dsl"], limit=1000)
            if one.dsl is not None
        ),
        "invocations": sorted(
            (one.id, one.version_id, one.generation_id, one.status, one.fitness_score, one.accuracy, one.usd_cost)
            for one in cairn.invocations.list(run_id=run_id, limit=1000)
        ),
    }
