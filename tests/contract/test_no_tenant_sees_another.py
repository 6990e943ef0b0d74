"""Acceptance 7: a walk over every route of the served document, with the ids of somebody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import ADMIN_KEY, http, new_tenant, running, settings_for
from tests.contract.script import COST, SCRIPT, SECRET, Line, arrange
from tests.digests import digests

METHODS = {"get", "put", "post", "patch", "delete"}
OPERATOR = {"authorization": f"Bearer {ADMIN_KEY}"}


class World:
    """A service with an owner, whose record is arranged, and strangers, each of whom has nothing."""

    def __init__(self, service: Service, connection: asyncpg.Connection, owner: httpx.AsyncClient) -> None:
        self.service, self.connection, self.owner = service, connection, owner
        self.tenant_id: str = owner.headers["x-test-tenant"]
        self.ids: dict[str, str] = {}

    async def digest(self) -> dict[str, str]:
        """Everything that is the owner's."""
        return await digests(self.connection, self.tenant_id)

    def operator(self) -> httpx.AsyncClient:
        """A client with the operator's key, which names no tenant."""
        return http(self.service, **OPERATOR)


@asynccontextmanager
async def world(url: str) -> AsyncIterator[World]:
    connection = await asyncpg.connect(url)
    # A stream ends by itself, so that its answer can be looked at as a whole.
    async with (
        running(settings_for(url, http={"live_stream_seconds": 0.5})) as service,
        await new_tenant(service) as owner,
    ):
        made = World(service, connection, owner)
        made.ids = await arrange(owner, made.tenant_id, url)
        await drain(sequencer(lambda _waited: None), service.ground.database)
        yield made
    await connection.close()


@pytest.fixture(scope="module")
async def walked(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[World]:
    async with world(await kept_clone()) as made:
        yield made


def routes_of(document: dict[str, Any]) -> list[str]:
    """The routes of an OpenAPI document, as the script names them."""
    return [
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item if method in METHODS
    ]


async def test_every_route_of_the_served_document_has_its_line(walked: World) -> None:
    document = (await walked.owner.get("/openapi.json")).json()
    assert sorted(line.route for line in SCRIPT) == sorted(routes_of(document))


@pytest.mark.parametrize("line", SCRIPT, ids=lambda line: line.route)
async def test_a_stranger_finds_nothing_and_changes_nothing_where_the_owner_is_served(
    walked: World, line: Line
) -> None:
    stood = await walked.digest()
    async with await new_tenant(walked.service) as stranger:
        before = await digests(walked.connection, stranger.headers["x-test-tenant"])
        answer = await line.call(stranger, walked.ids)
        after = await digests(walked.connection, stranger.headers["x-test-tenant"])
    _check(line, answer, changed=before != after)
    assert await walked.digest() == stood, "the stranger changed what is the owner's"
    # The control comes after: with the same ids, untouched, the owner (or the operator) is served.
    async with walked.operator() as operator:
        served = await line.call(operator if line.sees == "operator" else walked.owner, walked.ids)
    assert served.is_success, f"{line.route}: {served.status_code} {served.text}"


def _check(line: Line, answer: httpx.Response, *, changed: bool) -> None:
    statuses = {
        "gone": {404},
        "list": {200, 204},
        "waits": {200},
        "own": {200, 201, 202},
        "bare": {409},
        "operator": {403, 404},
        "open": {200},
    }
    assert answer.status_code in statuses[line.sees], f"{line.route}: {answer.status_code} {answer.text}"
    if line.sees != "own" or "name" not in (line.body or {}):
        assert SECRET not in answer.text.replace(json.dumps(line.body or ""), ""), line.route
    assert COST not in answer.text
    assert changed == (line.sees == "own"), f"{line.route} left rows behind"
    if line.route in {"GET /v1/tenants", "GET /v1/api-keys"}:
        return
    if line.sees == "list" and answer.status_code == 200:
        body = answer.json()
        assert body.get("items", []) == [], line.route
        assert body.get("total", 0) == 0
        assert body.get("count", 0) == 0


async def test_lists_of_tenants_and_keys_hold_only_the_callers_own(walked: World) -> None:
    async with await new_tenant(walked.service) as stranger:
        tenants = (await stranger.get("/v1/tenants")).json()["items"]
        keys = (await stranger.get("/v1/api-keys")).json()["items"]
        assert [tenant["id"] for tenant in tenants] == [stranger.headers["x-test-tenant"]]
        assert [key["name"] for key in keys] == ["test"]


@pytest.mark.parametrize("line", SCRIPT, ids=lambda line: line.route)
async def test_naming_another_tenant_in_the_header_is_forbidden(walked: World, line: Line) -> None:
    if line.sees == "open" and not line.route.startswith("GET /v1"):
        pytest.skip("asks for no key")
    stood = await walked.digest()
    async with await new_tenant(walked.service) as stranger:
        stranger.headers["x-tenant-id"] = walked.tenant_id
        answer = await line.call(stranger, walked.ids)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await walked.digest() == stood


@pytest.mark.parametrize("line", SCRIPT, ids=lambda line: line.route)
async def test_without_a_key_nobody_is_served(walked: World, line: Line) -> None:
    async with http(walked.service) as nobody:
        answer = await line.call(nobody, walked.ids)
    if line.sees == "open" and not line.route.startswith("GET /v1"):
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_cursor_of_the_owner_is_no_use_to_a_stranger(walked: World) -> None:
    for path in ("/v1/invocations?limit=1", "/v1/api-keys?limit=1"):
        cursor = (await walked.owner.get(path)).json()["next_cursor"]
        assert cursor
        async with await new_tenant(walked.service) as stranger:
            answer = await stranger.get(f"{path}&cursor={cursor}")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


async def test_an_idempotency_key_of_the_owner_replays_nothing_to_a_stranger(walked: World) -> None:
    headers = {"idempotency-key": "shared"}
    mine = await walked.owner.post("/v1/workflows", json={"id": "keyed", "name": SECRET}, headers=headers)
    async with await new_tenant(walked.service) as stranger:
        theirs = await stranger.post("/v1/workflows", json={"id": "keyed", "name": SECRET}, headers=headers)
        other = await stranger.post("/v1/workflows", json={"id": "other"}, headers={"idempotency-key": "another"})
    assert (mine.status_code, theirs.status_code, other.status_code) == (201, 201, 201)
    assert "idempotency-replayed" not in theirs.headers
