"""B36: each committed event that a webhook asks for reaches it, none that was rolled back does."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from standardwebhooks import Webhook

from tests.webhooks.pipeline import deliveries, delivering, sequenced, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]


async def test_each_event_is_delivered_to_the_webhooks_that_ask_for_it(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        await client.put("/v1/workflows/before", json={})
        await sequenced(database)
        secret = await subscribe(database, tenant, receiver.url + "/all", id="all")
        for name, types in (
            ("exact", ["workflow.created"]), ("kind", ["workflow.*"]), ("other", ["session.*", "workflow.deleted"]),
        ):  # fmt: skip
            await subscribe(database, tenant, f"{receiver.url}/{name}", id=name, event_types=types)
        for n in range(20):
            assert (await client.put(f"/v1/workflows/w{n}", json={"name": "n"})).status_code == 201
        await receiver.until(lambda: len(receiver.received) == 60)
        for path in ("/all", "/exact", "/kind"):
            assert sorted(each.says["data"]["id"] for each in receiver.of(path)) == sorted(f"w{n}" for n in range(20))
        assert not receiver.of("/other")
        first = receiver.of("/all")[0]
        assert Webhook(secret).verify(first.body, first.headers) == first.says
        assert list(first.says) == ["type", "timestamp", "data"]
        rows = await deliveries(database, tenant, "exact")
        assert {row["id"] for row in rows} == {each.id for each in receiver.of("/exact")}


async def test_an_idle_service_delivers_at_once(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        await subscribe(service.ground.database, tenant_of(client), receiver.url)
        seconds = []
        for n in range(21):
            began = time.monotonic()
            await client.put(f"/v1/workflows/w{n}", json={})
            await receiver.until(lambda n=n: len(receiver.received) > n)
            seconds.append(receiver.received[n].at - began)
        assert statistics.median(seconds) < 0.1


async def test_an_endpoint_that_asks_back_finds_what_it_was_told_of(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone) as (service, client):
        await subscribe(service.ground.database, tenant_of(client), receiver.url)
        found: list[int] = []

        async def ask_back(received: Received) -> int:
            found.append((await client.get(f"/v1/workflows/{received.says['data']['id']}")).status_code)
            return 204

        receiver.answer = ask_back
        await asyncio.gather(*(client.put(f"/v1/workflows/w{n}", json={}) for n in range(50)))
        await receiver.until(lambda: len(found) == 50)
        assert set(found) == {200}
