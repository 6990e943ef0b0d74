"""A running submission takes in what queues behind it; they share its fate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from tests.payloads import send
from tests.statements import one_connection, sent_by
from tests.submissions.calls import Calls


@pytest.fixture
def calls(client: httpx.AsyncClient) -> Calls:
    return Calls(client)


async def joined(calls: Calls, host: str = "h", attempt_id: str = "at") -> list[str]:
    """The ids that join the host by one claim."""
    answer = await calls.done(f"{host}/joins/claim", attempt_id=attempt_id, agent="a")
    return [item["id"] for item in answer["items"]]


async def listed(calls: Calls, host: str = "h") -> list[tuple[str, str]]:
    """What joins or has joined the host."""
    answer = await calls.client.get(f"/v1/submissions/{host}/joins")
    return [(item["id"], item["status"]) for item in answer.json()["items"]]


async def test_the_front_of_the_queue_joins_in_order(calls: Calls, client: httpx.AsyncClient) -> None:
    await calls.running("h")
    await calls.admit("c", kind="dispatch", input=[1.5])
    await calls.admit("b")
    await calls.admit("other", session="t")
    claim = {"attempt_id": "at", "agent": "a"}
    first, replay = [await calls.post("h/joins/claim", {"idempotency-key": "k"}, **claim) for _ in range(2)]
    assert replay.headers["idempotency-replayed"] == "true"
    assert replay.content == first.content
    items = first.json()["items"]
    assert [(item["id"], item["status"], item["joined_into"]) for item in items] == [
        ("c", "joining", "h"), ("b", "joining", "h"),
    ]  # fmt: skip
    assert items[0]["input"] == [1.5]
    assert await joined(calls) == []
    assert await listed(calls) == [("c", "joining"), ("b", "joining")]
    assert "input" not in (await client.get("/v1/submissions/h/joins")).json()["items"][0]
    shown = (await client.get("/v1/submissions/h/joins?include=input&limit=1")).json()
    assert (shown["items"][0]["input"], shown["next_cursor"] is None) == ([1.5], False)
    assert (await client.get("/v1/submissions/unknown/joins")).status_code == 404


@pytest.mark.parametrize("stops", [{"ready": False}, {"agent": "b"}, {"not_before": "2090-01-01T00:00:00Z"}])
async def test_the_first_that_may_not_join_stops_those_behind_it(calls: Calls, stops: dict[str, Any]) -> None:
    await calls.running("h")
    await calls.admit("b")
    await calls.admit("c", **stops)
    await calls.admit("d")
    assert await joined(calls) == ["b"]
    assert (await calls.shown("d"))["status"] == "queued"


async def test_what_is_asked_to_stop_does_not_join(calls: Calls) -> None:
    await calls.running("h")
    await calls.admit("b")
    await calls.done("abort-session", session_key="s")
    await calls.admit("c")
    assert await joined(calls) == []


async def test_only_the_owner_of_a_running_host_claims(calls: Calls) -> None:
    await calls.running("h")
    await calls.admit("b")
    claim = {"attempt_id": "x", "agent": "a"}
    assert await calls.refused("h/joins/claim", **claim) == (409, "stale_attempt", "running")
    assert await calls.refused("b/joins/claim", **claim) == (409, "stale_attempt", "queued")
    await calls.done("h/complete", attempt_id="at")
    assert await calls.refused("h/joins/claim", **{**claim, "attempt_id": "at"}) == (409, "already_settled", "settled")
    assert (await calls.refused("unknown/joins/claim", **claim))[0] == 404
    assert (await calls.shown("b"))["status"] == "queued"


async def test_a_joining_submission_is_finalized_once_or_given_back(calls: Calls) -> None:
    await calls.running("h")
    for name in "bc":
        await calls.admit(name)
    await joined(calls)
    for call in ("finalize", "revert"):
        assert await calls.refused(f"h/joins/b/{call}", attempt_id="x") == (409, "stale_attempt", "running")
        assert (await calls.refused(f"h/joins/unknown/{call}", attempt_id="at"))[:2] == (404, "submission_not_found")
        assert (await calls.refused(f"unknown/joins/b/{call}", attempt_id="at"))[:2] == (404, "submission_not_found")
        assert await calls.refused(f"h/joins/h/{call}", attempt_id="at") == (409, "not_joining", "running")
    final = await calls.done("h/joins/b/finalize", attempt_id="at")
    assert (final["status"], final["joined_into"]) == ("joined", "h")
    assert final["input_applied_at"] is not None
    back = await calls.done("h/joins/c/revert", attempt_id="at")
    assert (back["status"], back["joined_into"], back["input_applied_at"]) == ("queued", None, None)
    for name, status in (("b", "joined"), ("c", "queued")):
        for call in ("finalize", "revert"):
            assert await calls.refused(f"h/joins/{name}/{call}", attempt_id="at") == (409, "not_joining", status)
    assert await listed(calls) == [("b", "joined")]
    assert await joined(calls) == ["c"]


@pytest.mark.parametrize("way", ["complete", "fail", "finalize"])
async def test_what_joined_is_settled_with_its_host_and_what_was_joining_goes_back(calls: Calls, way: str) -> None:
    await calls.running("h")
    for name in "bcd":
        await calls.admit(name)
    await joined(calls)
    await calls.done("h/joins/b/finalize", attempt_id="at")
    assert (await calls.refused("d/claim", attempt_id="x", owner_id="o", lease_seconds=1))[1] == "already_joined"
    if way == "complete":
        await calls.done("h/complete", attempt_id="at")
    elif way == "fail":
        await calls.done("h/fail", attempt_id="at", error="With its host.")
    else:
        record = {"id": "r", "outcome": "failed", "error": {"message": "With its host."}}
        await calls.done("h/settlement/reserve", attempt_id="at", record_id="r", record=record)
        await calls.done("h/settlement/finalize", attempt_id="at", record_id="r")
    b, c, d = [await calls.shown(name) for name in "bcd"]
    assert (b["status"], b["outcome"], b["error"], b["joined_into"]) == (
        ("settled", "completed", None, "h") if way == "complete" else ("settled", "failed", "With its host.", "h")
    )
    assert b["settled_at"] is not None
    assert [(shown["status"], shown["joined_into"], shown["input_applied_at"]) for shown in (c, d)] == [
        ("queued", None, None)
    ] * 2
    assert await listed(calls) == []
    await calls.claim("c")


async def test_the_settlement_of_what_joined_is_reserved_under_the_host_s_attempt(calls: Calls) -> None:
    await calls.running("h")
    for name in "bc":
        await calls.admit(name)
    await joined(calls)
    given = {"attempt_id": "at", "record_id": "r", "record": {"id": "r", "outcome": "completed"}}
    assert await calls.refused("b/settlement/reserve", **given) == (409, "stale_attempt", "joining")
    await calls.done("h/joins/b/finalize", attempt_id="at")
    stale = {**given, "attempt_id": "x"}
    assert await calls.refused("b/settlement/reserve", **stale) == (409, "stale_attempt", "running")
    obligation = await calls.done("b/settlement/reserve", **given)
    assert obligation["attempt_id"] == "at"
    assert (await calls.shown("b"))["status"] == "terminalizing"
    assert (await calls.shown("h"))["status"] == "running"
    assert await calls.done("b/settlement/reserve", **given) == obligation
    await calls.done("h/complete", attempt_id="at")
    assert (await calls.refused("c/claim", attempt_id="x", owner_id="o", lease_seconds=1))[1] == "not_head_of_session"
    settled = await calls.done("b/settlement/finalize", attempt_id="at", record_id="r")
    assert (settled["status"], settled["outcome"], settled["error"]) == ("settled", "completed", None)
    await calls.claim("c")


async def test_what_joined_stays_joined_while_its_host_waits_for_another_attempt(calls: Calls) -> None:
    await calls.running("h")
    for name in "bc":
        await calls.admit(name)
    await joined(calls)
    await calls.done("h/joins/b/finalize", attempt_id="at")
    await calls.done("h/requeue", attempt_id="at")
    assert await listed(calls) == [("b", "joined"), ("c", "joining")]
    assert await calls.refused("h/joins/c/finalize", attempt_id="at") == (409, "stale_attempt", "queued")
    await calls.claim("h", "at2")
    await calls.done("h/joins/c/revert", attempt_id="at2")
    await calls.done("h/complete", attempt_id="at2")
    assert (await calls.shown("b"))["status"] == "settled"


async def test_an_abort_reaches_what_joined(calls: Calls) -> None:
    await calls.running("h")
    for name in "bc":
        await calls.admit(name)
    await joined(calls)
    await calls.done("h/joins/b/finalize", attempt_id="at")
    assert await calls.done("abort-session", session_key="s") == {"submission_ids": ["h", "b", "c"]}
    assert [(await calls.shown(name))["status"] for name in "hbc"] == ["running", "joined", "joining"]


async def test_every_change_of_a_host_s_end_has_its_event(
    calls: Calls, client: httpx.AsyncClient, service: Any
) -> None:
    await calls.running("h", max_attempts=1)
    for name in "bcd":
        await calls.admit(name)
    await joined(calls)
    await calls.done("h/joins/b/finalize", attempt_id="at")
    await calls.done("h/requeue", attempt_id="at", error="Over.")
    rows = await events(service, client)
    assert rows == [
        *[("submission.joining", name) for name in "bcd"], ("submission.joined", "b"), ("submission.settled", "h"),
        ("submission.dead", "h"), ("submission.settled", "b"), ("submission.reverted", "c"),
        ("submission.reverted", "d"),
    ]  # fmt: skip


async def events(service: Any, client: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Type and subject of the tenant's events, but those of admission and claims, as they were written."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        rows = await connection.fetch(
            "SELECT type, subject_id FROM outbox WHERE tenant_id = $1"
            " AND type NOT IN ('submission.admitted', 'submission.claimed') ORDER BY id",
            client.headers["x-test-tenant"],
        )
    finally:
        await connection.close()
    return [(row["type"], row["subject_id"]) for row in rows]


async def test_many_join_in_one_call(calls: Calls, client: httpx.AsyncClient) -> None:
    await calls.running("h")
    body = [
        {"id": f"x{n:03}", "session_key": "s", "kind": "direct", "agent": "a", "instance_id": "i", "input": n}
        for n in range(120)
    ]
    batch = {"operations": [{"method": "POST", "path": "/v1/submissions", "body": one} for one in body]}
    assert (await client.post("/v1/batch", json=batch)).status_code == 200
    assert await joined(calls) == [f"x{n:03}" for n in range(120)]
    assert (await send(client, "POST", "/v1/submissions/h/complete", b'{"attempt_id":"at"}')).status_code == 200
    assert (await calls.shown("x119"))["status"] == "queued"


async def test_twenty_join_and_are_settled_in_one_statement_each(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        calls = Calls(client)
        await calls.running("h")
        for number in range(20):
            await calls.admit(f"x{number}")
        async with sent_by(service) as claimed:
            assert len(await joined(calls)) == 20
        async with sent_by(service) as final:
            await calls.done("h/joins/x0/finalize", attempt_id="at")
        async with sent_by(service) as completed:
            await calls.done("h/complete", attempt_id="at")
    assert (len(claimed), len(final), len(completed)) == (1, 1, 1)
