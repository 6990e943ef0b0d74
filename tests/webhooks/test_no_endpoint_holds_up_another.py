"""B33: endpoints that hang or drip, are gone or slow, hold up no other, and none gets more at once than it may have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from app.db.sql import Statement
from tests.conftest import running, settings_for
from tests.waiting import eventually
from tests.webhooks.pipeline import ALLOWED, deliveries, delivering, sequenced, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]
HANGING, EVENTS = 10, 100


async def test_a_healthy_endpoint_is_served_beside_hanging_and_dripping_ones(clone: Clone) -> None:
    async with receiving() as well, receiving() as ill, delivering(clone, attempt_seconds=3) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        over = asyncio.Event()

        async def hang(_received: Received) -> int:
            await over.wait()
            return 204

        async def drip(received: Received) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(received.request)
            while not over.is_set():
                await answer.write(b".")
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 0.2)
            return answer

        async def answer(received: Received) -> web.StreamResponse | int:
            return await (drip if received.path == "/drip" else hang)(received)

        ill.answer = answer
        for n in range(HANGING):
            await subscribe(database, tenant, f"{ill.url}/hang{n}", id=f"hang{n}")
        await subscribe(database, tenant, f"{ill.url}/drip", id="drip")
        await subscribe(database, tenant, well.url, id="well")
        written: dict[str, float] = {}
        for n in range(EVENTS):
            written[f"w{n}"] = time.monotonic()
            await client.put(f"/v1/workflows/w{n}", json={})
        await well.until(lambda: len(well.received) == EVENTS)
        seconds = sorted(each.at - written[each.says["data"]["id"]] for each in well.received)
        assert seconds[int(len(seconds) * 0.99) - 1] < 2
        # It hangs still: every one of them has its ten, or, known to fail, the one that it may have.
        assert len({each.path for each in ill.received}) == HANGING + 1
        assert ill.open_most <= 10 * (HANGING + 1)
        over.set()


async def test_sixty_endpoints_that_hang_fill_no_process(clone: Clone) -> None:
    limits = {"in_flight_max": 200, "concurrency": 5, "attempt_seconds": 120}
    async with receiving() as well, receiving() as ill, delivering(clone, **limits) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        over = asyncio.Event()

        async def hang(_received: Received) -> int:
            await over.wait()
            return 204

        ill.answer = hang
        for n in range(60):
            await subscribe(database, tenant, f"{ill.url}/hang{n}", id=f"hang{n}")
        for n in range(5):
            await client.put(f"/v1/workflows/w{n}", json={})
        await ill.until(lambda: ill.open == 200)
        await subscribe(database, tenant, well.url, id="well")
        for n in range(20):
            await client.put(f"/v1/workflows/v{n}", json={})
        await well.until(lambda: len(well.received) == 20)
        # More hang than may be under way elsewhere, and none of them has ended.
        assert ill.open == ill.open_most == 300
        over.set()


async def test_two_processes_together_keep_to_the_number_of_an_endpoint(clone: Clone) -> None:
    url = await clone()
    async with (
        receiving() as receiver,
        delivering(clone, url, concurrency=3) as (service, client),
        running(settings_for(url, background={"enabled": True}, webhooks=ALLOWED | {"concurrency": 3})),
    ):
        others = asyncio.Condition()

        async def with_others(_received: Received) -> int:
            """Answer once as many are here as may be, or when no more come."""
            async with others:
                others.notify_all()
                try:
                    async with asyncio.timeout(0.05):
                        await others.wait_for(lambda: receiver.open > 3)
                except TimeoutError:
                    return 204
            return 204

        receiver.answer = with_others
        await subscribe(service.ground.database, tenant_of(client), receiver.url)
        await asyncio.gather(*(client.put(f"/v1/workflows/w{n}", json={}) for n in range(60)))
        await receiver.until(lambda: len({each.id for each in receiver.received}) == 60 and not receiver.open)
        assert receiver.open_most == 3
        assert len(receiver.received) == 60


async def test_what_waits_for_an_endpoint_that_is_gone_becomes_a_dead_letter(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, concurrency=1) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        release = asyncio.Event()

        async def hold(received: Received) -> int:
            if received.path == "/gone":
                await release.wait()
            return 204

        receiver.answer = hold
        for name in ("gone", "well"):
            await subscribe(database, tenant, f"{receiver.url}/{name}", id=name)
        for n in range(50):
            await client.put(f"/v1/workflows/w{n}", json={})
        await sequenced(database)

        async def handed_out() -> bool:
            return len(await deliveries(database, tenant, "gone")) == 50

        await eventually(handed_out, "the deliveries")
        await receiver.until(lambda: bool(receiver.of("/gone")))
        await database.rows(Statement("DELETE FROM webhooks WHERE tenant_id = :t AND id = 'gone'"), t=tenant)
        await receiver.until(lambda: len(receiver.of("/well")) == 50)
        release.set()

        async def ended() -> bool:
            return {row["status"] for row in await deliveries(database, tenant, "gone")} == {"delivered", "dead"}

        await eventually(ended, "the end of all of them")
        letters = (await client.get("/v1/dead-letters", params={"source": "webhook"})).json()["items"]
        assert [letter["reason"] for letter in letters] == ["endpoint_gone"] * 49
        dead = [row for row in await deliveries(database, tenant, "gone") if row["status"] == "dead"]
        assert all(row["body"] is not None for row in dead)
        assert {row["id"] for row in dead} == {letter["subject"] for letter in letters}
