"""A service that listens on a real port, on a database of the test alone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest
import uvicorn

from app.client import Cairn
from app.main import create_app
from tests.conftest import ADMIN_KEY, settings_for

START_SECONDS = 30


@dataclass(frozen=True)
class Served:
    """Where the service listens, and a key of one tenant."""

    url: str
    key: str


@pytest.fixture
def served(clone: Callable[[], Awaitable[str]]) -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(settings_for(asyncio.run(_clone(clone))))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert thread.is_alive(), "the service ended while starting"
        assert time.monotonic() < deadline, "the service did not start"
        thread.join(0.01)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with Cairn(url, key=ADMIN_KEY) as operator:
            operator.tenants.ensure("acme", name="Acme")
            made = operator.using(tenant="acme").api_keys.create("tests", ["admin", "*:read", "*:write"])
        assert made.key is not None
        yield Served(url, made.key)
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        listener.close()


@pytest.fixture
def cairn(served: Served) -> Iterator[Cairn]:
    with Cairn(served.url, key=served.key) as client:
        yield client


async def _clone(clone: Callable[[], Awaitable[str]]) -> str:
    return await clone()
