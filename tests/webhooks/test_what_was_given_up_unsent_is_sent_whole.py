"""A delivery that was given up before its first attempt has what its webhook includes once it is sent after all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.conftest import Make
from tests.waiting import eventually
from tests.webhooks.pipeline import delivering
from tests.webhooks.receiving import Received, receiving


async def test_included_fields_come_with_a_replay(clone: Callable[[], Awaitable[str]]) -> None:
    async with receiving() as receiver, delivering(clone, concurrency=1) as (_service, client):
        released = asyncio.Event()

        async def answer(_received: Received) -> int:
            await released.wait()
            return 204

        receiver.answer = answer
        given = {"id": "wh", "url": receiver.url, "event_types": ["invocation.ended"], "include": ["output"]}
        assert (await client.post("/v1/webhooks", json=given)).status_code == 201
        make = Make(client)
        for _ in range(2):
            invocation = await make.invocation()
            ended = {"status": "completed", "output": {"n": 1.0}}
            assert (await client.post(f"/v1/invocations/{invocation['id']}/end", json=ended)).status_code == 200
        await receiver.until(lambda: receiver.open == 1)

        async def waiting() -> bool:
            return len((await client.get("/v1/deliveries", params={"status": "pending"})).json()["items"]) == 1

        await eventually(waiting, "the delivery that waits")
        assert (await client.patch("/v1/webhooks/wh", json={"enabled": False})).status_code == 200

        async def given_up() -> list[Any]:
            found: list[Any] = (await client.get("/v1/dead-letters")).json()["items"]
            return found

        (letter,) = await eventually(given_up, "the letter")
        assert (letter["reason"], letter["attempts"]) == ("endpoint_disabled", 0)
        released.set()
        assert (await client.post("/v1/webhooks/wh/enable")).status_code == 200
        assert (await client.post(f"/v1/dead-letters/{letter['id']}/replay")).status_code == 200
        await receiver.until(lambda: len(receiver.received) == 2)
        first, second = receiver.received
        assert second.id == letter["subject"]
        assert first.says["data"]["output"] == second.says["data"]["output"] == {"n": 1.0}
        # As the first attempt sent it, every other does.
        shown = await client.get(f"/v1/deliveries/{second.id}", params={"include": "body"})
        assert shown.json()["body"] == second.says
