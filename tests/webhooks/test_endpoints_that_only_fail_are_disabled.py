"""B35: who answers 410, or fails for too long, is sent nothing more; a client brings it back, and others are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.waiting import eventually
from tests.webhooks.pipeline import deliveries, delivering, sequenced, tenant_of
from tests.webhooks.receiving import Received, receiving

Clone = Callable[[], Awaitable[str]]


async def made(client: httpx.AsyncClient, name: str, url: str, **given: Any) -> None:
    """A webhook, made over HTTP."""
    answer = await client.post("/v1/webhooks", json={"id": name, "url": f"{url}/{name}", **given})
    assert answer.status_code == 201, answer.text


async def until_disabled(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    """The webhook, once it is disabled."""

    async def disabled() -> dict[str, Any] | None:
        webhook: dict[str, Any] = (await client.get(f"/v1/webhooks/{name}")).json()
        return None if webhook["enabled"] else webhook

    found: dict[str, Any] = await eventually(disabled, "the webhook's end")
    return found


async def test_an_endpoint_that_says_it_is_gone_is_disabled_at_once(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, concurrency=1) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)

        async def gone(received: Received) -> int:
            # Until here nothing else is handed out for it, so the others wait.
            await sequenced(database)
            return 410 if received.path == "/gone" else 204

        receiver.answer = gone
        await made(client, "gone", receiver.url, event_types=["workflow.*"])
        await made(client, "told", receiver.url, event_types=["webhook.disabled"])
        for n in range(5):
            await client.put(f"/v1/workflows/w{n}", json={})
        webhook = await until_disabled(client, "gone")
        assert webhook["disabled_reason"] == "gone"
        await receiver.until(lambda: len(receiver.of("/told")) == 1)
        told = receiver.of("/told")[0].says
        assert (told["type"], told["data"]["id"], told["data"]["enabled"]) == ("webhook.disabled", "gone", False)
        assert told["data"] == webhook

        async def ended() -> bool:
            return {row["status"] for row in await deliveries(database, tenant, "gone")} == {"dead"}

        await eventually(ended, "the end of what waited")
        assert len(receiver.of("/gone")) == 1
        letters = (await client.get("/v1/dead-letters", params={"source": "webhook"})).json()["items"]
        reasons = sorted(letter["reason"] for letter in letters)
        assert reasons == ["endpoint_disabled"] * (len(reasons) - 1) + ["gone"]
        # What came afterwards was not handed out to it.
        await client.put("/v1/workflows/later", json={})
        await sequenced(database)
        assert len(await deliveries(database, tenant, "gone")) == len(reasons)


async def test_an_endpoint_that_fails_for_too_long_is_disabled_and_can_come_back(clone: Clone) -> None:
    async with (
        receiving() as receiver,
        delivering(clone, disable_after_seconds=0.5, schedule="0.2,0.2,0.2,0.2,0.2,0.2") as (service, client),
    ):
        database, tenant = service.ground.database, tenant_of(client)
        answers = {"/ill": 500}

        async def answer(received: Received) -> int:
            return answers.get(received.path, 204)

        receiver.answer = answer
        await made(client, "ill", receiver.url, event_types=["workflow.*"])
        await made(client, "told", receiver.url, event_types=["webhook.disabled"])
        await client.put("/v1/workflows/w", json={})
        await receiver.until(lambda: bool(receiver.of("/ill")))

        async def failing() -> Any:
            return (await client.get("/v1/webhooks/ill")).json()["failing_since"]

        since = await eventually(failing, "the first failure")
        webhook = await until_disabled(client, "ill")
        assert (webhook["disabled_reason"], webhook["failing_since"]) == ("failing", since)
        assert 1 < len(receiver.of("/ill")) < 6
        await receiver.until(lambda: len(receiver.of("/told")) == 1)

        async def given_up() -> list[Any]:
            found: list[Any] = (await client.get("/v1/dead-letters", params={"source": "webhook"})).json()["items"]
            return found

        (letter,) = await eventually(given_up, "the dead letter")
        assert letter["reason"] == "endpoint_disabled"
        answers["/ill"] = 204
        enabled = await client.post("/v1/webhooks/ill/enable")
        assert (enabled.json()["enabled"], enabled.json()["failing_since"]) == (True, None)
        before = len(receiver.of("/ill"))
        replayed = await client.post(f"/v1/dead-letters/{letter['id']}/replay")
        assert replayed.status_code == 200, replayed.text
        await client.put("/v1/workflows/after", json={})
        await receiver.until(lambda: len(receiver.of("/ill")) == before + 2)
        assert {each.says["data"]["id"] for each in receiver.of("/ill")[before:]} == {"w", "after"}
        assert receiver.of("/ill")[0].id in {each.id for each in receiver.of("/ill")[before:]}

        async def delivered() -> bool:
            return {row["status"] for row in await deliveries(database, tenant, "ill")} == {"delivered"}

        await eventually(delivered, "the deliveries")


async def test_one_success_is_enough_to_be_well(clone: Clone) -> None:
    async with receiving() as receiver, delivering(clone, schedule="0.05,0.05") as (service, client):

        async def at_last(_received: Received) -> int:
            if len(receiver.received) == 2:
                assert (await client.get("/v1/webhooks/wh")).json()["failing_since"] is not None
            return 204 if len(receiver.received) == 3 else 500

        receiver.answer = at_last
        await made(client, "wh", receiver.url, event_types=["workflow.*"])
        await client.put("/v1/workflows/w", json={})

        async def delivered() -> bool:
            return {row["status"] for row in await deliveries(service.ground.database, tenant_of(client))} == {
                "delivered"
            }

        await eventually(delivered, "the delivery")
        webhook = (await client.get("/v1/webhooks/wh")).json()
        assert (webhook["enabled"], webhook["failing_since"]) == (True, None)
        assert len(receiver.received) == 3
