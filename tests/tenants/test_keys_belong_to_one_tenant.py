"""Tenants and keys: who may call, for whom, and how soon a revocation holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.db.sql import Statement
from app.embedded import Servers
from app.errors import Unavailable
from app.http.service import Service
from app.tenants.keys import Keys, key_of
from tests.conftest import ADMIN_KEY, http, new_tenant, running, settings_for
from tests.waiting import eventually


async def key(client: httpx.AsyncClient, **fields: object) -> dict[str, str]:
    made = await client.post("/v1/api-keys", json={"name": "k", "scopes": ["workflows:read"], **fields})
    assert made.status_code == 201, made.text
    return made.json()  # type: ignore[no-any-return]


def bearer(secret: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}", **headers}


async def test_a_missing_or_unknown_key_is_challenged(service: Service) -> None:
    async with http(service) as nobody:
        for headers in ({}, bearer("cairn_unknown"), {"authorization": "Basic eA=="}, {"authorization": "Bearer "}):
            answer = await nobody.get("/v1/workflows", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_does_what_its_scopes_say_and_the_missing_one_is_named(
    service: Service, client: httpx.AsyncClient
) -> None:
    made = await key(client)
    async with http(service, **bearer(made["key"])) as reader:
        assert (await reader.get("/v1/workflows")).status_code == 200
        refused = await reader.put("/v1/workflows/w", json={})
        assert (refused.status_code, refused.json()["missing_scope"]) == (403, "workflows:write")
    wildcard = await key(client, scopes=["*:write"])
    async with http(service, **bearer(wildcard["key"])) as writer:
        assert (await writer.put("/v1/workflows/w", json={})).status_code == 201
        assert (await writer.get("/v1/workflows/w")).status_code == 403
        refused = await writer.post("/v1/api-keys", json={"name": "k", "scopes": ["*:write"]})
        assert (refused.status_code, refused.json()["missing_scope"]) == (403, "admin")


async def test_the_operator_names_the_tenant_and_other_keys_name_only_their_own(
    service: Service, client: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    unnamed = await operator.get("/v1/workflows")
    assert (unnamed.status_code, unnamed.json()["code"]) == (400, "tenant_required")
    unknown = await operator.get("/v1/workflows", headers={"x-tenant-id": "nobody"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    own = client.headers["x-test-tenant"]
    assert (await client.get("/v1/workflows", headers={"x-tenant-id": own})).status_code == 200
    other = await client.get("/v1/workflows", headers={"x-tenant-id": "another"})
    assert (other.status_code, other.json()["code"]) == (403, "forbidden")
    assert (await client.put("/v1/tenants/another", json={})).status_code == 404
    assert (await client.patch(f"/v1/tenants/{own}", json={})).status_code == 403
    assert [item["id"] for item in (await client.get("/v1/tenants")).json()["items"]] == [own]
    assert len((await operator.get("/v1/tenants?limit=1")).json()["items"]) == 1


async def test_a_revoked_rotated_or_expired_key_ends(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), auth={"cache_seconds": 0})
    async with running(settings) as service, await new_tenant(service) as client, http(service) as anyone:
        first, second = await key(client), await key(client)
        soon = (datetime.now(UTC) - timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
        expired = await key(client, expires_at=soon)
        assert (await anyone.get("/v1/workflows", headers=bearer(first["key"]))).status_code == 200
        assert (await client.delete(f"/v1/api-keys/{first['id']}")).json()["revoked_at"] is not None
        rotated = await client.post(f"/v1/api-keys/{second['id']}/rotate")
        for ended in (first["key"], second["key"], expired["key"]):
            assert (await anyone.get("/v1/workflows", headers=bearer(ended))).status_code == 401
        assert (await anyone.get("/v1/workflows", headers=bearer(rotated.json()["key"]))).status_code == 200
        assert (await client.post(f"/v1/api-keys/{first['id']}/rotate")).status_code == 404
        assert "key" not in (await client.get("/v1/api-keys")).json()["items"][0]


async def test_a_key_is_trusted_without_a_round_trip_and_its_use_is_written_in_batches(
    service: Service, client: httpx.AsyncClient
) -> None:
    made = await key(client)
    keys = service.authenticator
    assert isinstance(keys, Keys)
    asked: list[Statement] = []
    row = keys.database.row

    async def counted(statement: Statement, **arguments: object) -> object:
        asked.append(statement)
        return await row(statement, **arguments)

    keys.database.row = counted  # type: ignore[assignment, method-assign]
    try:
        for _ in range(5):
            await keys.caller(f"Bearer {made['key']}", None)
    finally:
        keys.database.row = row  # type: ignore[method-assign]
    assert len(asked) == 1
    assert await keys.record_use() >= 1
    listed = {item["id"]: item for item in (await client.get("/v1/api-keys")).json()["items"]}
    assert listed[made["id"]]["last_used_at"] is not None
    assert await keys.record_use() <= 1


async def test_a_key_that_somebody_changes_holds_up_no_other_ones_use(
    service: Service, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    keys, database = service.authenticator, service.ground.database
    assert isinstance(keys, Keys)
    held, used = await key(client), await key(other)

    async def last_used(of: httpx.AsyncClient, made: dict[str, str]) -> str | None:
        listed = {item["id"]: item for item in (await of.get("/v1/api-keys")).json()["items"]}
        return listed[made["id"]]["last_used_at"]  # type: ignore[no-any-return]

    await keys.record_use()
    async with database.writing() as transaction:
        lock = Statement("SELECT id FROM api_keys WHERE id = :id FOR UPDATE")
        await transaction.row(lock, id=held["id"])
        for made in (held, used):
            await keys.caller(f"Bearer {made['key']}", None)
        async with asyncio.timeout(1.5):
            await keys.record_use()
        assert await last_used(other, used) is not None
        assert await last_used(client, held) is None
    # What could not be written down at all is kept for the next time.
    await keys.caller(f"Bearer {held['key']}", None)
    async with database.writing() as transaction:
        await transaction.rows(Statement("LOCK TABLE api_keys IN EXCLUSIVE MODE"))
        with pytest.raises(Unavailable):
            await keys.record_use()
    await keys.record_use()
    assert await last_used(client, held) is not None


async def test_with_auth_off_everyone_is_the_operator_of_the_default_tenant(
    clone: Callable[[], Awaitable[str]],
) -> None:
    async with running(settings_for(await clone(), auth={"mode": "off"})) as service, http(service) as anyone:
        assert (await anyone.put("/v1/workflows/w", json={})).status_code == 201
        assert (await anyone.get("/v1/workflows", headers={"x-tenant-id": "nobody"})).status_code == 404


@pytest.mark.parametrize("scopes", [[], ["root"], ["workflows:admin"], ["*:write", "x:"], [1]])
async def test_scopes_that_mean_nothing_are_refused(client: httpx.AsyncClient, scopes: list[object]) -> None:
    answer = await client.post("/v1/api-keys", json={"name": "k", "scopes": scopes})
    assert answer.status_code == 422


async def test_a_second_key_under_the_same_id_is_a_conflict(client: httpx.AsyncClient) -> None:
    await key(client, id="k1")
    again = await client.post("/v1/api-keys", json={"name": "k", "scopes": ["*"], "id": "k1"})
    assert (again.status_code, again.json()["code"]) == (409, "api_key_conflict")


async def test_limits_are_the_operators_to_set_and_the_tenants_to_read(
    client: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    path = f"/v1/tenants/{client.headers['x-test-tenant']}/limits"
    assert (await client.get(path)).json() == {}
    put = await operator.put(path, json={"requests_per_second": 1000})
    assert (put.status_code, put.json()) == (200, {"requests_per_second": 1000})
    assert (await client.get(path)).json() == {"requests_per_second": 1000}
    assert (await client.put(path, json={})).status_code == 403
    assert (await operator.put(path, json={"requests_per_second": 0})).status_code == 422


async def test_a_tenant_is_made_once_and_updated_after(operator: httpx.AsyncClient) -> None:
    made = await operator.put("/v1/tenants/made-once", json={"name": "n", "metadata": {"a": 1}})
    changed = await operator.put("/v1/tenants/made-once", json={"name": "m"})
    stale = await operator.patch(
        "/v1/tenants/made-once", json={"name": "x"}, headers={"if-match": made.headers["etag"]}
    )
    assert [made.status_code, changed.status_code, stale.status_code] == [201, 200, 412]
    assert (changed.json()["name"], changed.json()["metadata"]) == ("m", {"a": 1})
    assert (await operator.put("/v1/tenants/NOT-VALID", json={})).status_code == 422
    assert ADMIN_KEY not in changed.text


class Counted:
    """The authenticator of a service, and what it asks PostgreSQL."""

    def __init__(self, service: Service) -> None:
        assert isinstance(service.authenticator, Keys)
        self.keys = service.authenticator
        self.row, self.asked = self.keys.database.row, 0
        self.gate = asyncio.Event()

    async def _counted(self, statement: Statement, **arguments: object) -> object:
        self.asked += 1
        found = await self.row(statement, **arguments)
        await self.gate.wait()
        return found

    def __enter__(self) -> Counted:
        self.keys.database.row = self._counted  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self.keys.database.row = self.row  # type: ignore[method-assign]


async def test_a_herd_with_one_key_asks_once_also_where_the_first_of_it_leaves(
    service: Service, client: httpx.AsyncClient
) -> None:
    made = await key(client)
    with Counted(service) as counted:
        herd = [asyncio.create_task(counted.keys.caller(f"Bearer {made['key']}", None)) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        herd[0].cancel()
        counted.gate.set()
        found = await asyncio.gather(*herd[1:])
    assert {caller.key_id for caller in found} == {made["id"]}
    assert counted.asked == 1


async def test_what_was_asked_before_a_revocation_is_not_trusted_after_it(
    service: Service, client: httpx.AsyncClient
) -> None:
    made = await key(client)
    with Counted(service) as counted:
        before = asyncio.create_task(counted.keys.caller(f"Bearer {made['key']}", None))

        async def asked() -> bool:
            return counted.asked == 1

        await eventually(asked, "the question")
        counted.keys.heard(key_of(client.headers["x-test-tenant"]))
        after = asyncio.create_task(counted.keys.caller(f"Bearer {made['key']}", None))
        counted.gate.set()
        await asyncio.gather(before, after)
        # It did not join the one before, and that one's answer is not kept.
        assert counted.asked == 2


async def test_a_key_is_trusted_no_longer_than_it_lasts(service: Service, client: httpx.AsyncClient) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=0.4)).isoformat().replace("+00:00", "Z")
    made = await key(client, expires_at=soon)
    async with http(service, **bearer(made["key"])) as reader:
        assert (await reader.get("/v1/workflows")).status_code == 200

        async def refused() -> bool:
            return (await reader.get("/v1/workflows")).status_code == 401

        await eventually(refused, "the key's end", seconds=0.9)


@pytest.mark.parametrize("told", [True, False], ids=["over NATS", "by its age"])
async def test_a_change_of_keys_and_limits_holds_in_every_process(
    told: bool, clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    url = await clone()
    age = {"cache_seconds": 5 if told else 0.2}
    nats = {"url": servers.nats_url, "subject_prefix": "keys"} if told else {}
    settings = settings_for(url, auth=age, nats=nats)
    async with (
        running(settings) as here, running(settings) as there,
        await new_tenant(here) as owner, http(there) as anyone, http(here) as operator,
    ):  # fmt: skip
        operator.headers.update(bearer(ADMIN_KEY, **{"x-tenant-id": owner.headers["x-test-tenant"]}))
        revoked, rotated, limited = await key(owner), await key(owner), await key(owner)

        async def status(made: dict[str, str], service: httpx.AsyncClient = anyone) -> int:
            return (await service.get("/v1/workflows", headers=bearer(made["key"]))).status_code

        async def ended(made: dict[str, str]) -> bool:
            return await status(made) == 401

        async def is_limited() -> bool:
            answer = await anyone.get("/v1/workflows", headers=bearer(limited["key"]))
            return "ratelimit" in answer.headers

        for made in (revoked, rotated, limited):
            assert [await status(made), await status(made, operator)] == [200, 200]
        await owner.delete(f"/v1/api-keys/{revoked['id']}")
        # The process that did it knows it at once.
        assert await status(revoked, operator) == 401
        await eventually(lambda: ended(revoked), "the revocation", seconds=2)
        await owner.post(f"/v1/api-keys/{rotated['id']}/rotate")
        await eventually(lambda: ended(rotated), "the rotation", seconds=2)
        limits = {"requests_per_second": 1000}
        await operator.put(f"/v1/tenants/{owner.headers['x-test-tenant']}/limits", json=limits)
        await eventually(is_limited, "the limits", seconds=2)


async def test_where_changes_may_have_been_missed_nothing_is_trusted(
    service: Service, client: httpx.AsyncClient
) -> None:
    made = await key(client)
    with Counted(service) as counted:
        counted.gate.set()
        for _ in range(2):
            for _ in range(3):
                await counted.keys.caller(f"Bearer {made['key']}", None)
            counted.keys.heard(None)
        counted.keys.heard(key_of("another"))
    assert counted.asked == 2
