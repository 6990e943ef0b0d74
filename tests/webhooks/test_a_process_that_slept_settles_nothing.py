"""B31: a process that was paused during an attempt, past the time at which it counts as lost, changes nothing later."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.db.sql import Statement
from app.embedded import Servers
from tests.api_process import serving
from tests.waiting import eventually
from tests.webhooks.pipeline import ALLOWED, subscribe
from tests.webhooks.receiving import Received, receiving
from tests.webhooks.test_nothing_is_lost_or_stuck import TENANT, bus_of, client_of, given, opened

LOST = "The process ended during the attempt."


@pytest.mark.parametrize("status", [204, 410])
async def test_its_late_settlement_overwrites_nothing(
    clone: Callable[[], Awaitable[str]], servers: Servers, status: int
) -> None:
    url = await clone()
    settings = given(
        {
            "webhooks": ALLOWED | {"schedule": "0.1", "attempt_seconds": 1, "hand_out_seconds": 1},
            "background": {"enabled": True},
            "nats": bus_of(servers),
        }
    )
    async with receiving() as receiver, opened(url) as database:
        await subscribe(database, TENANT, receiver.url, event_types=["workflow.*"])
        with serving(url, **settings) as sleeper:

            async def answer(_received: Received) -> int:
                if len(receiver.received) > 1:
                    return 204
                sleeper.send(signal.SIGSTOP)
                return status

            receiver.answer = answer
            try:
                async with client_of(sleeper) as client:
                    assert (await client.put("/v1/workflows/w", json={})).status_code == 201
                await receiver.until(lambda: len(receiver.received) == 1)
                with serving(url, **settings):
                    await receiver.until(lambda: len(receiver.received) == 2)

                    async def delivered() -> list[Any]:
                        return await database.rows(
                            Statement("SELECT * FROM webhook_deliveries WHERE status = 'delivered'")
                        )

                    await eventually(delivered, "the delivery")
                    before = await _state(database)
                    sleeper.send(signal.SIGCONT)
                    # Once it has handed out and sent again, it has settled what it had.
                    async with client_of(sleeper) as client:
                        assert (await client.put("/v1/workflows/later", json={})).status_code == 201
                        await receiver.until(lambda: len(receiver.received) == 3)
                sleeper.send(signal.SIGTERM)
                sleeper.wait()
            finally:
                sleeper.send(signal.SIGCONT)
            after = await _state(database)
            assert [row for row in after if row in before] == before
            assert [(row["number"], row["error"]) for row in before] == [(1, LOST), (2, None)]
            assert not await database.rows(Statement("SELECT FROM dead_letters"))
            assert not await database.rows(Statement("SELECT FROM webhooks WHERE NOT enabled"))


async def _state(database: Any) -> list[dict[str, Any]]:
    rows = await database.rows(
        Statement(
            "SELECT d.*, a.number, a.error, a.status_code FROM webhook_deliveries AS d LEFT JOIN webhook_attempts AS a"
            " ON a.tenant_id = d.tenant_id AND a.delivery_id = d.id ORDER BY d.created_at, a.number"
        )
    )
    return [dict(row) for row in rows]
