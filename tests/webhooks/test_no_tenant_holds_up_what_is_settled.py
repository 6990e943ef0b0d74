"""Whoever holds the row of a webhook, as a batch does that changes it, holds up the attempts of that webhook alone."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from app.errors import Unavailable
from app.http.service import Service
from app.settings import WebhookSettings
from app.webhooks.policy import Again, Delivered
from app.webhooks.sender import Outcome
from app.webhooks.settling import Result, Settled, Settler
from tests.webhooks.hooks import URL, Hooks

HOLD = Statement("UPDATE webhooks SET description = 'x' WHERE tenant_id = :tenant_id RETURNING id")


async def under_way(hooks: Hooks) -> str:
    """A delivery whose attempt is under way."""
    await hooks.made()
    return await hooks.delivery(status="sending")


def failed(hooks: Hooks, name: str, now: datetime) -> Result:
    """What came of it: it failed, for the first time, so the standing of its webhook changes."""
    return Result(hooks.tenant_id, name, 3, now, Outcome(500, "No.", None, 1, None), Again(60), URL)


def arrived(hooks: Hooks, name: str, now: datetime) -> Result:
    """What came of it: it is delivered."""
    return Result(hooks.tenant_id, name, 3, now, Outcome(200, None, None, 1, None), Delivered(), URL)


async def stand(hooks: Hooks, name: str) -> Any:
    """How a delivery stands."""
    return (await hooks.client.get(f"/v1/deliveries/{name}")).json()["status"]


async def test_what_belongs_to_a_webhook_that_is_held_waits_alone(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    held, free = Hooks(service, client), Hooks(service, other)
    waits, goes = await under_way(held), await under_way(free)
    database = service.ground.database
    now = (await database.rows(Statement("SELECT clock_timestamp() AS now")))[0]["now"]
    told: asyncio.Queue[tuple[int, Settled]] = asyncio.Queue()
    settler = Settler(database, WebhookSettings(), lambda count, settled: told.put_nowait((count, settled)))
    settler.start()
    async with database.writing() as transaction:
        await transaction.row(HOLD, tenant_id=held.tenant_id)
        settler.add(failed(held, waits, now))
        settler.add(arrived(free, goes, now))
        # Well within the wait for a lock, after which nothing at all would have been settled.
        async with asyncio.timeout(1.5):
            assert await told.get() == (1, Settled(pending=0, dead=0, disabled=0, aside=(waits,)))
        assert (await stand(free, goes), await stand(held, waits)) == ("delivered", "sending")
        # What comes later is settled while that waits.
        again = await free.delivery(status="sending")
        settler.add(arrived(free, again, now))
        async with asyncio.timeout(1.5):
            while await stand(free, again) != "delivered":
                await told.get()
    async with asyncio.timeout(5):
        while await stand(held, waits) != "pending":
            await told.get()
    assert (await held.get())["failing_since"] is not None
    await settler.close()


async def test_the_end_waits_for_no_webhook_that_is_held(service: Service, hooks: Hooks) -> None:
    waits = await under_way(hooks)
    database = service.ground.database
    now = (await database.rows(Statement("SELECT clock_timestamp() AS now")))[0]["now"]
    settler = Settler(database, WebhookSettings(), lambda _count, _settled: None)
    async with database.writing() as transaction:
        await transaction.row(HOLD, tenant_id=hooks.tenant_id)
        settler.add(failed(hooks, waits, now))
        async with asyncio.timeout(1.5):
            with pytest.raises(Unavailable, match="the webhooks of 1 deliver"):
                await settler.close()
    assert await stand(hooks, waits) == "sending"
