"""B08: an Idempotency-Key stands for one effect, whoever races under it, and only for the request it came with."""

from __future__ import annotations

import asyncio
import time
from asyncio import gather
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make, new_tenant, running, settings_for
from tests.waiting import eventually

WAIT_SECONDS = 2.0
KEY = {"idempotency-key": "k"}
# A call of each way in which calls are carried out, the list that shows what it makes, and how much that is.
CALLS: dict[str, tuple[str, Any, str, int]] = {
    "one statement": ("/v1/workflows", {"name": "n"}, "/v1/workflows", 1),
    "a transaction": ("/v1/workflows/w/versions", {"dsl": 1, "nodes": [{"node_id": "n"}]}, "/v1/versions", 1),
    "a batch": (
        "/v1/batch",
        {"operations": [{"method": "POST", "path": "/v1/workflows", "body": {"name": "n"}}] * 2},
        "/v1/workflows",
        2,
    ),
}


@pytest.fixture
async def fresh(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A service whose first request goes on waiting for its row while the twin is told."""
    async with running(settings_for(await clone(), database={"lock_seconds": 20})) as started:
        yield started


@pytest.fixture
async def make_fresh(fresh: Service) -> AsyncIterator[Make]:
    """Factories on the database of this test alone."""
    async with await new_tenant(fresh) as client:
        yield Make(client)


async def total(client: httpx.AsyncClient, path: str) -> int:
    """How many rows a list has."""
    found: int = (await client.get(path, params={"count": "exact"})).json()["total"]
    return found


@pytest.mark.parametrize("how", CALLS)
async def test_b08_fifty_parallel_requests_under_one_key_have_one_effect(
    client: httpx.AsyncClient, make: Make, how: str
) -> None:
    await make.workflow(id="w")
    path, body, shown, made = CALLS[how]
    before = await total(client, shown)
    answers = await gather(*(client.post(path, json=body, headers=KEY) for _ in range(50)))
    done = [answer for answer in answers if answer.is_success]
    assert {answer.json()["code"] for answer in answers if answer not in done} <= {"idempotency_in_progress"}
    assert len({(answer.status_code, answer.content) for answer in done}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in done].count(None) == 1
    assert await total(client, shown) == before + made


async def test_b08_a_key_belongs_to_its_request(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w", name="n")
    first = await client.patch("/v1/workflows/w", json={"name": "m"}, headers=KEY)
    assert first.status_code == 200
    for method, path, content in (
        ("PATCH", "/v1/workflows/w", b'{"name":"o"}'),
        ("PATCH", "/v1/workflows/w", b'{"name": "m"}'),
        ("PUT", "/v1/workflows/w", b'{"name":"m"}'),
        ("PATCH", "/v1/workflows/x", b'{"name":"m"}'),
        ("POST", "/v1/workflows?x=1", b'{"name":"m"}'),
        ("DELETE", "/v1/workflows/w", b""),
    ):
        answer = await client.request(method, path, content=content, headers=KEY)
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("idempotency_key_reused", "invalid_input")
    again = await client.patch("/v1/workflows/w", content=first.request.content, headers=KEY)
    assert (again.status_code, again.content, again.headers["etag"]) == (200, first.content, first.headers["etag"])
    assert again.headers["idempotency-replayed"] == "true"
    assert (await client.get("/v1/workflows/w")).json()["name"] == "m"


async def test_b08_a_refusal_is_not_kept(client: httpx.AsyncClient, make: Make) -> None:
    sent = {"version_id": "v", "id": "i"}
    refused = await client.post("/v1/invocations", json=sent, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (404, "version_not_found")
    await make.version(id="v")
    made = await client.post("/v1/invocations", json=sent, headers=KEY)
    assert (made.status_code, "idempotency-replayed" in made.headers) == (201, False)


async def test_b08_a_replay_is_the_first_answer_whatever_happened_since(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/workflows", json={"id": "w", "name": "a"}, headers=KEY)
    await client.patch("/v1/workflows/w", json={"name": "b"})
    await client.delete("/v1/workflows/w")
    again = await client.post("/v1/workflows", json={"id": "w", "name": "a"}, headers=KEY)
    assert (again.status_code, again.content) == (made.status_code, made.content) == (201, made.content)
    assert (await client.get("/v1/workflows/w")).status_code == 404


@asynccontextmanager
async def row_held(service: Service, client: httpx.AsyncClient) -> AsyncIterator[asyncpg.Connection]:
    """The workflow `w`, locked by somebody else for as long as the block runs."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM workflows WHERE tenant_id = $1 AND id = 'w' FOR UPDATE", client.headers["x-test-tenant"]
            )
            yield connection
    finally:
        await connection.close()


async def waits(connection: asyncpg.Connection) -> None:
    """Return once a session waits for the row."""

    async def seen() -> bool:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        found: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE '%workflows%'"
            " AND datname = current_database())"
        )
        return found

    await eventually(seen, "the wait of the first request")


async def test_b08_a_twin_is_told_after_two_seconds_that_the_first_still_runs(fresh: Service, make_fresh: Make) -> None:
    client = make_fresh.client
    await make_fresh.workflow(id="w")
    async with row_held(fresh, client) as connection:
        first = asyncio.create_task(client.patch("/v1/workflows/w", json={"name": "m"}, headers=KEY))
        await waits(connection)
        started = time.monotonic()
        twin = await client.patch("/v1/workflows/w", json={"name": "m"}, headers=KEY)
        waited = time.monotonic() - started
    assert (twin.status_code, twin.json()["code"]) == (409, "idempotency_in_progress")
    assert WAIT_SECONDS * 0.5 < waited < WAIT_SECONDS + 1.5
    assert (await first).status_code == 200


async def test_b08_a_twin_replays_when_the_first_ends_in_time(fresh: Service, make_fresh: Make) -> None:
    client = make_fresh.client
    await make_fresh.workflow(id="w")
    async with row_held(fresh, client) as connection:
        first = asyncio.create_task(client.patch("/v1/workflows/w", json={"name": "m"}, headers=KEY))
        await waits(connection)
        twin = asyncio.create_task(client.patch("/v1/workflows/w", json={"name": "m"}, headers=KEY))
        await asyncio.wait({twin}, timeout=0.1)
        assert not twin.done()
    answers = [await first, await twin]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true"]
    assert (await client.get("/v1/workflows/w")).headers["etag"] == '"2"'
