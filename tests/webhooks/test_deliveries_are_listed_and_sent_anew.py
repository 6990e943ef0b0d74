"""Deliveries over HTTP: tests, the list, one with its attempts and body, and sending one anew."""

from __future__ import annotations

from asyncio import gather

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import codes, problem, send
from tests.webhooks.hooks import Hooks


async def test_a_test_is_a_delivery_of_its_own_kind(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made(event_types=["submission.*"])
    made = await send(client, "POST", "/v1/webhooks/wh/test", b'{"data":{"a": 1.0 , "b":1e400}}')
    assert made.status_code == 202, made.text
    delivery = made.json()
    assert made.headers["location"] == f"/v1/deliveries/{delivery['id']}"
    assert delivery == {
        "id": delivery["id"], "webhook_id": "wh", "event_id": None, "event_type": "webhook.test",
        "event_position": None, "status": "pending", "attempt_count": 0, "next_attempt_at": delivery["created_at"],
        "last_status_code": None, "last_error": None, "created_at": delivery["created_at"], "ended_at": None,
        "attempts": [],
    } | {"next_attempt_at": delivery["next_attempt_at"]}  # fmt: skip
    assert (await client.get(made.headers["location"])).json() == delivery
    shown = await client.get(f"{made.headers['location']}?include=body")
    assert b'"body":{"type":"webhook.test","timestamp":"' in shown.content
    assert b'Z","data":{"a": 1.0 , "b":1e400}}' in shown.content
    plain = await client.post("/v1/webhooks/wh/test")
    shown = await client.get(f"/v1/deliveries/{plain.json()['id']}?include=body")
    assert shown.json()["body"]["data"] == {"webhook_id": "wh", "message": "Hello from Cairn."}


async def test_a_disabled_webhook_is_sent_no_test(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made(enabled=False)
    assert problem(await client.post("/v1/webhooks/wh/test")) == (409, "endpoint_disabled")
    assert problem(await client.post("/v1/webhooks/absent/test")) == (404, "webhook_not_found")


async def test_deliveries_are_listed_by_webhook_status_type_and_time(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made("one")
    await hooks.made("two")
    arrived, dead = await hooks.delivery("one"), await hooks.delivery("one", "dead")
    elsewhere = await hooks.delivery("two", "sending")

    async def listed(path: str) -> list[str]:
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        return [delivery["id"] for delivery in answer.json()["items"]]

    assert await listed("/v1/webhooks/one/deliveries") == [dead, arrived]
    assert await listed("/v1/webhooks/one/deliveries?order=asc&status=delivered&status=pending") == [arrived]
    assert await listed("/v1/deliveries") == [elsewhere, dead, arrived]
    assert await listed("/v1/deliveries?webhook_id=two&status=sending") == [elsewhere]
    assert await listed("/v1/deliveries?event_type=webhook.test&status=dead") == [dead]
    assert await listed("/v1/deliveries?event_type=invocation.ended") == []
    since = (await client.get(f"/v1/deliveries/{dead}")).json()["created_at"]
    assert await listed(f"/v1/deliveries?created_after={since}") == [elsewhere, dead]
    assert await listed(f"/v1/deliveries?created_before={since}") == [arrived]
    (shown, _) = (await client.get("/v1/webhooks/one/deliveries?include=body")).json()["items"]
    assert shown["body"]["data"] == 1
    assert problem(await client.get("/v1/webhooks/absent/deliveries")) == (404, "webhook_not_found")


async def test_a_delivery_shows_its_attempts_and_the_body_of_its_event(
    hooks: Hooks, client: httpx.AsyncClient, make: Make
) -> None:
    await hooks.made()
    name = await hooks.delivery(status="dead")
    await make.workflow(id="w", name="n")
    await hooks.sequenced()
    await hooks.execute(
        "UPDATE webhook_deliveries AS d SET event_id = e.id, event_type = e.type, event_position = e.position,"
        " event_sequenced_at = e.sequenced_at, body = NULL FROM events AS e"
        " WHERE d.tenant_id = $1 AND d.id = $2 AND e.tenant_id = $1 AND e.type = 'workflow.created'",
        name,
    )
    await hooks.execute(
        "INSERT INTO webhook_attempts (tenant_id, delivery_id, number, duration_ms, status_code, error, response)"
        " VALUES ($1, $2, 2, 15000, NULL, 'timeout', NULL), ($1, $2, 1, 12, 503, NULL, 'Not now.')",
        name,
    )
    shown = (await client.get(f"/v1/deliveries/{name}?include=body")).json()
    event = (await client.get("/v1/events?type=workflow.created")).json()["items"][0]
    assert shown["body"] == {"type": event["type"], "timestamp": event["occurred_at"], "data": event["data"]}
    assert (shown["event_id"], shown["event_position"]) == (event["id"], event["position"])
    assert [(one["number"], one["status_code"], one["error"], one["response"]) for one in shown["attempts"]] == [
        (1, 503, None, "Not now."), (2, None, "timeout", None),
    ]  # fmt: skip
    assert problem(await client.get("/v1/deliveries/absent")) == (404, "delivery_not_found")
    assert problem(await client.get(f"/v1/deliveries/{name}?include=attempts")) == (422, "invalid_input")


@pytest.mark.parametrize("status", ["delivered", "dead"])
async def test_what_has_ended_is_sent_anew_under_the_same_id(
    hooks: Hooks, client: httpx.AsyncClient, status: str
) -> None:
    await hooks.made()
    name = await hooks.delivery(status=status)
    answers = await gather(*(client.post(f"/v1/deliveries/{name}/redeliver") for _ in range(4)))
    assert codes(answers) == [202, 409, 409, 409], [answer.text for answer in answers]
    (taken,) = [answer for answer in answers if answer.status_code == 202]
    assert taken.headers["location"] == f"/v1/deliveries/{name}"
    assert (taken.json()["id"], taken.json()["status"], taken.json()["ended_at"]) == (name, "pending", None)
    for refused in answers:
        if refused is not taken:
            assert (problem(refused), refused.json()["current_status"]) == ((409, "delivery_under_way"), "pending")
    (row,) = await hooks.execute("SELECT round_count, attempt_count, dispatch FROM webhook_deliveries"
                                 " WHERE tenant_id = $1")  # fmt: skip
    assert tuple(row) == (0, 3, 3)
    assert (await client.get("/v1/dead-letters")).json()["items"] == []


async def test_a_delivery_is_not_sent_anew_where_nobody_would_get_it(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    name = await hooks.delivery(status="dead")
    under_way = await hooks.delivery(status="sending")
    await client.patch("/v1/webhooks/wh", json={"enabled": False})
    refused = await client.post(f"/v1/deliveries/{name}/redeliver")
    assert (problem(refused), refused.json()["webhook_id"]) == ((409, "endpoint_disabled"), "wh")
    letter = await hooks.letter(name)
    assert problem(await client.post(f"/v1/dead-letters/{letter}/replay")) == (409, "endpoint_disabled")
    await client.delete("/v1/webhooks/wh")
    assert problem(await client.post(f"/v1/deliveries/{name}/redeliver")) == (409, "endpoint_gone")
    assert problem(await client.post(f"/v1/deliveries/{under_way}/redeliver")) == (409, "delivery_under_way")
    assert problem(await client.post("/v1/deliveries/absent/redeliver")) == (404, "delivery_not_found")
    assert await hooks.letter(name) == letter, "the letter stays"
    await hooks.execute("DELETE FROM webhook_deliveries WHERE tenant_id = $1")
    assert problem(await client.post(f"/v1/dead-letters/{letter}/replay")) == (409, "delivery_gone")


async def test_an_event_that_is_no_longer_kept_is_not_sent_anew(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    name = await hooks.delivery()
    await hooks.execute(
        "UPDATE webhook_deliveries SET body = NULL, event_position = 1, event_sequenced_at = '2020-01-01'"
        " WHERE tenant_id = $1"
    )
    assert problem(await client.post(f"/v1/deliveries/{name}/redeliver")) == (409, "event_gone")
    shown = (await client.get(f"/v1/deliveries/{name}?include=body")).json()
    assert shown["body"] is None
