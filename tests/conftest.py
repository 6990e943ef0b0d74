"""What every test stands on: real servers started once, a migrated template database, and a tenant of its own."""

from __future__ import annotations

import asyncio
import atexit
import logging
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import structlog

from app import logs
from app.db.migrate import migrate
from app.embedded import Servers, start_servers
from app.http.service import Service
from app.main import create_app
from app.settings import DatabaseSettings, Settings
from tests.in_memory import keep_files_in_memory

keep_files_in_memory()

ADMIN_KEY = "operator-key-of-the-tests"
TEMPLATE = "cairn_template"
# Where the objects of the tests lie: those of each database in a folder of its own.
OBJECTS = Path(tempfile.mkdtemp(prefix="cairn-objects-"))
atexit.register(shutil.rmtree, OBJECTS, ignore_errors=True)
WEBHOOK_KEY = "Y2Fpcm4tdGVzdHMtYS1rZXktb2YtMzItYnl0ZXMtLi4="


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """A command that runs in this process sets up its logs; the next test does not inherit them."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [handler for handler in root.handlers if type(handler).__module__ == logs.__name__]:
        root.removeHandler(handler)
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """PostgreSQL, NATS and Valkey, for this session alone."""
    with start_servers(tmp_path_factory.mktemp("servers"), ephemeral=True, fast=True) as started:
        yield started


def database_url(servers: Servers, name: str) -> str:
    """The URL of another database of the same server."""
    return servers.postgres_url.rsplit("/", 1)[0] + "/" + name


async def _admin(servers: Servers, *statements: str) -> None:
    connection = await asyncpg.connect(database_url(servers, "postgres"))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def template(servers: Servers) -> str:
    """A migrated database that others are cloned from."""
    asyncio.run(_admin(servers, f"CREATE DATABASE {TEMPLATE}"))
    migrate(DatabaseSettings(url=database_url(servers, TEMPLATE)), report=lambda _line: None)
    return TEMPLATE


Clone = Callable[[], Awaitable[str]]


@pytest.fixture(scope="session")
def kept_clone(servers: Servers, template: str) -> Clone:
    """Makes a fresh, migrated database for many tests and gives its URL."""

    async def make_clone() -> str:
        name = f"t_{uuid.uuid4().hex}"
        await _admin(servers, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return database_url(servers, name)

    return make_clone


@pytest.fixture
async def clone(servers: Servers, kept_clone: Clone) -> AsyncIterator[Clone]:
    """Makes fresh, migrated databases for this test alone and gives their URLs."""
    made: list[str] = []

    async def make_clone() -> str:
        made.append(await kept_clone())
        return made[-1]

    yield make_clone
    await _admin(servers, *[f"DROP DATABASE {url.rsplit('/', 1)[1]} WITH (FORCE)" for url in made])


def settings_for(url: str, **groups: dict[str, Any]) -> Settings:
    """The settings of the tests: nothing is read from a file or the environment but what is given."""
    groups.setdefault("auth", {}).setdefault("admin_key", ADMIN_KEY)
    # Endpoints of the tests are of this machine.
    groups["webhooks"] = {"encryption_keys": WEBHOOK_KEY, "allow_private": "127.0.0.1", **groups.get("webhooks", {})}
    # A test drains the jobs that it is about; nothing happens beside it.
    groups.setdefault("background", {}).setdefault("enabled", False)
    groups.setdefault("blobs", {}).setdefault("folder", OBJECTS / url.rsplit("/", 1)[1])
    database = {"url": url, "pool_min": 0, "pool_max": 12, **groups.pop("database", {})}
    return Settings(_env_file=None, database=database, **groups)  # type: ignore[call-arg]


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Service]:
    """The service in this process, from start to end of its lifespan."""
    service = create_app(settings)
    async with service.router.lifespan_context(service):
        yield service


def http(service: Service, **headers: str) -> httpx.AsyncClient:
    """A client of a service in this process."""
    transport = httpx.ASGITransport(app=service, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://cairn.test", headers=headers, timeout=60)


@pytest.fixture(scope="session")
async def service(kept_clone: Clone) -> AsyncIterator[Service]:
    """A running service on a database of the session; its streams end by themselves, which a whole answer needs."""
    async with running(settings_for(await kept_clone(), http={"live_stream_seconds": 1})) as started:
        yield started


@pytest.fixture
async def fresh(clone: Clone) -> AsyncIterator[Service]:
    """A running service on a database of this test alone."""
    async with running(settings_for(await clone())) as started:
        yield started


@pytest.fixture
async def operator(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """The operator: acts for any tenant through X-Tenant-Id."""
    async with http(service, authorization=f"Bearer {ADMIN_KEY}") as client:
        yield client


async def new_tenant(service: Service, scopes: tuple[str, ...] = ("admin", "*:read", "*:write")) -> httpx.AsyncClient:
    """A client with a key of a tenant made for it. Its id is in `client.headers["x-test-tenant"]`."""
    tenant = f"t{uuid.uuid4().hex[:16]}"
    async with http(service, authorization=f"Bearer {ADMIN_KEY}") as client:
        made = await client.put(f"/v1/tenants/{tenant}", json={})
        assert made.status_code == 201, made.text
        key = await client.post(
            "/v1/api-keys", json={"name": "test", "scopes": list(scopes)}, headers={"x-tenant-id": tenant}
        )
        assert key.status_code == 201, key.text
    return http(service, **{"authorization": f"Bearer {key.json()['key']}", "x-test-tenant": tenant})


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key of a tenant of this test alone."""
    async with await new_tenant(service) as made:
        yield made


@pytest.fixture
async def other(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of another tenant."""
    async with await new_tenant(service) as made:
        yield made


@pytest.fixture
def make(client: httpx.AsyncClient) -> Make:
    """Arranges what a test needs, over HTTP, for the test's own tenant."""
    return Make(client)


class Make:
    """Factories of the record."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def created(self, path: str, **body: Any) -> dict[str, Any]:
        """What a create answers; it must succeed."""
        answer = await self.client.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    async def workflow(self, **fields: Any) -> dict[str, Any]:
        """A workflow."""
        return await self.created("/v1/workflows", **fields)

    async def version(self, workflow_id: str | None = None, **fields: Any) -> dict[str, Any]:
        """A version, with a node `n` unless nodes are given."""
        workflow_id = workflow_id or (await self.workflow())["id"]
        fields.setdefault("dsl", {"made": uuid.uuid4().hex})
        fields.setdefault("operation", "init")
        fields.setdefault("nodes", [{"node_id": "n", "llm_model": "m-1", "system_prompt": "Do."}])
        return await self.created(f"/v1/workflows/{workflow_id}/versions", **fields)

    async def invocation(self, **fields: Any) -> dict[str, Any]:
        """A running invocation."""
        if "version_id" not in fields:
            fields["version_id"] = (await self.version())["id"]
        return await self.created("/v1/invocations", **fields)

    async def submission(self, **fields: Any) -> dict[str, Any]:
        """A submission, ready and first of its own session unless told otherwise."""
        fields.setdefault("session_key", f"session of {fields.get('id') or uuid.uuid4().hex}")
        body = {"kind": "direct", "agent": "a", "instance_id": "i", "input": {"n": 1}, **fields}
        return (await self.created("/v1/submissions", **body))["submission"]
