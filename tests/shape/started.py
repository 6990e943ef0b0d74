"""Commands that run beside a test as containers do: started, waited for, and stopped by SIGTERM."""

import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Started:
    """A command that runs beside the test, and what it printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    def until(self, ready: Callable[[], bool], seconds: float = 30) -> None:
        """Returns once `ready` holds; fails when the command ends or the time is over before."""
        end = time.monotonic() + seconds
        while not ready():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self._log.read_text()}"
            assert time.monotonic() < end, f"it is not ready after {seconds} s: {self._log.read_text()}"
            time.sleep(0.05)


@contextmanager
def started(*command: str, environment: dict[str, str] | None = None) -> Iterator[Started]:
    """Runs a command until the block ends, then stops it as a container is stopped, and insists that it goes."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield Started(process, Path(log.name))
            process.terminate()
            process.wait(timeout=30)
        finally:
            process.kill()
            process.wait()


def status(url: str) -> int | None:
    """Answers the status of a GET, or None while nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None
