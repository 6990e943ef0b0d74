"""B35: every attempt sends the same under the same id, signed anew; when the next one comes the endpoint has a say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from app.db.database import Database
from app.db.sql import Statement
from app.embedded import Servers
from tests.conftest import Make
from tests.waiting import eventually
from tests.webhooks.pipeline import deliveries, delivering, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]


async def refuse(_received: Received) -> int:
    return 500


async def until_all(database: Database, tenant: str, status: str, webhook_id: str = "wh") -> list[Any]:
    """The deliveries of a webhook, once all of them are so."""

    async def so() -> list[Any]:
        rows = await deliveries(database, tenant, webhook_id)
        return rows if rows and all(row["status"] == status for row in rows) else []

    found: list[Any] = await eventually(so, f"the status {status}")
    return found


@pytest.mark.parametrize("include", [[], ["output"]], ids=["as it is", "with included fields"])
async def test_the_fourth_attempt_is_the_first_one_signed_anew(clone: Clone, include: list[str]) -> None:
    async with receiving() as receiver, delivering(clone, schedule="0.4,0.4,0.4") as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        invocation = await Make(client).invocation()
        secret = await subscribe(database, tenant, receiver.url, event_types=["invocation.ended"], include=include)

        async def refuse_three(_received: Received) -> int:
            return 204 if len(receiver.received) == 4 else 503

        receiver.answer = refuse_three
        ended = await client.post(
            f"/v1/invocations/{invocation['id']}/end",
            content=b'{"status":"completed","output":{"exact": 1.0}}',
            headers={"content-type": "application/json"},
        )
        assert ended.status_code == 200
        await receiver.until(lambda: len(receiver.received) == 3)
        # What changes meanwhile changes nothing in what is sent.
        await client.patch(f"/v1/invocations/{invocation['id']}", json={"feedback": "later"})
        (row,) = await until_all(database, tenant, "delivered")
        first, *_, fourth = receiver.received
        assert len(receiver.received) == 4
        assert {each.id for each in receiver.received} == {row["id"]}
        assert {each.body for each in receiver.received} == {first.body}
        assert (b'{"exact": 1.0}' in first.body) == bool(include)
        assert abs(int(fourth.headers["webhook-timestamp"]) - time.time()) < 5
        assert int(fourth.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])
        assert fourth.headers["webhook-signature"] != first.headers["webhook-signature"]
        assert Webhook(secret).verify(fourth.body, fourth.headers)["type"] == "invocation.ended"
        attempts = await database.rows(
            Statement("SELECT number, status_code, error FROM webhook_attempts WHERE tenant_id = :t ORDER BY number"),
            t=tenant,
        )
        assert [tuple(each)[:2] for each in attempts] == [(1, 503), (2, 503), (3, 503), (4, 204)]


async def test_what_failed_together_comes_back_apart(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, schedule="60,60", concurrency=100) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        together = asyncio.Event()

        async def refuse_together(_received: Received) -> int:
            if receiver.open == 40:
                together.set()
            await together.wait()
            return 500

        receiver.answer = refuse_together
        await subscribe(database, tenant, receiver.url)
        for n in range(40):
            await client.put(f"/v1/workflows/w{n}", json={})
        await receiver.until(lambda: len(receiver.received) == 40 and not receiver.open)

        async def settled() -> bool:
            return all(row["attempt_count"] for row in await deliveries(database, tenant)) and not await database.rows(
                Statement("SELECT FROM webhook_deliveries WHERE status <> 'pending'")
            )

        await eventually(settled, "the end of the attempts")
        now = datetime.now(UTC)
        due = sorted(row["due_at"] for row in await deliveries(database, tenant))
        assert now + timedelta(seconds=55) < due[0] <= due[-1] < now + timedelta(seconds=75)
        assert (due[-1] - due[0]) > timedelta(seconds=8)


@pytest.mark.parametrize(("most", "asked"), [(86_400, 120), (60, 60)], ids=["as asked", "at most"])
async def test_an_endpoint_may_ask_for_a_pause(clone: Clone, most: int, asked: int) -> None:
    async with (
        receiving() as receiver,
        delivering(clone, schedule="1,1", retry_after_seconds_max=most) as (service, client),
    ):
        database, tenant = service.ground.database, tenant_of(client)

        async def later(_received: Received) -> web.Response:
            return web.Response(status=429, headers={"retry-after": "120"})

        receiver.answer = later
        await subscribe(database, tenant, receiver.url)
        await client.put("/v1/workflows/w", json={})
        await receiver.until(lambda: len(receiver.received) == 1 and not receiver.open)
        (row,) = await until_all(database, tenant, "pending")

        async def settled() -> Any:
            (row,) = await deliveries(database, tenant)
            return row if row["last_status_code"] == 429 else None

        row = await eventually(settled, "the end of the attempt")
        seconds = (row["due_at"] - datetime.now(UTC)).total_seconds()
        assert asked - 5 < seconds <= asked * 1.25


async def test_after_the_last_attempt_a_delivery_is_a_dead_letter(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, schedule="0.01,0.01") as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        receiver.answer = refuse
        await subscribe(database, tenant, receiver.url)
        await client.put("/v1/workflows/w", json={})
        (row,) = await until_all(database, tenant, "dead")
        assert (row["attempt_count"], row["body"]) == (3, receiver.received[0].body)
        (letter,) = (await client.get("/v1/dead-letters", params={"source": "webhook"})).json()["items"]
        assert letter["subject"] == row["id"]
        assert (letter["reason"], letter["attempts"]) == ("attempts_exhausted", 3)
        assert "500" in letter["last_error"]

        async def announced() -> list[Any]:
            return await database.rows(Statement("SELECT FROM dead_letters WHERE announced_at IS NOT NULL"))

        await eventually(announced, "the announcement")


async def test_both_secrets_sign_while_one_takes_over_from_the_other(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, schedule="0.3,0.3") as (_, client):
        given = {"id": "wh", "url": receiver.url, "event_types": ["workflow.created"]}
        old = (await client.post("/v1/webhooks", json=given)).json()["secret"]
        rotated: list[str] = []

        async def rotate_between(_received: Received) -> int:
            if rotated:
                return 204
            answer = await client.post("/v1/webhooks/wh/rotate-secret", json={"overlap_seconds": 3600})
            rotated.append(answer.json()["secret"])
            return 500

        receiver.answer = rotate_between
        await client.post("/v1/webhooks/wh/test")
        await receiver.until(lambda: len(receiver.received) == 2)
        first, second = receiver.received
        assert Webhook(old).verify(first.body, first.headers)
        for secret in (old, *rotated):
            assert Webhook(secret).verify(second.body, second.headers)
        at_once = await client.post("/v1/webhooks/wh/rotate-secret", json={"overlap_seconds": 0})
        await client.post("/v1/webhooks/wh/test")
        await receiver.until(lambda: len(receiver.received) == 3)
        last = receiver.received[2]
        assert Webhook(at_once.json()["secret"]).verify(last.body, last.headers)
        assert len(last.headers["webhook-signature"].split()) == 1


async def test_a_replay_is_no_duplicate(clone: Clone, servers: Servers) -> None:
    nats = {"url": servers.nats_url, "stream_prefix": "replayed", "subject_prefix": "replayed"}
    async with receiving() as receiver, delivering(clone, nats=nats) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        await subscribe(database, tenant, receiver.url)
        await client.put("/v1/workflows/w", json={})
        await until_all(database, tenant, "delivered")
        for times in (2, 3):
            (row,) = await deliveries(database, tenant)
            assert (await client.post(f"/v1/deliveries/{row['id']}/redeliver")).status_code == 202
            await receiver.until(lambda times=times: len(receiver.received) == times)  # type: ignore[misc]
            (row,) = await until_all(database, tenant, "delivered")
            assert (row["dispatch"], row["attempt_count"], row["round_count"]) == (times, times, 1)
        assert len({(each.id, each.body) for each in receiver.received}) == 1
