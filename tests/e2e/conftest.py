"""A service that listens on a real port, and a tenant of it for each test."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest
import uvicorn

from app.client import Cairn
from app.main import create_app
from tests.conftest import ADMIN_KEY, settings_for

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS, DEV_SECONDS = 30, 90


@dataclass(frozen=True)
class Served:
    """Where the service listens, and a tenant's key."""

    url: str
    tenant: str
    key: str


@pytest.fixture(scope="session")
def served_url(kept_clone: Callable[[], Awaitable[str]]) -> Iterator[str]:
    async def new_database() -> str:
        return await kept_clone()

    app = create_app(settings_for(asyncio.run(new_database()), background={"enabled": True}))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not server.started:
            assert thread.is_alive(), "the service ended while starting"
            assert time.monotonic() < deadline, "the service did not start"
            thread.join(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(START_SECONDS)


@pytest.fixture
def served(served_url: str) -> Served:
    tenant = f"t{uuid.uuid4().hex[:16]}"
    with Cairn(served_url, key=ADMIN_KEY) as operator:
        operator.tenants.ensure(tenant)
        made = operator.using(tenant=tenant).api_keys.create("tests", ["admin", "*:read", "*:write"])
    assert made.key is not None
    return Served(served_url, tenant, made.key)


@pytest.fixture
def cairn(served: Served) -> Iterator[Cairn]:
    with Cairn(served.url, key=served.key) as client:
        yield client


@pytest.fixture
def started(tmp_path: Path) -> Iterator[str]:
    """`cairn dev` with its data in `var`, on a free port; gives what it printed when it was ready."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "app.cli", "dev", "--port", "0", "--folder", str(tmp_path / "var")]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    Thread(target=lambda: [lines.put(line) for line in process.stdout or ()], daemon=True).start()
    try:
        printed = ""
        while "Ctrl-C stops everything" not in printed:
            try:
                printed += lines.get(timeout=DEV_SECONDS)
            except Empty:
                pytest.fail(f"cairn dev was not ready in {DEV_SECONDS} s; it printed: {printed}")
        yield printed
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
