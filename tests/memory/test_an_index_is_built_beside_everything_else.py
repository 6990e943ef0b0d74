"""Indexes are built while others read and write, begun again where a build was cut off, and built anew when asked."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from app.memory.partitions import index_name, table_of
from app.settings import DatabaseSettings
from tests.conftest import new_tenant
from tests.memory.builder import builder_of
from tests.memory.remembered import Item, remember
from tests.payloads import problem
from tests.waiting import eventually

SPACE = {"model": "m", "dimensions": 3}
ITEMS = [Item(f"i{place}", [1, place, 0], "red") for place in range(5)]


async def index_of(client: httpx.AsyncClient) -> dict[str, Any]:
    """What the space says of its index."""
    return dict((await client.get("/v1/memory/spaces/s")).json()["index"])


async def until_it_is(client: httpx.AsyncClient, state: str) -> None:
    """Until the index is in this state."""

    async def there() -> bool:
        return (await index_of(client))["state"] == state

    await eventually(there, f"an index that is {state}")


async def oid_of(service: Service, number: int) -> int:
    async with service.ground.database.writing() as transaction:
        return int(await transaction.connection.fetchval("SELECT CAST(to_regclass($1) AS oid)", index_name(number)))


@asynccontextmanager
async def a_long_transaction(service: Service, number: int) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who has written to the space and not committed: a build waits for that."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        await connection.execute(f"BEGIN; LOCK TABLE {table_of(number)} IN ROW EXCLUSIVE MODE")
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def number(fresh: Service, tenant: httpx.AsyncClient) -> int:
    assert (await tenant.put("/v1/memory/spaces/s", json=SPACE)).status_code == 201
    return await remember(fresh, tenant, "s", ITEMS)


@pytest.fixture
async def tenant(fresh: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant on a database of this test alone."""
    async with await new_tenant(fresh) as client:
        yield client


async def found(client: httpx.AsyncClient) -> tuple[list[str], bool]:
    answer = await client.post("/v1/memory/search", json={"embedding": [1, 0, 0], "top_k": 3})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]], answer.json()["exact"]


async def test_a_space_gets_its_index_once_it_has_so_many(fresh: Service, tenant: httpx.AsyncClient) -> None:
    outcomes: list[str] = []
    builder = builder_of(fresh.ground.database.settings, outcomes)
    await tenant.put("/v1/memory/spaces/s", json=SPACE)
    await remember(fresh, tenant, "s", [*ITEMS[:2], Item("none", None), Item("neither", None)])
    assert await builder.look(fresh.ground.database, 1) == 0
    assert (await index_of(tenant))["state"] == "none"
    assert await found(tenant) == (["i0", "i1"], True)
    await remember(fresh, tenant, "s", ITEMS[2:])
    assert await builder.look(fresh.ground.database, 1) == 1
    await builder.finished()
    assert outcomes == ["built"]
    index = await index_of(tenant)
    assert (index["state"], index["progress"], index["size_bytes"] > 0) == ("ready", None, True)
    assert await found(tenant) == (["i0", "i1", "i2"], False)
    assert await builder.look(fresh.ground.database, 1) == 0


async def test_others_read_and_write_during_a_build(fresh: Service, tenant: httpx.AsyncClient, number: int) -> None:
    outcomes: list[str] = []
    builder = builder_of(fresh.ground.database.settings, outcomes)
    async with a_long_transaction(fresh, number):
        assert await builder.look(fresh.ground.database, 1) == 1
        await until_it_is(tenant, "building")
        assert (await index_of(tenant))["progress"] == 0
        assert await found(tenant) == (["i0", "i1", "i2"], True)
        await remember(fresh, tenant, "s", [Item("new", [1, 0, 0])])
        assert await found(tenant) == (["i0", "new", "i1"], True)
        # One at a time here; and another process finds it locked.
        assert await builder.look(fresh.ground.database, 1) == 0
        other = builder_of(fresh.ground.database.settings, outcomes)
        assert await other.look(fresh.ground.database, 1) == 1
        await other.finished()
        assert outcomes == []
    await builder.finished()
    assert outcomes == ["built"]
    assert await found(tenant) == (["i0", "new", "i1"], False)


async def test_a_builder_that_was_killed_is_followed_by_another(
    fresh: Service, tenant: httpx.AsyncClient, number: int
) -> None:
    outcomes: list[str] = []
    builder = builder_of(fresh.ground.database.settings, outcomes)
    async with a_long_transaction(fresh, number):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.memory.builder", fresh.ground.database.url
        )
        await until_it_is(tenant, "building")
        process.kill()
        await process.wait()
        # PostgreSQL sees within two seconds that nobody is there, and leaves what was begun.
        await until_it_is(tenant, "broken")
        assert await found(tenant) == (["i0", "i1", "i2"], True)
    begun = await oid_of(fresh, number)
    assert await builder.look(fresh.ground.database, 1) == 1
    await builder.finished()
    assert (outcomes, (await index_of(tenant))["state"]) == (["built"], "ready")
    assert await oid_of(fresh, number) != begun
    assert await found(tenant) == (["i0", "i1", "i2"], False)


async def test_an_index_is_built_anew_when_asked(fresh: Service, tenant: httpx.AsyncClient, number: int) -> None:
    outcomes: list[str] = []
    builder = builder_of(fresh.ground.database.settings, outcomes)
    await builder.look(fresh.ground.database, 1)
    await builder.finished()
    first = await oid_of(fresh, number)
    asked = await tenant.post("/v1/memory/spaces/s/reindex")
    assert (asked.status_code, asked.json()["index"]["state"], asked.headers["etag"]) == (200, "building", '"1"')
    async with a_long_transaction(fresh, number):
        # What stands answers meanwhile; and a second one that is cut off is dropped.
        assert await builder.look(fresh.ground.database, 1) == 1
        left = "SELECT count(*) FROM pg_class WHERE relname ~ '_ccnew'"
        async with fresh.ground.database.writing() as transaction:
            await eventually(lambda: transaction.connection.fetchval(left), "a second index")
        assert await found(tenant) == (["i0", "i1", "i2"], False)
        await builder.close()
    assert outcomes == ["built", "cancelled"]
    assert (await index_of(tenant))["state"] == "building"
    await builder.look(fresh.ground.database, 1)
    await builder.finished()
    assert outcomes == ["built", "cancelled", "built"]
    assert ((await index_of(tenant))["state"], await oid_of(fresh, number) != first) == ("ready", True)
    async with fresh.ground.database.writing() as transaction:
        assert await transaction.connection.fetchval(left) == 0
    assert await builder.look(fresh.ground.database, 1) == 0
    assert problem(await tenant.post("/v1/memory/spaces/other/reindex")) == (404, "memory_space_not_found")
    refused = await tenant.post("/v1/memory/spaces/s/reindex", headers={"if-match": '"9"'})
    assert problem(refused) == (412, "precondition_failed")


async def test_after_a_build_that_failed_the_next_one_waits(
    fresh: Service, tenant: httpx.AsyncClient, number: int
) -> None:
    outcomes: list[str] = []
    settings = fresh.ground.database.settings
    # A pooler, and no way past it.
    pooled = DatabaseSettings(url=settings.url, session_settings=False)
    builder = builder_of(pooled, outcomes)
    assert await builder.look(fresh.ground.database, 1) == 1
    await builder.finished()
    assert outcomes == ["failed"]
    assert await builder.look(fresh.ground.database, 1) == 0
    assert (await index_of(tenant))["state"] == "none"


async def test_a_space_whose_index_cannot_be_built_keeps_no_other_from_its_own(
    fresh: Service, tenant: httpx.AsyncClient, number: int
) -> None:
    outcomes: list[str] = []
    # Each look is long after the one before.
    builder = builder_of(fresh.ground.database.settings, outcomes, clock=itertools.count(step=1000).__next__)
    await tenant.put("/v1/memory/spaces/next", json=SPACE)
    await remember(fresh, tenant, "next", [Item(f"n{place}", [1, place, 0], "red") for place in range(5)])
    # Something of the name is there that is no index of it.
    await fresh.ground.database.execute(f"CREATE SEQUENCE {index_name(number)}")
    for _ in range(3):
        await builder.look(fresh.ground.database, 1)
        await builder.finished()
    assert outcomes == ["failed", "built", "failed"]
    assert (await tenant.get("/v1/memory/spaces/next")).json()["index"]["state"] == "ready"


async def test_what_was_built_or_deleted_between_a_look_and_its_build_is_left(
    fresh: Service, tenant: httpx.AsyncClient, number: int
) -> None:
    outcomes: list[str] = []
    builder = builder_of(fresh.ground.database.settings, outcomes)
    wanting = await builder._wanting(fresh.ground.database)
    assert wanting is not None
    await builder._guarded(wanting)
    built = await oid_of(fresh, number)
    await builder._guarded(wanting)
    await builder._guarded(replace(wanting, number=number + 1))
    assert (outcomes, await oid_of(fresh, number)) == (["built"], built)
