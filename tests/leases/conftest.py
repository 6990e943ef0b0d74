"""Services that keep leases: without Redis, with it, and with one that is away; and a client of a tenant there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from app.embedded import Servers
from app.embedded.process import free_port
from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for
from tests.leases.calls import Leases, beside

KINDS = ("without", "redis", "away")


@pytest.fixture(scope="session")
async def services(servers: Servers, kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[dict[str, Service]]:
    """A service of each kind, on one database."""
    url = await kept_clone()
    redis = {"without": None, "redis": servers.redis_url, "away": f"redis://127.0.0.1:{free_port()}/0"}
    async with AsyncExitStack() as stack:
        yield {
            kind: await stack.enter_async_context(running(settings_for(url, redis=beside(redis[kind]))))
            for kind in KINDS
        }


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of service in turn."""
    return str(request.param)


@pytest.fixture
async def client(services: dict[str, Service], kind: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key of a tenant of this test alone, at a service of the kind."""
    async with await new_tenant(services[kind]) as made:
        yield made


@pytest.fixture
async def other(services: dict[str, Service], kind: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of another tenant there."""
    async with await new_tenant(services[kind]) as made:
        yield made


@pytest.fixture
def leases(client: httpx.AsyncClient) -> Leases:
    """The leases of its tenant."""
    return Leases(client)
