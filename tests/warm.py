"""Processes of Cairn that start at once: each is forked from one that has loaded the code, which takes seconds."""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STEP_SECONDS = 0.005


class Loaded:
    """The process that has loaded Cairn, as the tests speak to it: one line asks, one line answers."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                env={**environment, "PYTHONPATH": str(ROOT)}, cwd=ROOT, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._socket, self._lines = ours, ours.makefile("r")
        self._one_at_a_time = threading.Lock()
        atexit.register(self._end)

    def ask(self, **question: Any) -> Any:
        """What it answers; a thread that asks waits for the one before it."""
        with self._one_at_a_time:
            self._socket.sendall(json.dumps(question).encode() + b"\n")
            return json.loads(self._lines.readline())

    def _end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()


_loading = threading.Lock()


def loaded() -> Loaded:
    """The one of this test process, whichever threads ask for it first: a child is known to its own parent only."""
    with _loading:
        return _loaded()


@functools.cache
def _loaded() -> Loaded:
    return Loaded()


class Forked:
    """A process that runs `cairn` with its own arguments, environment and folder; used like a Popen."""

    def __init__(self, arguments: list[str], *, cwd: str, env: dict[str, str], said: Path) -> None:
        self.returncode: int | None = None
        asked = {"arguments": arguments, "folder": cwd, "environment": env, "said": str(said)}
        self.pid: int = loaded().ask(start=asked)

    def poll(self) -> int | None:
        """Its exit status once it has ended; minus the number of the signal that ended it."""
        if self.returncode is None:
            self.returncode = loaded().ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit status; raises TimeoutExpired when it runs for longer."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("cairn", timeout)
            time.sleep(STEP_SECONDS)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it is known to have ended. Until then its id is nobody else's: nobody has waited."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _answer(asked: socket.socket) -> dict[str, Any] | None:
    """Answers questions until the tests end; in a forked child, the answer is what to run."""
    with asked, asked.makefile("r") as lines:
        for line in lines:
            question = json.loads(line)
            if "poll" in question:
                pid, status = os.waitpid(question["poll"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            elif (answer := os.fork()) == 0:
                return question["start"]
            asked.sendall(json.dumps(answer).encode() + b"\n")
    return None


def _become(asked: dict[str, Any]) -> None:
    """Makes this child what a new process would be: its folder, environment, output and arguments."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    with Path(os.devnull).open("rb") as nothing, Path(asked["said"]).open("wb") as said:
        os.dup2(nothing.fileno(), 0)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = ["cairn", *asked["arguments"]]


def _main() -> None:
    import app.commands.root  # noqa: PLC0415
    import app.main  # noqa: F401, PLC0415
    from app.cli import main  # noqa: PLC0415

    # What is loaded stays; a child that looked through it for garbage would make it its own, page by page.
    gc.collect()
    gc.freeze()
    if (asked := _answer(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(asked)
        main()


if __name__ == "__main__":
    _main()
