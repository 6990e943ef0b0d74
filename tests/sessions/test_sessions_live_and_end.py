"""Sessions: created once, changed while they are open, and expired without anybody writing it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem

PAST, FUTURE = "2020-01-01T00:00:00.000001Z", "2999-01-01T00:00:00.000000Z"


@pytest.fixture
async def session(make: Make) -> dict[str, Any]:
    return await make.created("/v1/sessions", id="s", owner_id="ann", metadata={"a": 1}, expires_at=FUTURE)


async def test_every_field_comes_back_and_changes(client: httpx.AsyncClient, session: dict[str, Any]) -> None:
    assert {name: session[name] for name in ("id", "owner_id", "status", "metadata", "expires_at")} == {
        "id": "s", "owner_id": "ann", "status": "active", "metadata": {"a": 1}, "expires_at": FUTURE,
    }  # fmt: skip
    for fields in ({"status": "suspended"}, {"status": "active"}, {"owner_id": None}, {"metadata": {}},
                   {"expires_at": None}):  # fmt: skip
        changed = await client.patch("/v1/sessions/s", json=fields)
        assert changed.status_code == 200, changed.text
        assert {name: changed.json()[name] for name in fields} == fields
    for fields in ({"status": None}, {"status": "expired"}, {"status": "other"}, {"expires_at": "2020-01-01T00:00:00"}):
        assert problem(await client.patch("/v1/sessions/s", json=fields)) == (422, "invalid_input")


@pytest.mark.parametrize("status", ["completed", "crashed"])
async def test_what_has_ended_may_only_be_archived(
    client: httpx.AsyncClient, session: dict[str, Any], status: str
) -> None:
    assert (await client.patch("/v1/sessions/s", json={"status": status})).json()["status"] == status
    for fields in ({"status": "active"}, {"status": "suspended"}, {"expires_at": FUTURE}):
        refused = await client.patch("/v1/sessions/s", json=fields)
        assert (problem(refused), refused.json()["current_status"]) == ((409, "session_ended"), status)
    assert (await client.patch("/v1/sessions/s", json={"status": status, "metadata": {"b": 2}})).status_code == 200
    archived = await client.patch("/v1/sessions/s", json={"status": "archived"})
    assert (archived.json()["status"], archived.json()["metadata"]) == ("archived", {"b": 2})
    refused = await client.patch("/v1/sessions/s", json={"status": status})
    assert refused.json()["current_status"] == "archived"


async def test_an_open_session_expires_by_itself(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/sessions", id="old", expires_at=PAST)
    await make.created("/v1/sessions", id="done", expires_at=PAST, status="completed")
    await make.created("/v1/sessions", id="s", expires_at=FUTURE)
    found = await client.get("/v1/sessions/old")
    assert (found.json()["status"], found.headers["etag"]) == ("expired", '"1"')
    for fields in ({"status": "active"}, {"status": "completed"}, {"expires_at": FUTURE}):
        refused = await client.patch("/v1/sessions/old", json=fields)
        assert (problem(refused), refused.json()["current_status"]) == ((409, "session_ended"), "expired")
    assert (await client.patch("/v1/sessions/old", json={"metadata": {"b": 2}})).json()["status"] == "expired"
    assert (await client.patch("/v1/sessions/s", json={"expires_at": PAST})).json()["status"] == "expired"

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await client.get(f"/v1/sessions?order=asc&{query}")).json()["items"]]

    assert await ids("status=expired") == ["old", "s"]
    assert await ids("status=active&status=completed") == ["done"]
    assert await ids(f"expires_before={FUTURE}&sort=expires_at") == ["done", "old", "s"]
    assert await ids(f"expires_after={FUTURE}") == []
    assert (await client.patch("/v1/sessions/old", json={"status": "archived"})).json()["status"] == "archived"


async def test_sessions_are_found_by_owner_and_time(client: httpx.AsyncClient, make: Make) -> None:
    first = await make.created("/v1/sessions", id="a", owner_id="ann")
    await make.created("/v1/sessions", id="b", owner_id="bob")
    for query, wanted in (
        ("owner_id=bob", ["b"]),
        (f"created_after={first['created_at']}", ["b", "a"]),
        (f"created_before={first['created_at']}", []),
    ):
        assert [item["id"] for item in (await client.get(f"/v1/sessions?{query}")).json()["items"]] == wanted


async def test_invocations_may_name_any_session_and_outlive_it(
    client: httpx.AsyncClient, make: Make, session: dict[str, Any]
) -> None:
    version = await make.version()
    for name in ("s", "recorded elsewhere"):
        await make.invocation(version_id=version["id"], session_id=name)
    assert (await client.delete("/v1/sessions/s")).status_code == 204
    assert problem(await client.delete("/v1/sessions/s")) == (404, "session_not_found")
    assert problem(await client.get("/v1/sessions/s")) == (404, "session_not_found")
    assert problem(await client.patch("/v1/sessions/s", json={})) == (404, "session_not_found")
    assert len((await client.get("/v1/invocations?session_id=s")).json()["items"]) == 1


async def test_the_start_and_the_end_of_a_session_are_told_once(
    client: httpx.AsyncClient, service: Service, session: dict[str, Any]
) -> None:
    for status in ("suspended", "active", "completed", "archived"):
        await client.patch("/v1/sessions/s", json={"status": status})
    await client.post("/v1/sessions", json={"id": "imported", "status": "archived"})
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events")).json()["items"]
    assert [(event["type"], event["data"]["status"]) for event in events] == [
        ("session.started", "active"),
        ("session.ended", "completed"),
    ]
