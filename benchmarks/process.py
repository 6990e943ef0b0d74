"""A server process of the benchmarks: started, awaited until it answers, and always stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

READY_SECONDS = 60
STOP_SECONDS = 30
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A running server: where it answers, and its process."""

    url: str
    pid: int


@contextlib.contextmanager
def serving(command: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run a server with this Python while the block runs. Raises `RuntimeError` when it does not come to answer."""
    process = subprocess.Popen([sys.executable, *command], env={**os.environ, **(environment or {})})
    try:
        await_server(process, port)
        yield Server(f"http://{HOST}:{port}", process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_server(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"The server ended with {process.returncode} before it answered.")
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise RuntimeError("The server did not answer in time.")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had resident since the last `forget_peak`."""
    return _status(pid, "VmHWM")


def resident_bytes(pid: int) -> int:
    """The memory that a process has resident."""
    return _status(pid, "VmRSS")


def forget_peak(pid: int) -> None:
    """Let `peak_bytes` start again from here."""
    with open(f"/proc/{pid}/clear_refs", "w") as file:  # noqa: PTH123 - a file of the kernel
        file.write("5")


def _status(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123 - a file of the kernel
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))


def cpu_seconds(pid: int) -> float:
    """The processor time that a process and its ended children have used."""
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a file of the kernel
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123 - a file of the kernel
        return [int(child) for child in file.read().split()]
