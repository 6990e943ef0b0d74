"""What becomes the head while its session's settlement waits has no event of that, whatever was done to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.http.service import Service
from tests.conftest import new_tenant
from tests.submissions.calls import Calls
from tests.submissions.queue import events, expire, pass_time, rows, tenant
from tests.waiting import held_up


@pytest.fixture
async def gate(fresh: Service) -> AsyncIterator[asyncpg.Connection]:
    """A connection that holds up what the test names."""
    connection = await asyncpg.connect(fresh.ground.database.url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def calls(fresh: Service) -> AsyncIterator[Calls]:
    """A running `h`, and `n` behind it, which is not ready."""
    async with await new_tenant(fresh) as client:
        calls = Calls(client)
        await calls.running("h")
        await calls.admit("n", ready=False)
        yield calls


@pytest.mark.parametrize("how", ["complete", "fail", "requeue"])
async def test_the_next_is_made_ready_while_a_settlement_waits(
    fresh: Service, calls: Calls, gate: asyncpg.Connection, how: str
) -> None:
    if how == "requeue":
        await rows(fresh, "UPDATE submissions SET max_attempts = 1 WHERE id = 'h'")
    async with gate.transaction():
        await gate.execute("SELECT cairn_hold_attempt($1, 'h', 'at')", tenant(calls.client))
        more = {"error": "x"} if how == "fail" else {}
        settling = asyncio.create_task(calls.post(f"h/{how}", attempt_id="at", **more))
        await held_up(fresh)
        await calls.done("n/ready")
    assert (await settling).json()["status"] == "settled"
    assert await events(fresh, calls.client, "n") == Counter({"submission.admitted": 1, "submission.ready": 1})
    await calls.claim("n")


async def test_the_next_was_changed_when_the_clock_was_ahead(fresh: Service, calls: Calls) -> None:
    await rows(fresh, "UPDATE submissions SET max_attempts = 1, updated_at = clock_timestamp() + interval '1 hour'")
    await pass_time(fresh, calls.client, "lease_lapses_at")
    assert await expire(fresh) == 1
    assert await events(fresh, calls.client, "n") == Counter({"submission.admitted": 1})
    assert (await events(fresh, calls.client, "h"))["submission.dead"] == 1


async def test_what_was_joining_is_told_of_also_where_it_becomes_the_head(fresh: Service, calls: Calls) -> None:
    await calls.done("n/ready")
    await calls.done("h/joins/claim", attempt_id="at", agent="a")
    await calls.done("h/complete", attempt_id="at")
    assert (await events(fresh, calls.client, "n"))["submission.reverted"] == 1
    await calls.claim("n")
