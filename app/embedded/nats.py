"""The embedded nats-server: JetStream in a folder, one user, loopback only."""

import json
import signal
import socket
from pathlib import Path
from typing import BinaryIO

from app.embedded.process import HOST, Launch, Process, Step

PART = "NATS"
USER = "cairn"
READY_SECONDS = 30.0
STEPS = (Step(signal.SIGTERM, 10), Step(signal.SIGKILL, 5))

# The store is "." because the server works in its own folder; so no path has to be quoted. Its bound is stated because
# the server's own is a share of what is free now, and a stream that may grow to a gigabyte reserves that much of it.
CONFIGURATION = """
server_name: "cairn"
host: "{host}"
port: {port}
jetstream {{ store_dir: ".", max_file_store: 64GB }}
authorization {{ user: "{user}", password: "{password}" }}
"""


def nats_url(launch: Launch) -> str:
    """Answers the address of the server with its user and password."""
    return f"nats://{USER}:{launch.password}@{HOST}:{launch.port}"


def start_nats(program: Path, launch: Launch) -> Process:
    """Starts the server and answers it before it is ready; raises PartError when it cannot be started."""
    work = launch.folder / "nats"
    work.mkdir(mode=0o700, exist_ok=True)
    configuration = work / "nats.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(
        CONFIGURATION.format(host=HOST, port=launch.port, user=USER, password=launch.password), encoding="utf-8"
    )
    return Process(PART, [program, "--config", "nats.conf"], work=work, port=launch.port, steps=STEPS)


def await_nats(process: Process, launch: Launch) -> None:
    """Returns when the server takes our password and JetStream answers a request."""
    process.await_ready(lambda: _jetstream_answers(launch), launch, READY_SECONDS)


def _jetstream_answers(launch: Launch) -> bool:
    try:
        with socket.create_connection((HOST, launch.port), timeout=2) as connection, connection.makefile("rb") as lines:
            greeting = lines.readline()
            if not greeting.startswith(b"INFO ") or not json.loads(greeting[5:]).get("jetstream"):
                return False
            hello = json.dumps({"user": USER, "pass": launch.password, "verbose": False, "pedantic": False})
            question = f"CONNECT {hello}\r\nPING\r\nSUB ready 1\r\nPUB $JS.API.INFO ready 0\r\n\r\n"
            connection.sendall(question.encode())
            return _is_account_info(lines)
    except (OSError, ValueError):
        return False


def _is_account_info(lines: BinaryIO) -> bool:
    # PONG, the message's header, the message: anything else within three lines is a refusal.
    answer = [lines.readline() for _ in range(3)]
    if not answer[0].startswith(b"PONG") or not answer[1].startswith(b"MSG ready"):
        return False
    return "error" not in json.loads(answer[2])
