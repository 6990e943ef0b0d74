"""An expired context is not there, whoever looks, and is cleared away."""

from __future__ import annotations

import asyncpg
import httpx

from app.contexts.jobs import purge_expired
from app.http.service import Service
from tests.contexts.contexts import at, get, keys, post, put, told
from tests.payloads import problem

FUTURE = "2100-01-01T00:00:00Z"
PAST = "2020-01-01T00:00:00Z"


async def lapse(service: Service, client: httpx.AsyncClient, key: str = "k") -> None:
    """Let the time of a context pass."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        changed = await connection.execute(
            "UPDATE contexts SET expires_at = clock_timestamp() - interval '1 s' WHERE tenant_id = $1 AND key = $2",
            client.headers["x-test-tenant"], key,
        )  # fmt: skip
        assert changed == "UPDATE 1"
    finally:
        await connection.close()


async def stored(service: Service, client: httpx.AsyncClient) -> list[str]:
    """The keys whose rows are there."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        rows = await connection.fetch(
            "SELECT key FROM contexts WHERE tenant_id = $1 ORDER BY key", client.headers["x-test-tenant"]
        )
        return [row["key"] for row in rows]
    finally:
        await connection.close()


async def test_until_then_it_is_there_and_says_when(service: Service, client: httpx.AsyncClient) -> None:
    shown = (await put(client, expires_at=FUTURE)).json()
    assert shown["expires_at"] == "2100-01-01T00:00:00.000000Z"
    assert told(await get(client))["expires-at"] == shown["expires_at"]
    assert "context-expires-at" not in (await get(client, key="forever")).headers
    await purge_expired(service.ground.database, 100)
    assert await keys(client) == ["k"]


async def test_afterwards_it_is_gone_for_every_call(service: Service, client: httpx.AsyncClient) -> None:
    tag = (await put(client, expires_at=FUTURE)).headers["etag"]
    await put(client, "kept")
    await lapse(service, client)
    for method in ("GET", "HEAD"):
        assert (await get(client, method=method)).status_code == 404
    assert await keys(client) == ["kept"]
    assert (await client.get("/v1/invocations/i/contexts?count=exact")).json()["total"] == 1
    assert problem(await client.delete(at("k"))) == (404, "context_not_found")
    for precondition in ("*", tag):
        assert (await put(client, headers={"if-match": precondition})).status_code == 412
    source = {"scope": "workflow", "key": "k"}
    for call in ("copy", "move"):
        assert problem(await post(client, call, source=source, target={"key": "t"})) == (404, "context_not_found")
    assert (await post(client, "clear", pattern="k")).json() == {"deleted": 0}


async def test_its_place_is_free(service: Service, client: httpx.AsyncClient) -> None:
    first = await put(client, expires_at=FUTURE)
    await lapse(service, client)
    again = await put(client, headers={"if-none-match": "*"})
    assert again.status_code == 201
    assert again.headers["etag"] != first.headers["etag"]
    assert again.json()["created_at"] > first.json()["created_at"]
    assert (await put(client, headers={"if-none-match": "*"})).status_code == 412
    await put(client, "other", b"other")
    await put(client, expires_at=FUTURE)
    await lapse(service, client)
    moved = await post(client, "move", source={"scope": "workflow", "key": "other"}, target={"key": "k"})
    assert (moved.status_code, moved.json()["expires_at"]) == (201, None)
    assert (await get(client)).content == b"other"


async def test_what_is_stored_with_a_time_that_has_passed_is_gone_at_once(client: httpx.AsyncClient) -> None:
    assert (await put(client)).status_code == 201
    assert (await put(client, expires_at=PAST)).status_code == 200
    assert (await get(client)).status_code == 404


async def test_the_job_clears_away_what_has_expired_and_nothing_else(
    service: Service, client: httpx.AsyncClient
) -> None:
    for key in ("a", "b", "c"):
        await put(client, key, expires_at=FUTURE)
    for key in ("a", "c"):
        await lapse(service, client, key)
    assert await stored(service, client) == ["a", "b", "c"]
    # What is written anew before the job comes is not taken.
    await put(client, "c")
    while await purge_expired(service.ground.database, 1):
        pass
    assert await stored(service, client) == ["b", "c"]
    assert await keys(client) == ["b", "c"]
