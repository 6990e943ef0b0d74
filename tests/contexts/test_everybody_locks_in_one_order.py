"""Whoever changes several contexts locks the invocation, the contexts and their artifacts in one order: no deadlock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.artifacts.artifacts import hash_of
from tests.contexts.contexts import post, put, sample

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"


@pytest.fixture
async def first(service: Service) -> AsyncIterator[asyncpg.Connection]:
    """A connection in a transaction of its own: whoever comes first."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


async def waited_for(first: asyncpg.Connection) -> None:
    """Somebody waits for what the first one holds."""
    async with asyncio.timeout(10):
        while not await first.fetchval(WAITING):
            pass


async def test_a_copy_waits_for_who_deletes_the_invocation_without_holding_its_contexts(
    client: httpx.AsyncClient, first: asyncpg.Connection
) -> None:
    await put(client)
    tenant = client.headers["x-test-tenant"]
    await first.execute("SELECT FROM invocations WHERE tenant_id = $1 FOR UPDATE", tenant)
    for call in ("copy", "move"):
        source = {"scope": "workflow", "key": "k"}
        going = asyncio.create_task(post(client, call, source=source, target={"key": "other"}))
        await waited_for(first)
        await first.execute("SELECT FROM contexts WHERE tenant_id = $1 FOR UPDATE NOWAIT", tenant)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


async def test_clearing_lets_go_of_artifacts_in_the_order_of_their_hashes(
    client: httpx.AsyncClient, first: asyncpg.Connection
) -> None:
    await _two(client)
    tenant = client.headers["x-test-tenant"]
    await first.execute(f"{_nth(0)} FOR UPDATE", tenant)
    going = asyncio.create_task(post(client, "clear"))
    await waited_for(first)
    await first.execute(f"{_nth(1)} FOR UPDATE NOWAIT", tenant)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)


async def _two(client: httpx.AsyncClient) -> None:
    """Two contexts with an artifact each, the first by its hash stored last."""
    large = sorted([sample(100_000), sample(100_001)], key=hash_of, reverse=True)
    for key, content in zip(("z", "a"), large, strict=True):
        assert (await put(client, key, content)).status_code == 201


def _nth(place: int) -> str:
    found = f"SELECT hash FROM artifacts WHERE tenant_id = $1 ORDER BY hash OFFSET {place} LIMIT 1"
    return f"SELECT FROM artifacts WHERE tenant_id = $1 AND hash = ({found})"
