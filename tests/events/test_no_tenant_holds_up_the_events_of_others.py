"""Whatever a tenant does with the head of its events, the events of the other tenants get their positions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from app.db.sql import Statement
from app.events.jobs import sequencer
from app.http.service import Service
from tests.events.feed import change, page

HOLD = Statement("SELECT position FROM event_heads WHERE tenant_id = :tenant_id FOR UPDATE")


@asynccontextmanager
async def held(service: Service, *clients: httpx.AsyncClient) -> AsyncIterator[None]:
    """The heads of these tenants, locked as a transaction does that makes a webhook."""
    async with service.ground.database.writing() as transaction:
        for client in clients:
            await transaction.row(HOLD, tenant_id=client.headers["x-test-tenant"])
        yield


async def sequenced(service: Service, limit: int = 1000) -> tuple[int, list[str]]:
    """How many events got positions, and whose they are."""
    told: list[list[str]] = []
    count = await sequencer(lambda _waited: None, told.append)(service.ground.database, limit)
    return count, [tenant for tenants in told for tenant in tenants]


async def test_a_tenant_whose_head_is_held_waits_alone(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    for n in range(5):
        await change(client, f"w{n}")
    await change(other, "x")
    async with held(service, client):
        # More of its events than one round takes stand before those of the other.
        async with asyncio.timeout(1):
            assert await sequenced(service, limit=3) == (1, [other.headers["x-test-tenant"]])
        assert (await page(client))["items"] == []
        assert [each["subject_id"] for each in (await page(other))["items"]] == ["x"]
        async with asyncio.timeout(1):
            assert await sequenced(service) == (0, [])
    assert await sequenced(service) == (5, [client.headers["x-test-tenant"]])
    assert [(each["position"], each["subject_id"]) for each in (await page(client))["items"]] == [
        (n + 1, f"w{n}") for n in range(5)
    ]


async def test_many_events_are_taken_around_those_that_wait(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    for n in range(6):
        await change(client, f"w{n}")
        await change(other, f"x{n}")
    async with held(service, client):
        # A round that was cut short by what waits is filled from behind it, and no further.
        assert await sequenced(service, limit=4) == (4, [other.headers["x-test-tenant"]])
    assert (await sequenced(service))[0] == 8
    for reader, letter in ((client, "w"), (other, "x")):
        found = (await page(reader))["items"]
        assert [(each["position"], each["subject_id"]) for each in found] == [(n + 1, f"{letter}{n}") for n in range(6)]
