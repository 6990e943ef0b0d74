"""The commands of migrate, api and worker, run here with the environment that their containers get."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.embedded import Servers
from app.embedded.process import free_port
from tests.conftest import database_url
from tests.shape.compose import ROOT, services
from tests.shape.started import started, status

# What a container has besides the environment of the compose file; the rest is for measuring coverage in it.
BESIDES = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"} | {
    name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")
}


@pytest.fixture
async def first_boot(servers: Servers) -> AsyncIterator[str]:
    """The URL of a database as the postgres image makes it on its first boot: there, and empty."""
    admin = await asyncpg.connect(database_url(servers, "postgres"))
    try:
        await admin.execute("CREATE DATABASE first_boot")
        yield database_url(servers, "first_boot")
        await admin.execute("DROP DATABASE first_boot WITH (FORCE)")
    finally:
        await admin.close()


def environment_of(name: str, servers: Servers, database: str, port: int, folder: Path) -> dict[str, str]:
    """The environment of a service's container, with the addresses, passwords and folders of this test."""
    told = services()["postgres"]["environment"]
    addresses = {
        "postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@postgres:5432/{POSTGRES_DB}".format(**told): database,
        "redis://redis:6379/0": servers.redis_url,
        "nats://nats:4222": servers.nats_url,
        "/var/lib/cairn/uploads": str(folder / "uploads"),
    }
    environment: dict[str, str] = services()[name]["environment"]
    here = {variable: addresses.pop(value, value) for variable, value in environment.items()}
    assert addresses == {}, "the compose file names another server or folder"
    ports = {"CAIRN_HTTP__PORT": str(port), "CAIRN_BACKGROUND__METRICS_PORT": "0"}
    return here | {"CAIRN_HTTP__HOST": "127.0.0.1"} | ports | BESIDES


def test_b40_migrate_then_serve_then_work(servers: Servers, first_boot: str, tmp_path: Path) -> None:
    port = free_port()
    environment = environment_of("api", servers, first_boot, port, tmp_path)
    serve, migrate, work = (services()[name]["command"] for name in ("api", "migrate", "worker"))

    early = subprocess.run(serve, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert early.returncode != 0
    assert "cairn migrate" in early.stderr
    assert "Traceback" not in early.stderr

    subprocess.run(migrate, env=environment, cwd=ROOT, capture_output=True, timeout=120, check=True)

    check = services()["api"]["healthcheck"]["test"][1:]
    assert "/readyz" in check[-1]
    with started(*serve, environment=environment) as api, started(*work, environment=environment) as worker:
        api.until(lambda: status(f"http://127.0.0.1:{port}/readyz") == 200)
        subprocess.run([*check[:-1], check[-1].replace("8000", str(port))], env=environment, timeout=10, check=True)
        operator = Operator(port, environment["CAIRN_AUTH__ADMIN_KEY"])
        operator.call("PUT", "/v1/tenants/acme", {})
        operator.tenant = "acme"
        operator.call("POST", "/v1/workflows/first/versions", {"dsl": {}, "workflow": {}})
        # The api runs no background jobs here, so only the worker can have given the event its position.
        worker.until(lambda: operator.call("GET", "/v1/events")["items"] != [])


class Operator:
    """The admin key at work, for one tenant once there is one."""

    def __init__(self, port: int, key: str) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.tenant: str | None = None

    def call(self, method: str, path: str, body: object = None) -> dict[str, list[object]]:
        sent = None if body is None else json.dumps(body).encode()
        headers = self.headers | ({"X-Tenant-Id": self.tenant} if self.tenant else {})
        request = urllib.request.Request(self.base + path, data=sent, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as reply:
            answered: dict[str, list[object]] = json.load(reply)
        return answered
