"""The API and what delivers, together: what a client asks for over HTTP is what an endpoint gets."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from standardwebhooks import Webhook

from tests.payloads import problem
from tests.waiting import eventually
from tests.webhooks.pipeline import delivering, sequenced
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]
# One that is sent nothing but what a test sends it.
QUIET = {"id": "wh", "event_types": ["session.started"]}


async def ended(client: httpx.AsyncClient, delivery_id: str, status: str) -> dict[str, Any]:
    """The delivery, once it has come to that."""
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        found.update((await client.get(f"/v1/deliveries/{delivery_id}?include=body")).json())
        return found["status"] == status

    await eventually(is_so, f"a delivery that is {status}")
    return found


def verified(secret: str, received: Received) -> Any:
    """What was received, judged by the public library."""
    return Webhook(secret).verify(received.body, received.headers)


async def test_a_test_arrives_signed_with_the_headers_that_were_given(clone: Clone) -> None:
    async with receiving() as endpoint, delivering(clone) as (_, client):
        hook = {**QUIET, "url": endpoint.url + "/in", "headers": {"X-Key": "of the endpoint"}}
        secret = (await client.post("/v1/webhooks", json=hook)).json()["secret"]
        sent = (await client.post("/v1/webhooks/wh/test", json={"data": {"n": 1}})).json()
        delivery = await ended(client, sent["id"], "delivered")
        (got,) = endpoint.of("/in")
        assert (got.id, got.headers["x-key"]) == (sent["id"], "of the endpoint")
        assert verified(secret, got) == delivery["body"] == json.loads(got.body)
        assert (delivery["body"]["type"], delivery["body"]["data"]) == ("webhook.test", {"n": 1})
        (attempt,) = delivery["attempts"]
        assert (attempt["number"], attempt["status_code"], attempt["error"]) == (1, 204, None)


async def test_both_secrets_sign_while_a_rotation_overlaps(clone: Clone) -> None:
    async with receiving() as endpoint, delivering(clone) as (_, client):
        old = (await client.post("/v1/webhooks", json={**QUIET, "url": endpoint.url})).json()["secret"]
        new = (await client.post("/v1/webhooks/wh/rotate-secret", json={"overlap_seconds": 60})).json()["secret"]
        first = (await client.post("/v1/webhooks/wh/test")).json()["id"]
        await ended(client, first, "delivered")
        last = (await client.post("/v1/webhooks/wh/rotate-secret", json={"overlap_seconds": 0})).json()["secret"]
        second = (await client.post("/v1/webhooks/wh/test")).json()["id"]
        await ended(client, second, "delivered")
        for secret in (old, new):
            verified(secret, endpoint.received[0])
        assert len(endpoint.received[1].headers["webhook-signature"].split()) == 1
        verified(last, endpoint.received[1])


async def test_a_replayed_letter_arrives_under_the_same_id_with_the_same_body(clone: Clone) -> None:
    refusing = True

    async def answer(_received: Received) -> int:
        return 500 if refusing else 204

    async with receiving() as endpoint, delivering(clone, schedule="0.01") as (_, client):
        endpoint.answer = answer
        await client.post("/v1/webhooks", json={**QUIET, "url": endpoint.url})
        sent = (await client.post("/v1/webhooks/wh/test", json={"data": [1.0]})).json()["id"]
        dead = await ended(client, sent, "dead")
        assert [attempt["status_code"] for attempt in dead["attempts"]] == [500, 500]
        refusing = False
        (letter,) = (await client.get(f"/v1/dead-letters?webhook_id=wh&subject={sent}")).json()["items"]
        assert (letter["reason"], letter["attempts"]) == ("attempts_exhausted", 2)
        assert (await client.post(f"/v1/dead-letters/{letter['id']}/replay")).status_code == 200
        delivered = await ended(client, sent, "delivered")
        assert [attempt["number"] for attempt in delivered["attempts"]] == [1, 2, 3]
        assert (await client.post(f"/v1/deliveries/{sent}/redeliver")).status_code == 202
        await endpoint.until(lambda: len(endpoint.received) == 4)
        assert {(each.id, each.body) for each in endpoint.received} == {(sent, endpoint.received[0].body)}
        assert (await client.get("/v1/dead-letters")).json()["items"] == []


async def test_what_waits_for_a_disabled_webhook_is_given_up_and_comes_with_a_replay(clone: Clone) -> None:
    refusing = True

    async def answer(_received: Received) -> int:
        return 503 if refusing else 204

    async with receiving() as endpoint, delivering(clone, schedule="3600") as (service, client):
        endpoint.answer = answer
        hook = {"id": "wh", "url": endpoint.url, "event_types": ["workflow.*"]}
        await client.post("/v1/webhooks", json=hook)
        for name in ("a", "b"):
            await client.put(f"/v1/workflows/{name}", json={})
        await endpoint.until(lambda: bool(endpoint.received))

        async def both_wait() -> bool:
            return len((await client.get("/v1/deliveries?webhook_id=wh")).json()["items"]) == 2

        # The event of the second may get its position later than the first is sent.
        await eventually(both_wait, "two deliveries")
        await client.patch("/v1/webhooks/wh", json={"enabled": False})

        async def given_up() -> bool:
            letters = (await client.get("/v1/dead-letters?webhook_id=wh")).json()["items"]
            return [letter["reason"] for letter in letters] == ["endpoint_disabled"] * 2

        await eventually(given_up, "two letters")
        await client.put("/v1/workflows/missed", json={})
        await sequenced(service.ground.database)
        refusing = False
        back = (await client.post("/v1/webhooks/wh/enable")).json()
        assert (await client.post("/v1/dead-letters/replay", json={"webhook_id": "wh"})).json()["replayed"] == 2

        def arrived() -> set[str]:
            return {each.says["data"]["id"] for each in endpoint.received}

        await endpoint.until(lambda: arrived() == {"a", "b"} and len(endpoint.received) >= 3)
        # There types are named one by one.
        asked = {"after": back["missed_after"], "type": "workflow.created"}
        missed = await client.get("/v1/events", params=asked)
        assert missed.status_code == 200, missed.text
        assert [event["subject_id"] for event in missed.json()["items"]] == ["missed"]


async def test_a_webhook_about_webhooks_does_not_answer_itself_for_ever(clone: Clone) -> None:
    async def gone(_received: Received) -> int:
        return 410

    async with receiving() as endpoint, delivering(clone) as (service, client):
        for name in ("one", "two"):
            hook = {"id": name, "url": f"{endpoint.url}/{name}", "event_types": ["webhook.*"]}
            assert (await client.post("/v1/webhooks", json=hook)).status_code == 201
        endpoint.answer = gone
        await client.patch("/v1/webhooks/one", json={"description": "the spark"})

        async def both_disabled() -> bool:
            hooks = (await client.get("/v1/webhooks?enabled=false")).json()["items"]
            return [hook["disabled_reason"] for hook in hooks] == ["gone", "gone"]

        await eventually(both_disabled, "two webhooks that were told to stop")

        async def all_ended() -> bool:
            waiting = await client.get("/v1/deliveries?status=pending&status=queued&status=sending")
            return waiting.json()["items"] == []

        await eventually(all_ended, "the end of all deliveries")
        await sequenced(service.ground.database)
        assert problem(await client.post("/v1/webhooks/one/test")) == (409, "endpoint_disabled")
        events = (await client.get("/v1/events?type=webhook.disabled")).json()["items"]
        assert sorted(event["subject_id"] for event in events) == ["one", "two"]
        shown = {event["subject_id"]: event["data"] for event in events}
        for name in ("one", "two"):
            assert shown[name] == (await client.get(f"/v1/webhooks/{name}")).json()
