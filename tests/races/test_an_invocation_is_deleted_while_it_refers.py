"""Whoever changes a reference to an artifact and whoever deletes the invocation take turns; no deadlock decides."""

from __future__ import annotations

import asyncio

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.artifacts.artifacts import hash_of, refer, store
from tests.conftest import Make, new_tenant
from tests.waiting import held_up


@pytest.mark.parametrize("what", ["a reference", "the end of one"])
async def test_they_take_turns(fresh: Service, what: str) -> None:
    gate = await asyncpg.connect(fresh.ground.database.url)
    async with await new_tenant(fresh) as client:
        invocation = (await Make(client).invocation())["id"]
        path = f"/v1/invocations/{invocation}"
        await store(client, b"x")
        await refer(client, invocation, "a", b"x")
        assert (await client.post(f"{path}/end", json={"status": "completed"})).status_code == 200

        async def write() -> httpx.Response:
            if what == "a reference":
                answer: httpx.Response = await refer(client, invocation, "b", b"x")
                return answer
            return await client.delete(f"{path}/artifacts/a")

        async with gate.transaction():
            await gate.execute(f"SELECT FROM artifacts WHERE hash = '\\x{hash_of(b'x')}' FOR UPDATE")
            written = asyncio.create_task(write())
            await held_up(fresh)
            deleted = asyncio.create_task(client.delete(path))
            await held_up(fresh, 2)
        assert (await written).status_code == (201 if what == "a reference" else 204)
        assert (await deleted).status_code == 204
    found = await gate.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await gate.close()
    assert found == 0
