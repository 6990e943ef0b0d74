"""B27: `Lease` on writes of every kind: under the token that holds the lease they happen, under no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.digests import digests
from tests.leases.calls import Leases
from tests.payloads import problem
from tests.statements import one_connection, sent_by
from tests.submissions.calls import Calls

NAME = "jobs/nightly;1"
OWNER, LOST = {"lease": "jobs%2Fnightly%3B1;2"}, {"lease": "jobs%2Fnightly%3B1;1"}
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/workflows/w", {"name": "changed"}),
    ("POST", "/v1/invocations/i/end", {"status": "completed", "output": 1}),
    ("POST", "/v1/invocations/i/messages", {"items": [{"role": "r", "payload": 1}, {"role": "r", "payload": 2}]}),
    ("DELETE", "/v1/workflows/empty", None),
    ("POST", "/v1/submissions/sub/complete", {"attempt_id": "att"}),
    ("POST", "/v1/batch", {"operations": [
        {"method": "PUT", "path": "/v1/workflows/b", "body": {}},
        {"method": "POST", "path": "/v1/invocations/i/heartbeat"},
    ]}),
]  # fmt: skip


@pytest.fixture
async def connection(service: Service) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(service.ground.database.url)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
async def arranged(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version((await make.workflow(id="w"))["id"])
    await make.workflow(id="empty")
    await make.invocation(id="i", version_id=version["id"])
    await Calls(client).running("sub", "att")
    leases = Leases(client)
    await leases.release("a", await leases.acquire("a", name=NAME), name=NAME)
    # A lease that has lapsed, and that nobody has taken, still holds; that nobody renews it does not matter here.
    assert await leases.acquire("b", lease_seconds=1, name=NAME) == 2


def stale(answer: httpx.Response) -> tuple[int, str | None]:
    """The token and the holder that a refusal names."""
    assert problem(answer) == (409, "stale_lease"), answer.text
    assert answer.json()["name"] == NAME
    return answer.json()["current_token"], answer.json()["holder"]


@pytest.mark.parametrize("keyed", [{}, {"idempotency-key": "k"}], ids=["plain", "keyed"])
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=lambda value: value if isinstance(value, str) else "")
async def test_b27_a_lost_token_writes_nothing_and_the_current_one_does(
    method: str, path: str, body: Any, keyed: dict[str, str], client: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    tenant = client.headers["x-test-tenant"]
    stood = await digests(connection, tenant)
    assert stale(await client.request(method, path, json=body, headers=LOST | keyed)) == (2, "b")
    assert await digests(connection, tenant) == stood
    written = await client.request(method, path, json=body, headers=OWNER | keyed)
    assert written.is_success, written.text
    assert await digests(connection, tenant) != stood
    await Leases(client).release("b", 2, name=NAME)
    stood = await digests(connection, tenant)
    again = await client.request(method, path, json=body, headers=OWNER | keyed)
    if keyed:
        # What was carried out under the token is told again after its end.
        assert (again.status_code, again.headers["idempotency-replayed"]) == (written.status_code, "true")
    else:
        assert stale(again) == (2, None)
    assert await digests(connection, tenant) == stood


async def test_an_attempt_and_a_lease_are_both_held(client: httpx.AsyncClient) -> None:
    attempt, lost = {"submission-attempt": "sub;att"}, {"submission-attempt": "sub;lost"}
    for path in ("/v1/workflows/x", "/v1/workflows/y"):
        assert stale(await client.put(path, json={}, headers=attempt | LOST)) == (2, "b")
        assert problem(await client.put(path, json={}, headers=lost | OWNER)) == (409, "stale_attempt")
        assert (await client.get(path)).status_code == 404
        assert (await client.put(path, json={}, headers=attempt | OWNER)).status_code == 201
    # Where the body names the attempt, and the header another one.
    complete = {"attempt_id": "att"}
    await Calls(client).running("second", "att", session="another")
    second = {"submission-attempt": "second;att"}
    path = "/v1/submissions/sub/complete"
    assert stale(await client.post(path, json=complete, headers=second | LOST)) == (2, "b")
    assert (await client.post(path, json=complete, headers=second | OWNER)).status_code == 200


async def test_what_writes_nothing_ignores_it_and_what_cannot_be_read_is_refused(client: httpx.AsyncClient) -> None:
    reads = [{"method": "GET", "path": "/v1/workflows/w"}]
    for method, path, body in (("GET", "/v1/workflows/w", None), ("POST", "/v1/batch", {"operations": reads})):
        assert (await client.request(method, path, json=body, headers=LOST)).status_code == 200
    for header in ("", "name", "name;", ";1", "name;0", "name;-1", "name;x", "n;1;2", "n;9007199254740992", "a%00;1"):
        refused = await client.put("/v1/workflows/x", json={}, headers={"lease": header})
        assert problem(refused) == (422, "invalid_input"), header
        assert refused.json()["errors"][0]["pointer"] == "Lease"
    assert (await client.get("/v1/workflows/x")).status_code == 404


@pytest.mark.parametrize("name", ['a b/c?d#[%]";:+', "%41", "\ufffd", "ü😀", " ", ".x", "ö" * 127])
async def test_every_name_that_can_be_acquired_can_be_named_in_the_header(client: httpx.AsyncClient, name: str) -> None:
    leases = Leases(client)
    token = await leases.acquire("h", name=name)
    assert (await leases.renew("h", token, name=name))["name"] == name
    header = {"lease": f"{quote(name, safe='')};{token}"}
    assert (await client.put("/v1/workflows/w", json={"name": "n"}, headers=header)).status_code == 200
    await leases.release("h", token, name=name)
    assert problem(await client.put("/v1/workflows/w", json={}, headers=header)) == (409, "stale_lease")


async def test_an_operation_of_a_batch_may_name_a_lease_of_its_own(client: httpx.AsyncClient) -> None:
    def operation(workflow_id: str, headers: dict[str, str]) -> dict[str, Any]:
        return {"method": "PUT", "path": f"/v1/workflows/{workflow_id}", "body": {}, "headers": headers}

    await Leases(client).acquire("a", name="second")
    batch = {"operations": [operation("x", {}), operation("y", {"lease": "second;1"})]}
    assert (await client.post("/v1/batch", json=batch, headers=OWNER)).status_code == 200
    batch = {"operations": [operation("x2", {}), operation("y2", LOST)]}
    answer = await client.post("/v1/batch", json=batch)
    assert (stale(answer), answer.json()["index"]) == ((2, "b"), 1)
    assert (await client.get("/v1/workflows/x2")).status_code == 404


async def test_another_tenant_s_lease_holds_nothing_and_who_may_not_write_hears_nothing(service: Service) -> None:
    async with await new_tenant(service) as stranger:
        assert stale(await stranger.put("/v1/workflows/x", json={}, headers=OWNER)) == (None, None)
    async with await new_tenant(service, ("workflows:read",)) as reader:
        assert problem(await reader.put("/v1/workflows/x", json={}, headers=LOST)) == (403, "forbidden")


async def test_a_hot_write_under_a_lease_is_still_one_statement(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        assert await Leases(client).acquire("a") == 1
        for headers in ({}, {"lease": "l;1"}, {"lease": "l;1", "idempotency-key": "k"}):
            async with sent_by(service) as sent:
                assert (await client.put("/v1/workflows/w", json={}, headers=headers)).is_success
            assert len(sent) == 1, [each.query for each in sent]
            assert ("cairn_hold_lease" in sent[0].query) == ("lease" in headers)
