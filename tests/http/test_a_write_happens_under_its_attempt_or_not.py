"""B11: `Submission-Attempt` on writes of every kind: under the owner they happen, under any other nothing does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.digests import digests
from tests.submissions.calls import Calls, record
from tests.submissions.queue import pass_time, settle

OWNER, LOST = {"submission-attempt": "sub%2F9%3B;att%201"}, {"submission-attempt": "sub%2F9%3B;att%200"}
SUBMISSION, ATTEMPT = "sub/9;", "att 1"
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/workflows/w", {"name": "changed"}),
    ("PUT", "/v1/workflows/new", {"name": "made"}),
    ("POST", "/v1/invocations/i/end", {"status": "completed", "output": 1}),
    ("POST", "/v1/invocations/i/messages", {"items": [{"role": "r", "payload": 1}, {"role": "r", "payload": 2}]}),
    ("POST", "/v1/invocations/i/nodes", {"id": "n1", "node_id": "n"}),
    ("POST", "/v1/invocations/i/checkpoints", {"state": {"step": 1}}),
    ("DELETE", "/v1/workflows/empty", None),
    ("POST", "/v1/batch", {"operations": [
        {"method": "PUT", "path": "/v1/workflows/b", "body": {}},
        {"method": "POST", "path": "/v1/invocations/i/heartbeat"},
    ]}),
]  # fmt: skip


def tenant(client: httpx.AsyncClient) -> str:
    return client.headers["x-test-tenant"]


@pytest.fixture
async def connection(service: Service) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(service.ground.database.url)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
async def arranged(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version((await make.workflow(id="w"))["id"])
    await make.workflow(id="empty")
    await make.invocation(id="i", version_id=version["id"])
    await Calls(client).running(SUBMISSION, ATTEMPT)
    # A lease that has lapsed, and that nobody has taken, still owns.
    await pass_time(service, client, "lease_lapses_at")


def stale(answer: httpx.Response) -> Any:
    """The attempt that owns the submission, as a refusal tells it."""
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_attempt"), answer.text
    assert answer.json()["submission_id"] == SUBMISSION
    return answer.json()["attempt_id"]


@pytest.mark.parametrize("keyed", [{}, {"idempotency-key": "k"}], ids=["plain", "keyed"])
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=lambda value: value if isinstance(value, str) else "")
async def test_b11_a_lost_attempt_writes_nothing_and_the_owner_does(
    method: str,
    path: str,
    body: Any,
    keyed: dict[str, str],
    service: Service,
    client: httpx.AsyncClient,
    connection: asyncpg.Connection,
) -> None:
    stood = await digests(connection, tenant(client))
    assert stale(await client.request(method, path, json=body, headers=LOST | keyed)) == ATTEMPT
    assert await digests(connection, tenant(client)) == stood
    written = await client.request(method, path, json=body, headers=OWNER | keyed)
    assert written.is_success, written.text
    assert await digests(connection, tenant(client)) != stood
    await settle(service, client, SUBMISSION, "running")
    stood = await digests(connection, tenant(client))
    again = await client.request(method, path, json=body, headers=OWNER | keyed)
    if keyed:
        # What was carried out under the attempt is told again after its end.
        assert (again.status_code, again.headers["idempotency-replayed"]) == (written.status_code, "true")
    else:
        assert stale(again) is None
    assert await digests(connection, tenant(client)) == stood


async def test_a_submission_that_is_unknown_another_tenants_or_being_settled_owns_no_write(
    client: httpx.AsyncClient, service: Service
) -> None:
    for header in ("other;att%201", "sub%2F9%3B;"):
        answer = await client.put("/v1/workflows/x", json={}, headers={"submission-attempt": header})
        assert answer.status_code == (409 if header.startswith("other") else 422)
    async with await new_tenant(service) as stranger:
        assert stale(await stranger.put("/v1/workflows/x", json={}, headers=OWNER)) is None
    reserve = f"/v1/submissions/{quote(SUBMISSION, safe='')}/settlement/reserve"
    reservation = {"attempt_id": ATTEMPT, "record_id": "r", "record": record()}
    assert (await client.post(reserve, json=reservation)).status_code == 200
    assert stale(await client.put("/v1/workflows/x", json={}, headers=OWNER)) == ATTEMPT
    assert (await client.get("/v1/workflows/x")).status_code == 404


async def test_what_writes_nothing_ignores_it(client: httpx.AsyncClient) -> None:
    reads = [{"method": "GET", "path": "/v1/workflows/w"}]
    for method, path, body in (
        ("GET", "/v1/workflows/w", None),
        ("POST", "/v1/dataset-records/lookup", {"ids": ["none"], "allow_missing": True}),
        ("POST", "/v1/batch", {"operations": reads}),
    ):
        answer = await client.request(method, path, json=body, headers=LOST)
        assert answer.status_code == 200, answer.text
    malformed = await client.post(
        "/v1/dataset-records/lookup", json={"ids": ["x"]}, headers={"submission-attempt": "0"}
    )
    assert (malformed.status_code, malformed.json()["code"]) == (422, "invalid_input")
    keyed = await client.post("/v1/batch", json={"operations": reads}, headers=LOST | {"idempotency-key": "k"})
    assert keyed.status_code == 200


async def test_an_operation_of_a_batch_may_name_an_attempt_of_its_own(client: httpx.AsyncClient) -> None:
    def operation(workflow_id: str, headers: dict[str, str]) -> dict[str, Any]:
        return {"method": "PUT", "path": f"/v1/workflows/{workflow_id}", "body": {}, "headers": headers}

    await Calls(client).running("second", "att", session="another")
    second = {"submission-attempt": "second;att"}
    batch = {"operations": [operation("x", {}), operation("y", second)]}
    assert (await client.post("/v1/batch", json=batch, headers=OWNER)).status_code == 200
    batch = {"operations": [operation("x2", {}), operation("y2", LOST)]}
    answer = await client.post("/v1/batch", json=batch)
    assert (stale(answer), answer.json()["index"]) == (ATTEMPT, 1)
    assert (await client.get("/v1/workflows/x2")).status_code == 404


async def test_who_may_not_write_is_not_told_who_owns_the_submission(service: Service) -> None:
    async with await new_tenant(service, ("workflows:read", "versions:read")) as reader:
        for method, path in (("PUT", "/v1/workflows/x"), ("DELETE", "/v1/workflows/w")):
            answer = await reader.request(method, path, json={} if method == "PUT" else None, headers=LOST)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
