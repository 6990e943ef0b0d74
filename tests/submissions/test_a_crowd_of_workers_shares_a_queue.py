"""Many workers on two processes: nothing is claimed twice, nothing is lost, and each session keeps its order."""

from __future__ import annotations

from asyncio import gather
from collections import defaultdict
from collections.abc import Awaitable, Callable

import httpx

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import Make, http, new_tenant, running, settings_for
from tests.submissions.queue import PATH, claim_next, expire, pass_time, rows, settle, tenant

SESSIONS, EACH, WORKERS = 60, 4, 24
SETTLE = Statement(
    "SELECT id FROM cairn_settle(:tenant_id, :id, 'running', :attempt, NULL, 'completed', NULL)"
    " WHERE status = 'settled'"
)


async def admit(make: Make) -> None:
    """The submissions of a session one after the other, the sessions all at once."""

    async def session(number: int) -> None:
        for place in range(EACH):
            await make.submission(id=f"{number}-{place}", session_key=str(number), priority=number % 3)

    await gather(*(session(number) for number in range(SESSIONS)))


async def test_each_is_handed_out_once_and_in_the_order_of_its_session(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    async with (
        running(settings_for(url)) as one,
        running(settings_for(url)) as two,
        await new_tenant(one) as client,
        http(two, **dict(client.headers)) as beside,
    ):
        await admit(Make(client))
        given: list[str] = []

        async def work(number: int, via: httpx.AsyncClient, service: Service) -> None:
            while items := await claim_next(via, owner_id=f"w{number}", limit=1 + number % 3, wait_seconds=1):
                for item in items:
                    given.append(item["id"])
                    await settle(service, client, item["id"], "running")

        await gather(
            *(work(n, client, one) for n in range(WORKERS // 2)),
            *(work(n, beside, two) for n in range(WORKERS // 2, WORKERS)),
        )
        assert (await client.get(f"{PATH}/unsettled")).json() == {"unsettled": False}
    assert len(given) == len(set(given)) == SESSIONS * EACH
    order: dict[str, list[str]] = defaultdict(list)
    for name in given:
        order[name.partition("-")[0]].append(name)
    assert all(names == sorted(names) for names in order.values())


async def letters(service: Service, client: httpx.AsyncClient) -> int:
    """How many were given up."""
    return len(await rows(service, "SELECT FROM dead_letters WHERE tenant_id = :t", t=tenant(client)))


async def test_leases_that_lapse_under_the_workers_lose_and_double_nothing(clone: Callable[[], Awaitable[str]]) -> None:
    """Some workers die with what they hold; the job brings it back while the others go on."""
    url = await clone()
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        await admit(Make(client))
        settled: list[str] = []

        async def work(number: int) -> None:
            while items := await claim_next(client, owner_id=f"w{number}", limit=2):
                for item in items:
                    if item["attempt_count"] == 1 and item["id"].endswith(str(number % EACH)):
                        continue
                    # Only who still holds it settles it.
                    found = await service.ground.database.rows(
                        SETTLE, tenant_id=tenant(client), id=item["id"], attempt=item["attempt_id"]
                    )
                    settled.extend(item["id"] for row in found if row["id"] == item["id"])

        async def keeper() -> None:
            while (await client.get(f"{PATH}/unsettled")).json()["unsettled"]:
                await pass_time(service, client, "lease_lapses_at")
                await expire(service, backoff_first_seconds=0)

        async def worker(number: int) -> None:
            while (await client.get(f"{PATH}/unsettled")).json()["unsettled"]:
                await work(number)

        await gather(keeper(), *(worker(n) for n in range(8)))
        dead = await letters(service, client)
    assert len(settled) == len(set(settled))
    assert len(settled) + dead == SESSIONS * EACH
