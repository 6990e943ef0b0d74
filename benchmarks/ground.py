"""The ground of a run: a durable PostgreSQL of its own, the service as a process on it, a tenant and its key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import Settings
from benchmarks import generator, limit
from benchmarks.limit import Query
from benchmarks.process import HOST, Server, children, cpu_seconds, free_port, serving
from benchmarks.recording import recorded
from benchmarks.request import Request
from benchmarks.rounds import Load

FOLDER = Path("var/bench")
TENANT = "bench"
VERSION = "bench-version"
PAYLOAD = json.dumps({"text": "measure " * 255})
CLIENTS_MAX = 32


@dataclass(frozen=True)
class Ground:
    """What the scenarios stand on. `rows` is how many invocations a long list has."""

    settings: Settings
    server: Server
    postgres_pid: int
    key: str
    admin_key: str
    rows: int

    @property
    def database_url(self) -> str:
        """The database that every side of a comparison uses."""
        return self.settings.database.url.get_secret_value()

    def service(self, requests: Sequence[Request], key: str | None = None) -> Load:
        """The load of these requests, in turn, on the service."""
        bearer = key or self.key
        return lambda clients, seconds: generator.load(self.server.url, requests, bearer, clients, seconds).rate

    def driver(self, queries: Sequence[Query], requests: int = 1) -> Load:
        """The load of these statements, in turn, by the bare driver; together they are so many requests."""
        return lambda clients, seconds: requests * limit.load(self.database_url, queries, clients, seconds)

    def bare(self, requests: Sequence[Request], body: bytes) -> contextlib.AbstractContextManager[Load]:
        """The load of these requests on the bare framework, which answers them all with one body."""
        return standing_in("framework", requests, body)

    def recorded(self, requests: Sequence[Request], key: str | None = None) -> tuple[list[list[Query]], bytes]:
        """The statements that the service sends for each request, and the last answer's body."""
        return asyncio.run(recorded(self.settings, key or self.key, requests))

    def sql(self, text: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run SQL on the database."""
        return asyncio.run(_sql(self.database_url, text, arguments))

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Arrange something over HTTP; it must succeed."""
        return post(self.server.url, path, body, Authorization=f"Bearer {self.key}", **headers)

    def cpu_seconds(self) -> dict[str, float]:
        """The processor time that the service and PostgreSQL have used."""
        found = {"service": cpu_seconds(self.server.pid), "PostgreSQL": 0.0}
        pending = [self.postgres_pid]
        while pending:
            pid = pending.pop()
            found["PostgreSQL"] += cpu_seconds(pid)
            pending += children(pid)
        return found

    def tenant_key(self, tenant_id: str) -> str:
        """A key of a tenant, which is made where it is missing."""
        return new_key(self.server.url, self.admin_key, tenant_id)


@contextlib.contextmanager
def standing(folder: Path = FOLDER, rows: int = 1_000_000, sampled: str | None = None) -> Iterator[Ground]:
    """Start everything, and stop and remove it when the block ends. `sampled` is a file for a profile."""
    admin_key = secrets.token_urlsafe(24)
    with start_servers(folder, ephemeral=True, nats=False, redis=False, fast=False) as servers:
        database = {"url": servers.postgres_url}
        settings = Settings(_env_file=None, database=database, auth={"admin_key": admin_key})
        migrate(settings.database, report=lambda _line: None)
        with service_process(servers.postgres_url, admin_key, sampled) as server:
            key = new_key(server.url, admin_key, TENANT)
            ground = Ground(settings, server, servers.pids()["PostgreSQL"], key, admin_key, rows)
            _arrange(ground)
            yield ground


def service_process(
    database_url: str, admin_key: str, sampled: str | None = None, **more: str
) -> contextlib.AbstractContextManager[Server]:
    """`cairn serve`, as in production: one process, uvloop, httptools, keys on, background jobs running.

    `more` are settings of the environment.
    """
    port = free_port()
    program = ["-m", "app.cli"] if sampled is None else ["-m", "benchmarks.sampled", sampled]
    command = [*program, "serve", "--host", HOST, "--port", str(port)]
    environment = {
        "CAIRN_DATABASE__URL": database_url,
        "CAIRN_AUTH__ADMIN_KEY": admin_key,
        "CAIRN_LOG__LEVEL": "WARNING",
        **more,
    }
    return serving(command, port, environment)


@contextlib.contextmanager
def standing_in(kind: str, requests: Sequence[Request], body: bytes) -> Iterator[Load]:
    """A server without a service behind it, and the load of these requests on it."""
    port = free_port()
    with tempfile.NamedTemporaryFile(suffix=".body") as file:
        file.write(body)
        file.flush()
        with serving(["-m", "benchmarks.bare", kind, str(port), file.name], port) as server:
            yield lambda clients, seconds: generator.load(server.url, requests, "none", clients, seconds).rate


def post(url: str, path: str, body: Any, method: str = "POST", **headers: str) -> Any:
    """Send JSON and give the answer's; a refusal raises."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **named}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def get(url: str, path: str, **headers: str) -> Any:
    """What an answer has in JSON; a refusal raises."""
    with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=120) as answer:
        return json.loads(answer.read())


def new_key(url: str, admin_key: str, tenant_id: str) -> str:
    """A key of a tenant, which is made where it is missing."""
    operator = {"Authorization": f"Bearer {admin_key}"}
    post(url, f"/v1/tenants/{tenant_id}", {}, "PUT", **operator)
    scopes = ["admin", "*:read", "*:write"]
    made = post(url, "/v1/api-keys", {"name": "bench", "scopes": scopes}, **operator, X_Tenant_Id=tenant_id)
    return str(made["key"])


def _arrange(ground: Ground) -> None:
    """A version with a node, and an invocation for each client, so that clients do not wait for one row's lock."""
    node = {"node_id": "node", "llm_model": "model", "system_prompt": "Measure."}
    version = {"id": VERSION, "dsl": {"made": "for measuring"}, "operation": "init", "nodes": [node]}
    ground.post("/v1/workflows/bench-workflow/versions", {**version, "workflow": {"name": "bench"}})
    for client in ("~~", *(f"{place:02d}" for place in range(CLIENTS_MAX))):
        ground.post("/v1/invocations", {"id": f"bench-{client}", "version_id": VERSION})


async def _sql(url: str, text: str, arguments: tuple[Any, ...]) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(text, *arguments, timeout=3600)  # type: ignore[no-any-return]
    finally:
        await connection.close()
