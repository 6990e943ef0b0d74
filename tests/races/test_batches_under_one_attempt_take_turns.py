"""Batches under one attempt that settle its submission at the end wait for each other; no deadlock decides."""

from __future__ import annotations

import asyncio

import asyncpg
import httpx

from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.submissions.calls import Calls
from tests.waiting import held_up

HEADERS = {"Submission-Attempt": "h;at"}


def batch(invocation_id: str, number: int) -> dict[str, list[dict[str, object]]]:
    message = {"id": f"m{number}", "seq": number, "role": "result", "payload": number}
    return {
        "operations": [
            {"method": "POST", "path": f"/v1/invocations/{invocation_id}/messages", "body": {"items": [message]}},
            {"method": "POST", "path": "/v1/submissions/h/complete", "body": {"attempt_id": "at"}},
        ]
    }


async def test_two_batches_and_a_settlement_of_one_submission(fresh: Service) -> None:
    gate = await asyncpg.connect(fresh.ground.database.url)
    async with await new_tenant(fresh) as client:
        await Calls(client).running("h")
        invocation_id = (await Make(client).invocation())["id"]

        def send(number: int) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.post("/v1/batch", json=batch(invocation_id, number), headers=HEADERS))

        async with gate.transaction():
            # Whoever gets as far as the settlement waits there.
            await gate.execute("SELECT FROM submissions WHERE id = 'h' FOR KEY SHARE")
            sent = [send(1), send(2)]
            await held_up(fresh, 2)
            sent.append(asyncio.create_task(client.post("/v1/submissions/h/complete", json={"attempt_id": "at"})))
            await held_up(fresh, 3)
        answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    found = await gate.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await gate.close()
    assert found == 0
