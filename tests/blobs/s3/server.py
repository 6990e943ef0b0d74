"""moto's server as a process on a free port of this machine; its environment is built on first use."""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx

FOLDER = Path(__file__).parent
LOCK = FOLDER / "requirements.lock"
ENVIRONMENT = FOLDER / ".venv"
START_SECONDS, STOP_SECONDS, INSTALL_SECONDS = 60, 10, 240
_ADDRESS = re.compile(r"Running on (http://127\.0\.0\.1:[0-9]+)")


@contextmanager
def serving() -> Iterator[str]:
    """The URL of the service while the block runs; it keeps its objects in memory."""
    installed()
    command = [str(ENVIRONMENT / "bin/moto_server"), "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    deadline = threading.Timer(START_SECONDS, process.kill)
    deadline.start()
    try:
        url = _address(process.stdout)
        deadline.cancel()
        # What it says of each request is read, or it would stand still.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield url
    finally:
        deadline.cancel()
        process.kill()
        process.wait(STOP_SECONDS)


def make_bucket(url: str, name: str) -> str:
    """A new bucket; its name."""
    made = httpx.put(f"{url}/{name}", timeout=START_SECONDS)
    assert made.status_code == 200, made.text
    return name


def _address(said: IO[str]) -> str:
    lines = []
    for line in said:
        lines.append(line)
        found = _ADDRESS.search(line)
        if found is not None:
            return found[1]
    raise AssertionError(f"moto's server did not start: {''.join(lines)}")


def installed() -> None:
    """Have the environment there as the lock says, once for all processes of a test run."""
    wanted, stamp = hashlib.sha256(LOCK.read_bytes()).hexdigest(), ENVIRONMENT / "installed"
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        pip = [str(ENVIRONMENT / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        ran = subprocess.run(
            [*pip, "--quiet", "--require-hashes", "-r", str(LOCK)],
            capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"moto could not be installed; is the package index there?\n{ran.stderr}"
        stamp.write_text(wanted)
