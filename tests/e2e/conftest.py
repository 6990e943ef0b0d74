"""A service that listens on a real port, and a tenant of it for each test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
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
    """Where the service listens, and a tenant's key."""

    url: str
    tenant: str
    key: str


@pytest.fixture(scope="session")
def served_url(clone: Callable[[], Awaitable[str]]) -> Iterator[str]:
    async def new_database() -> str:
        return await clone()

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
