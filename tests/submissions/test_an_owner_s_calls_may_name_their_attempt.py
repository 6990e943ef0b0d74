"""`Submission-Attempt` on the calls that end or change the attempt itself: their own goes through, a stale one not."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.payloads import problem
from tests.submissions.calls import Calls

RECORD = {"id": "r", "outcome": "completed"}
OWN = {"submission-attempt": "a;at"}


@pytest.fixture
def calls(client: httpx.AsyncClient) -> Calls:
    return Calls(client)


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("complete", {}), ("fail", {"error": "x"}), ("requeue", {}), ("input-applied", {}), ("recovery-request", {}),
        ("replace-attempt", {"next_attempt_id": "y"}), ("joins/claim", {"agent": "a"}),
        ("settlement/reserve", {"record_id": "r", "record": RECORD}),
    ],
)  # fmt: skip
async def test_a_call_under_its_own_attempt_goes_through(calls: Calls, call: str, body: dict[str, Any]) -> None:
    await calls.running("a")
    for stale in ("a;other", "a", "unknown;at"):
        refused = await calls.post(f"a/{call}", {"submission-attempt": stale}, attempt_id="at", **body)
        assert refused.status_code == (422 if stale == "a" else 409), refused.text
    assert (await calls.shown("a"))["status"] == "running"
    done = await calls.post(f"a/{call}", {**OWN, "idempotency-key": "k"}, attempt_id="at", **body)
    assert done.status_code == 200, done.text
    # The lost answer comes again, although the attempt is over.
    again = await calls.post(f"a/{call}", {**OWN, "idempotency-key": "k"}, attempt_id="at", **body)
    assert (again.status_code, again.content) == (200, done.content)


async def test_a_reserved_settlement_is_final_under_its_attempt(calls: Calls) -> None:
    await calls.running("a")
    reserved = {"attempt_id": "at", "record_id": "r"}
    await calls.done("a/settlement/reserve", **reserved, record=RECORD)
    assert (await calls.post("a/settlement/finalize", OWN, **reserved)).status_code == 200


async def test_a_host_s_attempt_ends_its_joins(calls: Calls) -> None:
    await calls.running("a")
    for name in "bc":
        await calls.admit(name)
    await calls.done("a/joins/claim", attempt_id="at", agent="a")
    for name, call in (("b", "finalize"), ("c", "revert")):
        assert (await calls.post(f"a/joins/{name}/{call}", OWN, attempt_id="at")).status_code == 200
    reserved = {"attempt_id": "at", "record_id": "r"}
    assert (await calls.post("b/settlement/reserve", OWN, **reserved, record=RECORD)).status_code == 200
    final = await calls.post("b/settlement/finalize", {"submission-attempt": "b;at"}, **reserved)
    assert final.status_code == 200, final.text


async def test_one_submission_is_settled_under_the_attempt_of_another(calls: Calls) -> None:
    await calls.running("a")
    await calls.running("other", session="t")
    assert (await calls.post("other/complete", OWN, attempt_id="at")).status_code == 200
    await calls.done("a/complete", attempt_id="at")
    await calls.running("third", session="t")
    refused = await calls.post("third/complete", OWN, attempt_id="at")
    assert problem(refused) == (409, "stale_attempt")
    assert (refused.json()["submission_id"], refused.json()["attempt_id"]) == ("a", None)
    assert (await calls.shown("third"))["status"] == "running"


async def test_a_batch_settles_the_submission_that_it_is_fenced_by(calls: Calls, client: httpx.AsyncClient) -> None:
    await calls.running("a")
    await calls.admit("b")
    operations = [
        {"method": "PUT", "path": "/v1/workflows/w", "body": {"name": "n"}},
        {"method": "POST", "path": "/v1/submissions/a/complete", "body": {"attempt_id": "at"}},
        {"method": "POST", "path": "/v1/submissions/abort-session", "body": {"session_key": "s"}},
    ]
    answer = await client.post("/v1/batch", json={"operations": operations}, headers=OWN)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert results[1]["body"]["status"] == "settled"
    assert results[2]["body"] == {"submission_ids": ["b"]}
    stale = await client.post("/v1/batch", json={"operations": operations[:1]}, headers=OWN)
    assert problem(stale) == (409, "stale_attempt")


async def test_a_batch_is_replayed_with_its_records(calls: Calls, client: httpx.AsyncClient) -> None:
    await calls.running("a")
    body = {"attempt_id": "at", "record_id": "r", "record": RECORD}
    operation = {"method": "POST", "path": "/v1/submissions/a/settlement/reserve", "body": body}
    first, again = [
        await client.post("/v1/batch", json={"operations": [operation]}, headers={"idempotency-key": "k"})
        for _ in range(2)
    ]
    assert first.json()["results"][0]["body"]["record"] == RECORD
    assert again.headers["idempotency-replayed"] == "true"
    assert again.content == first.content


async def test_many_that_settle_under_their_attempt_do_not_lock_each_other_out(
    calls: Calls, client: httpx.AsyncClient, service: Service
) -> None:
    connection = await asyncpg.connect(service.ground.database.url)
    before = await deadlocks(connection)
    for turn in range(5):
        name = f"x{turn}"
        await calls.running(name)
        own = {"submission-attempt": f"{name};at"}
        answers = await gather(
            *(calls.post(f"{name}/complete", own, attempt_id="at") for _ in range(6)),
            *(calls.post(f"{name}/fail", attempt_id="at", error="x") for _ in range(3)),
            *(calls.post("abort-session", session_key="s") for _ in range(2)),
            *(client.put(f"/v1/workflows/w{turn}{n}", json={}, headers=own) for n in range(6)),
        )
        assert [answer.status_code for answer in answers[:9]].count(200) == 1
        assert {answer.status_code for answer in answers} <= {200, 201, 409}
    assert await deadlocks(connection) == before
    await connection.close()


async def deadlocks(connection: asyncpg.Connection) -> int:
    """How often the database has ended a transaction that others waited for in a circle."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    found: int = await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return found
