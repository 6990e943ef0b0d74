"""B18: PgBouncer in transaction mode, with two server connections, between the API and PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from asyncio import gather
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from app.db.database import Database
from app.embedded.process import free_port
from app.errors import Unavailable
from app.settings import DatabaseSettings
from tests.conftest import Make, new_tenant, running, settings_for
from tests.waiting import until

CLIENTS = 20
SERVER_CONNECTIONS = 2
THROUGH = {"statement_cache": False, "session_settings": False, "pool_max": CLIENTS}


def _pgbouncer() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PgBouncer is not installed (apt-get install pgbouncer)")
        pytest.skip("PgBouncer is not installed (apt-get install pgbouncer)")
    return found


def _user() -> list[str]:
    """PgBouncer refuses to run as root; then it is told to become somebody else."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    return ["-u", "postgres" if "postgres" in names else "nobody"]


@pytest.fixture
def pooled(clone: Callable[[], Awaitable[str]]) -> Iterator[tuple[str, str]]:
    """A database's URL through PgBouncer, and straight."""
    program, direct, port = _pgbouncer(), asyncio.run(_made(clone)), free_port()
    parts = urlsplit(direct)
    with tempfile.TemporaryDirectory(prefix="cairn-pooler-") as folder:
        Path(folder).chmod(0o755)
        settings = Path(folder, "pgbouncer.ini")
        settings.write_text(
            f"[databases]\npooled = host={parts.hostname} port={parts.port} dbname={parts.path[1:]}"
            f" user={parts.username} password={parts.password}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 200\n"
        )
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen([program, *_user(), str(settings)], stdout=log, stderr=log)
        try:
            until(lambda: _listens(process, port, Path(folder, "log")), "PgBouncer")
            yield f"postgresql://pooled@127.0.0.1:{port}/pooled", direct
        finally:
            process.terminate()
            process.wait(20)


async def _made(clone: Callable[[], Awaitable[str]]) -> str:
    return await clone()


def _listens(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _flow(client: httpx.AsyncClient, number: int) -> None:
    """The main flow of a worker, each step under an Idempotency-Key and then again."""
    make = Make(client)
    version = await make.version(f"w{number % 4}", workflow={"name": "w"}, dsl={"number": number})
    node = f"/v1/invocations/i{number}/nodes"
    steps = [
        ("POST", "/v1/invocations", {"id": f"i{number}", "version_id": version["id"], "input": {"n": number}}),
        ("POST", node, {"id": "n1", "node_id": "n"}),
        ("POST", f"/v1/invocations/i{number}/messages", {"items": [{"role": "x", "payload": n} for n in range(20)]}),
        ("POST", f"{node}/n1/end", {"status": "completed", "output": [number]}),
        ("POST", "/v1/batch", {"operations": [
            {"method": "POST", "path": f"/v1/invocations/i{number}/end", "body": {"status": "completed"}},
            {"method": "PUT", "path": "/v1/workflows/shared", "body": {"description": str(number)}},
        ]}),
    ]  # fmt: skip
    for place, (method, path, body) in enumerate(steps):
        headers = {"idempotency-key": f"{number}-{place}"}
        first = await client.request(method, path, json=body, headers=headers)
        assert first.status_code in (200, 201), first.text
        again = await client.request(method, path, json=body, headers=headers)
        assert (again.status_code, again.content) == (first.status_code, first.content), again.text
    shown = await client.get(f"/v1/invocations/i{number}?include=input,output")
    assert (shown.json()["status"], shown.json()["input"]) == ("completed", {"n": number})
    page = await client.get(f"/v1/invocations/i{number}/messages?include=payload&limit=7&count=exact")
    assert (page.json()["total"], [item["payload"] for item in page.json()["items"]]) == (20, list(range(7)))
    await client.aclose()


async def test_b18_twenty_clients_share_two_server_connections(pooled: tuple[str, str]) -> None:
    url, direct = pooled
    async with running(settings_for(url, database=THROUGH)) as service:
        one = await new_tenant(service)
        clients = [httpx.AsyncClient(transport=one._transport, base_url=one.base_url, headers=one.headers)
                   for _ in range(CLIENTS)]  # fmt: skip
        await gather(*(_flow(client, number) for number, client in enumerate(clients)))
        connection = await asyncpg.connect(direct)
        try:
            used = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            waiting = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
            )
            kept = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        finally:
            await connection.close()
        assert used <= SERVER_CONNECTIONS
        assert (waiting, kept) == (0, 0)


async def test_b18_time_outs_that_belong_to_the_role_hold_through_the_pooler(pooled: tuple[str, str]) -> None:
    url, direct = pooled
    connection = await asyncpg.connect(direct)
    await connection.execute("DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I SET statement_timeout = ''7s''',"
                             " current_user, current_database()); END $$")  # fmt: skip
    await connection.close()
    through = await asyncpg.connect(url, statement_cache_size=0)
    try:
        assert await through.fetchval("SHOW statement_timeout") == "7s"
    finally:
        await through.close()


async def test_b18_settings_that_a_pooler_refuses_are_named_at_the_start(pooled: tuple[str, str]) -> None:
    with pytest.raises(Unavailable, match="CAIRN_DATABASE__SESSION_SETTINGS=false"):
        await Database.open(DatabaseSettings(url=pooled[0]))
