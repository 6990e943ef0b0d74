"""What the compose file tells containers to run is run here as it stands; only host names, ports and folders differ."""

import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from app.embedded.binaries import find_nats, find_valkey
from app.embedded.process import free_port
from tests.shape.compose import compose, services


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


def test_nats_takes_its_config_and_its_health_check(tmp_path: Path) -> None:
    port, monitor = free_port(), free_port()
    config = compose()["configs"]["nats"]["content"]
    for told, here in {"4222": f"{port}", "8222": f"{monitor}", "/data": str(tmp_path / "data")}.items():
        assert told in config
        config = config.replace(told, here)
    file = tmp_path / "cairn.conf"
    file.write_text(config)
    url = services()["nats"]["healthcheck"]["test"][-1].replace("8222", str(monitor))
    flag = services()["nats"]["command"][0]

    with started(str(find_nats()), flag, str(file)) as server:
        server.until(lambda: status(url) == 200)


def test_redis_takes_its_options_and_writes_nothing_to_disk(tmp_path: Path) -> None:
    port = free_port()
    options = services()["redis"]["command"][1:]

    with started(str(find_valkey()), *options, "--port", str(port), "--dir", str(tmp_path)) as server:
        client = redis.Redis(port=port, socket_timeout=2)
        server.until(lambda: answers(client))
        client.set("hint", "1")
        client.close()

    assert list(tmp_path.iterdir()) == []


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def status(url: str) -> int | None:
    """Answers the status of a GET, or None while nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None
