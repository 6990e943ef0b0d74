"""B34: however large what is sent is, a process holds so many bytes of it at once, and all of it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.db.sql import Statement
from app.webhooks import room, worker
from tests.conftest import Make
from tests.waiting import eventually
from tests.webhooks.pipeline import delivering, subscribe, tenant_of
from tests.webhooks.receiving import Received, receiving

SIZE, WEBHOOKS = 750_000, 16
# A sixty-fourth of what they are, so that the test need not move gigabytes.
ALL, AT_ONCE = room.BODIES_BYTES_MAX // 64, room.TAKEN_BYTES // 64
# It takes more until it has so much, and then what comes with the last take.
FILLED = ALL // SIZE + 1
MOST = (ALL + AT_ONCE) // SIZE + 1


@pytest.mark.parametrize("kind", ["included", "kept"])
async def test_large_bodies_wait_for_room(
    clone: Callable[[], Awaitable[str]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "BODIES_BYTES_MAX", ALL)
    for module in (room, worker):
        monkeypatch.setattr(module, "TAKEN_BYTES", AT_ONCE)
    async with receiving() as receiver, delivering(clone, attempt_seconds=60) as (service, client):
        database, tenant = service.ground.database, tenant_of(client)
        released = asyncio.Event()
        sizes: list[int] = []

        async def answer(received: Received) -> int:
            receiver.received.remove(received)
            sizes.append(len(received.body))
            await released.wait()
            return 204

        receiver.answer = answer
        for n in range(WEBHOOKS):
            await subscribe(
                database, tenant, receiver.url, id=f"wh{n}", event_types=["invocation.ended"], include=["output"]
            )
        if kind == "included":
            invocation = await Make(client).invocation()
            given = {"status": "completed", "output": "x" * SIZE}
            ended = await client.post(f"/v1/invocations/{invocation['id']}/end", json=given)
            assert ended.status_code == 200, ended.text
        else:
            await database.rows(
                Statement(
                    "INSERT INTO webhook_deliveries (tenant_id, webhook_id, event_type, body)"
                    " SELECT :t, 'wh' || n, 'webhook.test', CAST(to_json(repeat('x', :size)) AS json)"
                    " FROM generate_series(0, CAST(:last AS int)) AS n"
                ),
                t=tenant,
                size=SIZE,
                last=WEBHOOKS - 1,
            )
        await receiver.until(lambda: receiver.open >= FILLED)
        (held,) = await database.rows(
            Statement("SELECT count(*) AS n FROM webhook_deliveries WHERE status = 'sending'")
        )
        assert FILLED <= held["n"] <= MOST
        released.set()
        await receiver.until(lambda: len(sizes) == WEBHOOKS and not receiver.open)
        assert min(sizes) >= SIZE

        async def settled() -> bool:
            rows = await database.rows(Statement("SELECT FROM webhook_deliveries WHERE status = 'delivered'"))
            return len(rows) == WEBHOOKS

        await eventually(settled, "every delivery")
        # What had to wait was not attempted meanwhile.
        rows = await database.rows(Statement("SELECT number FROM webhook_attempts"))
        assert [row["number"] for row in rows] == [1] * WEBHOOKS
