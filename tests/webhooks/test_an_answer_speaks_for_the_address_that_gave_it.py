"""B35: what an address answers that the webhook has left meanwhile says nothing about where it leads now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.waiting import eventually
from tests.webhooks.pipeline import delivering
from tests.webhooks.receiving import Received, receiving

Move = Callable[[httpx.AsyncClient, str], Awaitable[None]]


async def changed(client: httpx.AsyncClient, url: str) -> None:
    assert (await client.patch("/v1/webhooks/wh", json={"url": url})).status_code == 200


async def made_anew(client: httpx.AsyncClient, url: str) -> None:
    assert (await client.delete("/v1/webhooks/wh")).status_code == 204
    assert (await client.post("/v1/webhooks", json={"id": "wh", "url": url})).status_code == 201


@pytest.mark.parametrize("move", [changed, made_anew])
@pytest.mark.parametrize("status", [410, 500])
async def test_an_address_that_was_left_does_not_harm_the_webhook(
    clone: Callable[[], Awaitable[str]], move: Move, status: int
) -> None:
    async with receiving() as receiver, delivering(clone) as (_service, client):
        moved = asyncio.Event()

        async def answer(received: Received) -> int:
            if received.path != "/old":
                return 204
            await moved.wait()
            return status

        receiver.answer = answer
        given = {"id": "wh", "url": f"{receiver.url}/old", "event_types": ["workflow.*"]}
        assert (await client.post("/v1/webhooks", json=given)).status_code == 201
        test = (await client.post("/v1/webhooks/wh/test")).json()
        await receiver.until(lambda: receiver.open == 1)
        await move(client, f"{receiver.url}/new")
        moved.set()

        async def settled() -> dict[str, Any] | None:
            found: dict[str, Any] = (await client.get(f"/v1/deliveries/{test['id']}")).json()
            return found if found["attempts"] else None

        assert (await eventually(settled, "the attempt"))["attempts"][0]["status_code"] == status
        webhook = (await client.get("/v1/webhooks/wh")).json()
        assert (webhook["enabled"], webhook["failing_since"]) == (True, None)
        if status == 410:
            # It is the delivery alone that has ended; it can be sent to where the webhook leads now.
            assert (await client.post(f"/v1/deliveries/{test['id']}/redeliver")).status_code == 202
            await receiver.until(lambda: any(each.id == test["id"] for each in receiver.of("/new")))
