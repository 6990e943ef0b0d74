"""B27: a write under a lease and the lease's next holder meet, and are made to: whichever was first is first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.leases.calls import Leases
from tests.payloads import problem
from tests.waiting import eventually, held_up

UNDER = {"lease": "l;1"}
BATCH = {"operations": [{"method": "PUT", "path": "/v1/workflows/w", "body": {"name": "written"}}]}
# One statement; a batch; a transaction.
WRITES = [
    ("PUT", "/v1/workflows/w", {"name": "written"}),
    ("POST", "/v1/batch", BATCH),
    ("DELETE", "/v1/workflows/w", None),
]
# As the service's own statements do it, within a transaction that the test ends.
LOCK = "SELECT FROM leases WHERE tenant_id = $1 AND name = 'l' FOR UPDATE"
TAKE = "UPDATE leases SET holder = 'b', fencing_token = 2 WHERE tenant_id = $1 AND name = 'l'"
RELEASE = "UPDATE leases SET holder = NULL WHERE tenant_id = $1 AND name = 'l'"
RENEW = "UPDATE leases SET expires_at = clock_timestamp() WHERE tenant_id = $1 AND name = 'l'"
Open = Callable[[], Awaitable[asyncpg.Connection]]


@pytest.fixture
async def opened(fresh: Service) -> AsyncIterator[Open]:
    """Opens connections beside the service's."""
    connections: list[asyncpg.Connection] = []

    async def one() -> asyncpg.Connection:
        connections.append(await asyncpg.connect(fresh.ground.database.url))
        return connections[-1]

    yield one
    for connection in connections:
        await connection.close()


@pytest.fixture
async def writer(fresh: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant with a workflow, and a lease that `a` holds, lapsed or soon to be."""
    async with await new_tenant(fresh) as client:
        await Make(client).workflow(id="w")
        await Leases(client).acquire("a", lease_seconds=1)
        yield client


@pytest.mark.parametrize("change", ["acquire", "release"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[1])
async def test_who_takes_or_releases_the_lease_waits_for_a_write_that_is_open(
    write: tuple[str, str, object], change: str, writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    method, path, body = write
    leases, blocker = Leases(writer), await opened()
    async with blocker.transaction():
        # The write stands before its last lock, with the lease in its hand.
        await blocker.execute("SELECT FROM workflows WHERE id = 'w' FOR UPDATE")
        writing = asyncio.create_task(writer.request(method, path, json=body, headers=UNDER))
        await held_up(fresh)
        # Renewals pass.
        assert (await leases.ask("renew", holder="a", fencing_token=1)).status_code == 200
        if change == "release":
            changing = asyncio.create_task(leases.release("a", 1))
        else:
            changing = asyncio.create_task(leases.acquired("b"))
        await held_up(fresh, 2)
        assert not writing.done()
        assert not changing.done()
    assert (await writing).is_success
    await changing
    late = await writer.put("/v1/workflows/w", json={"name": "too late"}, headers=UNDER)
    assert problem(late) == (409, "stale_lease")
    assert late.json()["current_token"] == (1 if change == "release" else 2)


@pytest.mark.parametrize("change", [TAKE, RELEASE], ids=["acquire", "release"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[1])
async def test_a_write_that_begins_while_the_lease_changes_hands_waits_and_is_refused(
    write: tuple[str, str, object], change: str, writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    method, path, body = write
    tenant, changer = writer.headers["x-test-tenant"], await opened()
    async with changer.transaction():
        await changer.execute(LOCK, tenant)
        await changer.execute(change, tenant)
        writing = asyncio.create_task(writer.request(method, path, json=body, headers=UNDER))
        await held_up(fresh)
        assert not writing.done()
    refused = await writing
    assert problem(refused) == (409, "stale_lease")
    assert refused.json()["current_token"] == (2 if change == TAKE else 1)
    assert (await writer.get("/v1/workflows/w")).json()["name"] is None


async def test_a_write_waits_for_a_change_that_is_undone_and_then_happens(
    writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    tenant, changer = writer.headers["x-test-tenant"], await opened()
    undone = changer.transaction()
    await undone.start()
    await changer.execute(LOCK, tenant)
    await changer.execute(TAKE, tenant)
    writing = asyncio.create_task(writer.put("/v1/workflows/w", json={"name": "written"}, headers=UNDER))
    await held_up(fresh)
    await undone.rollback()
    assert (await writing).status_code == 200


async def test_renewals_and_writes_pass_each_other_and_so_do_many_writes(
    writer: httpx.AsyncClient, fresh: Service, opened: Open
) -> None:
    tenant, beside = writer.headers["x-test-tenant"], await opened()
    async with beside.transaction():
        await beside.execute(RENEW, tenant)
        async with asyncio.timeout(10):
            assert (await writer.put("/v1/workflows/w", json={"name": "one"}, headers=UNDER)).status_code == 200
    async with beside.transaction():
        await beside.fetchval("SELECT cairn_hold_lease($1, 'l', 1)", tenant)
        async with asyncio.timeout(10):
            assert (await writer.put("/v1/workflows/x", json={}, headers=UNDER)).status_code == 201


async def test_who_is_refused_the_lease_waits_for_nobody(writer: httpx.AsyncClient, opened: Open) -> None:
    tenant, beside = writer.headers["x-test-tenant"], await opened()
    leases = Leases(writer)

    async def long() -> bool:
        return (await leases.ask("acquire", holder="a", lease_seconds=3600)).status_code == 200

    await eventually(long, "a long lease")
    token = (await writer.get("/v1/leases/l")).json()["fencing_token"]
    async with beside.transaction():
        await beside.fetchval("SELECT cairn_hold_lease($1, 'l', $2)", tenant, token)
        async with asyncio.timeout(10):
            assert problem(await leases.ask("acquire", holder="b")) == (409, "lease_held")
            assert (await leases.ask("acquire", holder="a", lease_seconds=3600)).status_code == 200
