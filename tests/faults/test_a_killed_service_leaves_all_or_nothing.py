"""Acceptance 3: kill -9 of the API at every statement of a write, at its commit, and between commit and answer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from tests.api_process import ApiProcess
from tests.conftest import ADMIN_KEY
from tests.digests import digests
from tests.faults.holding import COMMIT, holding, prepare, until_gone, until_held
from tests.waiting import eventually

TENANT = "acme"
STATEMENTS_MAX = 30
OPERATOR = {"authorization": f"Bearer {ADMIN_KEY}"}
HEADERS = {**OPERATOR, "x-tenant-id": TENANT}


def record(name: str) -> dict[str, Any]:
    """A batch that writes a whole record."""
    operations = [
        ("PUT", f"/v1/workflows/{name}", {"name": name}),
        ("POST", f"/v1/workflows/{name}/versions", {"id": name, "dsl": {"n": name}, "nodes": [{"node_id": "plan"}]}),
        ("POST", "/v1/invocations", {"id": name, "version_id": name, "input": {"q": 1}}),
        ("POST", f"/v1/invocations/{name}/nodes", {"id": "n1", "node_id": "plan"}),
        ("POST", f"/v1/invocations/{name}/messages", {"items": [{"id": "m1", "role": "x"}, {"id": "m2", "role": "y"}]}),
        ("POST", f"/v1/invocations/{name}/end", {"status": "completed"}),
    ]
    return {"operations": [{"method": method, "path": path, "body": body} for method, path, body in operations]}


class Harness:
    """A database with held statements, and the API that is killed there and started again."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self.url, self.connection = url, connection
        self.process = self.start()

    def start(self) -> ApiProcess:
        return ApiProcess(self.url, database__lock_seconds=60, database__statement_seconds=120)

    async def send(self, path: str, body: dict[str, Any], key: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.process.url, headers=HEADERS, timeout=60) as client:
            return await client.post(path, json=body, headers={"idempotency-key": key})

    async def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)

    async def restart(self) -> None:
        self.process.close()
        self.process = await asyncio.to_thread(self.start)

    async def counts(self) -> dict[str, int]:
        found = await digests(self.connection, TENANT)
        return {table: int(text.split()[0]) for table, text in found.items()}

    async def grown(self, before: dict[str, int]) -> dict[str, int]:
        return {
            table: count - before[table] for table, count in (await self.counts()).items() if count != before[table]
        }


@pytest.fixture
async def harness(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Harness]:
    url = await clone()
    connection = await asyncpg.connect(url)
    await prepare(connection)
    made = Harness(url, connection)
    try:
        async with httpx.AsyncClient(base_url=made.process.url, headers=OPERATOR) as client:
            answer = await client.put(f"/v1/tenants/{TENANT}", json={})
            assert answer.status_code == 201, answer.text
        yield made
    finally:
        made.process.close()
        await connection.close()


@pytest.mark.timeout(300)
async def test_killed_at_any_statement_of_a_batch_nothing_is_there_and_a_retry_has_the_effect_once(
    harness: Harness,
) -> None:
    before = await harness.counts()
    assert (await harness.send("/v1/batch", record("r0"), "k0")).status_code == 200
    whole = await harness.grown(before)
    for number in range(1, STATEMENTS_MAX):
        name, key = f"r{number}", f"k{number}"
        stood, before = await digests(harness.connection, TENANT), await harness.counts()
        async with holding(harness.connection, number):
            request = asyncio.create_task(harness.send("/v1/batch", record(name), key))
            backend = await until_held(harness.connection, request)
            if backend is None:
                assert (await request).status_code == 200
                break
            await harness.kill()
            with pytest.raises(httpx.TransportError):
                await request
        await until_gone(harness.connection, backend)
        assert await digests(harness.connection, TENANT) == stood, f"statement {number} left something behind"
        await harness.restart()
        first = await harness.send("/v1/batch", record(name), key)
        again = await harness.send("/v1/batch", record(name), key)
        assert (first.status_code, "idempotency-replayed" in first.headers) == (200, False), first.text
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.content == first.content
        assert await harness.grown(before) == whole
    else:
        raise AssertionError("the batch has more statements than the test holds")
    assert number > len(record("")["operations"]), "each operation has a statement of its own, and the kept answer too"


@pytest.mark.parametrize("path", ["/v1/batch", "/v1/workflows"])
async def test_killed_at_the_commit_or_between_commit_and_answer_a_retry_replays_the_one_effect(
    harness: Harness, path: str
) -> None:
    before = await harness.counts()
    body: dict[str, Any] = record("r") if path == "/v1/batch" else {"id": "r", "name": "n"}
    async with holding(harness.connection, COMMIT):
        request = asyncio.create_task(harness.send(path, body, "k"))
        backend = await until_held(harness.connection, request)
        assert backend is not None
        # Stopped, the API cannot see that its commit happens now; killed, it never tells anyone.
        harness.process.send(signal.SIGSTOP)
    await eventually(lambda: harness.grown(before), "the commit")
    await harness.kill()
    with pytest.raises(httpx.TransportError):
        await request
    whole = await harness.grown(before)
    await harness.restart()
    replayed = await harness.send(path, body, "k")
    assert (replayed.status_code, replayed.headers["idempotency-replayed"]) == (
        200 if path == "/v1/batch" else 201,
        "true",
    )
    assert await harness.grown(before) == whole
    assert whole["idempotency_keys"] == 1


async def test_a_single_statement_whose_service_is_killed_happens_whole_or_not_and_once(harness: Harness) -> None:
    assert (await harness.send("/v1/batch", record("r"), "first")).status_code == 200
    before = await harness.counts()
    body = {"items": [{"id": f"m{number}", "role": "x", "payload": number} for number in range(50, 60)]}
    path = "/v1/invocations/r/messages"
    async with holding(harness.connection, 1):
        request = asyncio.create_task(harness.send(path, body, "k"))
        backend = await until_held(harness.connection, request)
        assert backend is not None
        await harness.kill()
        with pytest.raises(httpx.TransportError):
            await request
    await until_gone(harness.connection, backend)
    assert await harness.grown(before) in ({}, {"idempotency_keys": 1, "messages": 10})
    await harness.restart()
    assert (await harness.send(path, body, "k")).status_code == 201
    assert await harness.grown(before) == {"idempotency_keys": 1, "messages": 10}
