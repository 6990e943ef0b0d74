"""The load generator: wrk, a C program with one thread for each client, so that the load costs the machine little."""

from __future__ import annotations

import json
import resource
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.request import Request

SCRIPT = Path(__file__).with_name("wrk.lua")


class LoadError(Exception):
    """The load could not be made, or was answered with refusals: nothing measured under it would mean anything."""


@dataclass(frozen=True)
class Measured:
    """What one run of the generator saw: answers each second, and the share of one core that it used itself."""

    rate: float
    core_share: float


def require_wrk() -> str:
    """Where wrk is. Raises `LoadError`, in a sentence that says what to install, when it is missing."""
    found = shutil.which("wrk")
    if found is None:
        raise LoadError("The benchmarks need the load generator wrk; install it (Debian, Ubuntu: apt-get install wrk).")
    return found


def load(url: str, requests: Sequence[Request], bearer: str, clients: int, seconds: int) -> Measured:
    """Send the requests in turn from so many clients. Raises `LoadError` when any was refused or failed."""
    host = url.removeprefix("http://")
    with tempfile.NamedTemporaryFile("w", suffix=".http", newline="") as file:
        file.write("\x01".join(request.wire(host, bearer) for request in requests))
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [require_wrk(), f"-t{clients}", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s"]
        ended = subprocess.run(
            [*command, "-s", str(SCRIPT), url, "--", file.name, secrets.token_hex(3)],
            capture_output=True, text=True, check=False, timeout=seconds + 120,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = [line.removeprefix("RESULT ") for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    if ended.returncode or not found:
        raise LoadError(f"wrk ended with {ended.returncode}: {ended.stderr.strip() or ended.stdout.strip()}")
    result = json.loads(found[0])
    if result["refused"] or result["failed"] or not result["requests"]:
        raise LoadError(
            f"Of {result['requests']} requests, {result['refused']} were refused, {result['failed']} failed."
        )
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    duration = result["microseconds"] / 1e6
    return Measured(result["requests"] / duration, used / duration)


def first_words() -> str:
    """The generator's name and version."""
    told = subprocess.run([require_wrk(), "--version"], capture_output=True, text=True, check=False)
    return " ".join((told.stdout or told.stderr).split()[:2])
