"""The embedded Valkey: a password, an append-only file, loopback only."""

import signal
import socket
from pathlib import Path

from app.embedded.process import HOST, Launch, Process, Step

PART = "Valkey"
READY_SECONDS = 30.0
STEPS = (Step(signal.SIGTERM, 10), Step(signal.SIGKILL, 5))

# The directory is "." because the server works in its own folder; so no path has to be quoted.
CONFIGURATION = """
bind {host}
port {port}
requirepass {password}
daemonize no
dir .
save ""
appendonly {keeps}
appendfsync everysec
"""


def redis_url(launch: Launch) -> str:
    """Answers the address of the server with its password."""
    return f"redis://:{launch.password}@{HOST}:{launch.port}/0"


def start_valkey(program: Path, launch: Launch) -> Process:
    """Starts the server and answers it before it is ready; raises PartError when it cannot be started."""
    work = launch.folder / "valkey"
    work.mkdir(mode=0o700, exist_ok=True)
    configuration = work / "valkey.conf"
    configuration.touch(mode=0o600)
    keeps = "no" if launch.fast else "yes"
    configuration.write_text(
        CONFIGURATION.format(host=HOST, port=launch.port, password=launch.password, keeps=keeps), encoding="utf-8"
    )
    return Process(PART, [program, "valkey.conf"], work=work, port=launch.port, steps=STEPS)


def await_valkey(process: Process, launch: Launch) -> None:
    """Returns when the server takes our password and answers PING, which it does once its data is loaded."""
    process.await_ready(lambda: _pong(launch), launch, READY_SECONDS)


def _pong(launch: Launch) -> bool:
    try:
        with socket.create_connection((HOST, launch.port), timeout=2) as connection, connection.makefile("rb") as lines:
            connection.sendall(f"AUTH {launch.password}\r\nPING\r\n".encode())
            return lines.readline() == b"+OK\r\n" and lines.readline() == b"+PONG\r\n"
    except OSError:
        return False
