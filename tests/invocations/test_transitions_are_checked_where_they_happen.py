"""Who comes second meets the state that the first left, and `If-Match` holds for every change."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import asyncpg
import httpx
import pytest

from tests.conftest import Make
from tests.payloads import codes, problem
from tests.waiting import eventually

END = {"status": "completed", "metadata": {"a": 1}}


async def under_way(client: httpx.AsyncClient, service: Any, path: str, body: dict[str, Any]) -> list[httpx.Response]:
    """Six equal calls that all saw the row as it was before any of them: it is held until each waits for it."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM invocations WHERE tenant_id = $1 AND id = 'inv' FOR UPDATE",
                client.headers["x-test-tenant"],
            )
            calls = gather(*(client.post(path, json=body) for _ in range(6)))
            await eventually(lambda: all_wait(connection, 6), "the wait of every call for the row")
        return list(await calls)
    finally:
        await connection.close()


async def all_wait(connection: asyncpg.Connection, sessions: int) -> bool:
    """Whether so many sessions of this database wait for a lock."""
    # Inside a transaction what was seen of the sessions is kept, until it is thrown away.
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    return sessions <= await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )


@pytest.mark.parametrize(
    ("status", "action", "body"),
    [
        ("queued", "start", {}),
        ("queued", "start", {"started_at": "2026-01-05T10:00:00Z"}),
        ("queued", "cancel", {}),
        ("running", "cancel", {}),
        ("running", "cancel", {"force": True}),
        ("running", "end", END),
    ],
)
async def test_equal_transitions_at_once_all_succeed(
    client: httpx.AsyncClient, make: Make, service: Any, status: str, action: str, body: dict[str, Any]
) -> None:
    await make.invocation(id="inv", status=status)
    answers = await under_way(client, service, f"/v1/invocations/inv/{action}", body)
    assert codes(answers) == [200] * 6, {answer.text for answer in answers}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["etag"] for answer in answers} == {'"2"'}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/start", {}),
        ("POST", "/heartbeat", None),
        ("POST", "/cancel", {}),
        ("POST", "/cancel", {"force": True}),
        ("PATCH", "", {}),
        ("PATCH", "", {"feedback": "f"}),
        ("POST", "/end", END),
    ],
)
async def test_a_change_under_another_revision_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, make: Make, method: str, path: str, body: dict[str, Any] | None
) -> None:
    status = "queued" if path == "/start" else "running"
    made = await make.invocation(id="inv", status=status)
    refused = await client.request(method, f"/v1/invocations/inv{path}", json=body, headers={"if-match": '"7"'})
    assert problem(refused) == (412, "precondition_failed")
    assert refused.json()["current_etag"] == '"1"'
    found = await client.get("/v1/invocations/inv?include=")
    assert (found.json(), found.headers["etag"]) == (made, '"1"')
    changed = await client.request(method, f"/v1/invocations/inv{path}", json=body, headers={"if-match": '"1"'})
    assert changed.status_code == 200


async def test_an_end_is_repeated_under_the_etag_it_was_sent_with(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="inv")
    answers = [await client.post("/v1/invocations/inv/end", json=END, headers={"if-match": '"1"'}) for _ in range(2)]
    assert codes(answers) == [200, 200]
    assert answers[0].content == answers[1].content


async def test_an_end_is_never_before_the_start(client: httpx.AsyncClient, make: Make) -> None:
    ahead = "2099-01-01T00:00:00.000000Z"
    for action, body in (("end", END), ("cancel", {"force": True})):
        made = await make.invocation(started_at=ahead)
        ended = await client.post(f"/v1/invocations/{made['id']}/{action}", json=body)
        assert (ended.json()["started_at"], ended.json()["ended_at"]) == (ahead, ahead)


async def test_an_invocation_is_not_its_own_parent(client: httpx.AsyncClient, make: Make) -> None:
    made = await make.invocation(id="inv")
    for answer in (
        await client.patch("/v1/invocations/inv", json={"parent_invocation_id": "inv"}),
        await client.post(
            "/v1/invocations", json={"id": "i", "version_id": made["version_id"], "parent_invocation_id": "i"}
        ),
    ):
        assert problem(answer) == (422, "invalid_input")
        assert answer.json()["errors"][0]["pointer"] == "/parent_invocation_id"


async def test_a_dataset_record_that_is_not_there_is_named(client: httpx.AsyncClient, make: Make) -> None:
    made = await make.invocation(id="inv")
    for answer in (
        await client.patch("/v1/invocations/inv", json={"dataset_record_id": "none"}),
        await client.post("/v1/invocations", json={"version_id": made["version_id"], "dataset_record_id": "none"}),
    ):
        assert problem(answer) == (404, "dataset_record_not_found")
        assert answer.json()["missing_ids"] == ["none"]


async def test_an_empty_change_under_a_key_is_kept_as_any_other(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="inv")
    key = {"idempotency-key": "k"}
    first = await client.patch("/v1/invocations/inv", json={}, headers=key)
    again = await client.patch("/v1/invocations/inv", json={}, headers=key)
    assert (first.headers["etag"], again.headers["idempotency-replayed"]) == ('"1"', "true")
    other = await client.patch("/v1/invocations/inv", json={"feedback": "f"}, headers=key)
    assert problem(other) == (422, "idempotency_key_reused")
