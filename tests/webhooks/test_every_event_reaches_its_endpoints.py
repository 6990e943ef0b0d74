"""B36: each committed event that a webhook asks for reaches it, none that was rolled back does."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from standardwebhooks import Webhook

from app.background.runner import drain
from app.db.sql import Statement
from app.http.service import Service
from app.webhooks.fanout import fan_out
from tests.waiting import eventually
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


async def test_headers_of_a_webhook_go_with_every_delivery(clone: Clone) -> None:
    # What a client asks for is not left for the next look.
    async with receiving() as receiver, delivering(clone, look_seconds=60) as (_, client):
        given = {"id": "wh", "url": f"{receiver.url}/hook?a=1&b=%20", "headers": {"X-Environment": 'production; a="b"'}}
        assert (await client.post("/v1/webhooks", json=given)).status_code == 201
        assert (await client.post("/v1/webhooks/wh/test")).status_code == 202
        await receiver.until(lambda: any(each.says["type"] == "webhook.test" for each in receiver.received))
        got = receiver.received[-1]
        assert got.headers["x-environment"] == 'production; a="b"'
        assert got.request.raw_path == "/hook?a=1&b=%20"
        assert got.headers["content-type"] == "application/json"


async def test_events_are_handed_out_in_small_steps_and_each_once(fresh: Service) -> None:
    database = fresh.ground.database
    insert = Statement(
        "WITH head AS (INSERT INTO event_heads AS h (tenant_id, position) VALUES (:t, 40)"
        " ON CONFLICT (tenant_id) DO UPDATE SET position = 40), kept AS (SELECT generate_series(1, 40) AS n)"
        " INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at, data)"
        # The first ten are no longer kept.
        " SELECT :t, n, now(), :t || n, 'a.' || n % 3, 'a', 'a', now(), '{}' FROM kept WHERE n > 10"
    )
    for tenant in ("one", "two", "three"):
        await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES (:t)"), t=tenant)
        for n in range(5):
            types = [[], ["a.*"], ["a.1"], ["a.2", "b.*"], ["b.*"]][n]
            await subscribe(database, tenant, "http://127.0.0.1", id=f"w{n}", event_types=types)
        await database.rows(insert, t=tenant)
    await database.rows(Statement("UPDATE webhooks SET after_position = 20 WHERE tenant_id = 'two' AND id = 'w0'"))
    job = fan_out(lambda: None)
    calls = 0
    while await job(database, 6):
        calls += 1
    assert calls > 10
    made = await database.rows(
        Statement(
            "SELECT tenant_id, webhook_id, count(*) AS made, count(DISTINCT event_position) AS events,"
            " min(event_position) AS first, max(event_position) AS last FROM webhook_deliveries"
            " GROUP BY tenant_id, webhook_id ORDER BY tenant_id, webhook_id"
        )
    )
    counts = {(row["tenant_id"], row["webhook_id"]): (row["made"], row["events"]) for row in made}
    for tenant in ("one", "two", "three"):
        assert counts[tenant, "w0"] == ((20, 20) if tenant == "two" else (30, 30))
        assert counts[tenant, "w1"] == (30, 30)
        assert counts[tenant, "w2"] == counts[tenant, "w3"] == (10, 10)
        assert (tenant, "w4") not in counts
    heads = await database.rows(Statement("SELECT DISTINCT position FROM webhook_heads"))
    assert [row["position"] for row in heads] == [40]


async def test_processes_that_hand_out_side_by_side_double_nothing(fresh: Service) -> None:
    database = fresh.ground.database
    for tenant in ("one", "two"):
        await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES (:t)"), t=tenant)
        await subscribe(database, tenant, "http://127.0.0.1")
        await database.rows(
            Statement(
                "WITH head AS (INSERT INTO event_heads (tenant_id, position) VALUES (:t, 500))"
                " INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id,"
                " occurred_at, data) SELECT :t, n, now(), :t || n, 'a.b', 'a', 'a', now(), '{}'"
                " FROM generate_series(1, 500) AS n"
            ),
            t=tenant,
        )
    job = fan_out(lambda: None)
    await asyncio.gather(*(drain(job, database, 20) for _ in range(6)))
    await drain(job, database, 20)
    (row,) = await database.rows(
        Statement(
            "SELECT count(*) AS made, count(DISTINCT (tenant_id, event_position)) AS events FROM webhook_deliveries"
        )
    )
    assert (row["made"], row["events"]) == (1000, 1000)


async def test_the_metrics_tell_what_was_delivered(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, schedule="0.01") as (service, client):

        async def refuse_one(_received: Received) -> int:
            return 500 if len(receiver.received) == 1 else 204

        receiver.answer = refuse_one
        await subscribe(service.ground.database, tenant_of(client), receiver.url)
        await client.put("/v1/workflows/w", json={})
        metric = service.ground.metrics.registry.get_sample_value

        async def counted() -> bool:
            return metric("cairn_webhook_attempt_seconds_count", {"outcome": "delivered"}) == 1

        await eventually(counted, "the count")
        assert metric("cairn_webhook_attempt_seconds_count", {"outcome": "failed"}) == 1
