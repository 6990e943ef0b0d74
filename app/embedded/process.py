"""One server process: started in a session of its own, watched until it answers, stopped and seen to be gone."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.embedded.fault import GivenUpError, PartError, explain_output

HOST = "127.0.0.1"
POLL_SECONDS = 0.02
OUTPUT_BYTES = 8_000

Report = Callable[[str], None]


@dataclass(frozen=True)
class Launch:
    """What every server is given at its start."""

    folder: Path
    password: str
    password_is_new: bool
    port: int
    fast: bool
    report: Report
    cancelled: threading.Event


@dataclass(frozen=True)
class Step:
    """One step of stopping: the signal to send and how long to wait for the end before the next step."""

    number: signal.Signals
    seconds: float


def environment(**more: str) -> dict[str, str]:
    """Answers this process's environment for a server: English messages, and none of libpq's own variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    # Errors are recognised by their English text.
    return {**kept, "LC_ALL": "C", "LANGUAGE": "C", **more}


def port_is_free(port: int) -> bool:
    """Says whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return True
    return False


def free_port() -> int:
    """Answers a port of 127.0.0.1 that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Process:
    """A running server that this process started and answers for."""

    def __init__(
        self,
        part: str,
        argv: Sequence[str | Path],
        *,
        work: Path,
        port: int,
        steps: Sequence[Step],
        user: int | None = None,
        group: int | None = None,
    ) -> None:
        """Starts the server in the directory `work`; its output goes to `work`'s name with `.log` beside it."""
        self.part, self.port, self.work, self.steps = part, port, work, steps
        self.log = work.with_name(work.name + ".log")
        if self.log.exists():
            # One earlier log is kept, so that logs stay bounded by two runs.
            self.log.replace(self.log.with_name(self.log.name + ".1"))
        with self.log.open("wb") as output:
            self._popen = subprocess.Popen(  # noqa: S603
                [str(word) for word in argv],
                cwd=work,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A Ctrl-C at the terminal goes to its foreground group; the servers are not in it.
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._popen.pid

    def is_running(self) -> bool:
        """Says whether the server has not ended yet."""
        return self._popen.poll() is None

    def output(self) -> str:
        """Answers the end of what the server wrote."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - OUTPUT_BYTES))
            return file.read().decode(errors="replace")

    def await_ready(self, answers: Callable[[], bool], launch: Launch, seconds: float) -> None:
        """Waits until the server answers; raises PartError when it ends, or does not answer within `seconds`."""
        give_up_at = time.monotonic() + seconds
        slow_at = time.monotonic() + 5.0
        while not answers():
            if not self.is_running():
                raise explain_output(self.part, self.output(), self.log, self.work, self.port)
            if launch.cancelled.is_set():
                raise GivenUpError(f"{self.part} was not started because another part failed.")
            if time.monotonic() > give_up_at:
                raise PartError(f"{self.part} did not answer within {seconds:.0f} s: read {self.log}.")
            if time.monotonic() > slow_at:
                launch.report(f"{self.part} is still starting")
                slow_at += 5.0
            time.sleep(POLL_SECONDS)

    def begin_stop(self) -> None:
        """Sends the first signal of the stop and returns at once; the end is awaited by `stop`."""
        if self.is_running():
            self._popen.send_signal(self.steps[0].number)

    def stop(self) -> None:
        """Stops the server, ever more firmly, and verifies that it is gone and its port closed."""
        for step in self.steps:
            if self.is_running():
                self._popen.send_signal(step.number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(step.seconds)
                break
        else:
            raise PartError(f"{self.part} (process {self.pid}) does not end: kill it and read {self.log}.")
        self._await_port_closed()

    def _await_port_closed(self) -> None:
        give_up_at = time.monotonic() + 5.0
        while not port_is_free(self.port):
            if time.monotonic() > give_up_at:
                raise PartError(f"{self.part} is stopped but port {self.port} is still open: see who listens there.")
            time.sleep(POLL_SECONDS)
