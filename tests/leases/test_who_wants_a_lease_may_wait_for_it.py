"""`wait_seconds`: woken by a release, by a lease that lapses, and refused in the end."""

from __future__ import annotations

import asyncio

import httpx

from app.http.service import Service
from tests.conftest import new_tenant
from tests.leases.calls import Leases
from tests.payloads import problem
from tests.waiting import eventually


async def waiting(leases: Leases, service: Service, holder: str, seconds: int = 30) -> asyncio.Task[httpx.Response]:
    """An acquisition that waits, once it does."""
    before = service.ground.live.readers
    task = asyncio.create_task(leases.ask("acquire", holder=holder, wait_seconds=seconds))

    async def waits() -> bool:
        return service.ground.live.readers > before

    await eventually(waits, "a waiting acquisition")
    return task


async def test_a_release_wakes_one_who_waits(leases: Leases, services: dict[str, Service], kind: str) -> None:
    token = await leases.acquire("a", lease_seconds=3600)
    tasks = [await waiting(leases, services[kind], holder) for holder in ("b", "c")]
    await leases.release("a", token)
    done, left = await asyncio.wait(tasks, timeout=20, return_when=asyncio.FIRST_COMPLETED)
    (taken,) = [task.result().json() for task in done]
    assert taken["fencing_token"] == 2
    await leases.release(taken["holder"], 2)
    (other,) = left
    assert (await other).json()["fencing_token"] == 3


async def test_a_lease_that_lapses_is_taken_by_who_waits(
    leases: Leases, services: dict[str, Service], kind: str
) -> None:
    await leases.acquire("a", lease_seconds=1)
    await leases.renew("a", 1)
    task = await waiting(leases, services[kind], "b")
    assert (await task).json()["fencing_token"] == 2


async def test_who_waited_in_vain_is_refused(leases: Leases, client: httpx.AsyncClient) -> None:
    await leases.acquire("a", lease_seconds=3600)
    assert problem(await leases.ask("acquire", holder="b", wait_seconds=1)) == (409, "lease_held")
    for seconds in (-1, 61):
        assert problem(await leases.ask("acquire", holder="b", wait_seconds=seconds)) == (422, "invalid_input")
    body = {"holder": "b", "wait_seconds": 1}
    batch = {"operations": [{"method": "POST", "path": "/v1/leases/l/acquire", "body": body}]}
    assert problem(await client.post("/v1/batch", json=batch)) == (422, "invalid_input")


async def test_the_end_of_the_process_lets_go_who_waits(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        leases = Leases(client)
        await leases.acquire("a", lease_seconds=3600)
        task = await waiting(leases, fresh, "b")
        fresh.ground.live.end()
        assert problem(await task) == (409, "lease_held")
