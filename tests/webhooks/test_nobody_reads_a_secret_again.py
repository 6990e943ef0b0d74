"""Secrets and header values: shown once or never, and nowhere in plain: not in the database, answers, events, logs."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

import asyncpg
import httpx
import pytest

from app.db.digest import digest_of
from app.logs import configure_logs
from app.settings import LogSettings
from app.webhooks.sealing import Seal, new_key
from tests.conftest import WEBHOOK_KEY, Make, http, new_tenant, running, settings_for
from tests.payloads import problem
from tests.webhooks.hooks import URL, Hooks

OWN = "whsec_" + base64.b64encode(b"own-secret-of-the-test-0001").decode()
NEXT = "whsec_" + base64.b64encode(b"own-secret-of-the-test-0002").decode()
VALUE, NEXT_VALUE = "value-of-a-header-1", "value-of-a-header-2"
HIDDEN = (OWN, NEXT, VALUE, NEXT_VALUE, "own-secret-of-the-test")


async def everything(url: str) -> bytes:
    """The content of every table, as text."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname = 'public'"
        )
        found = b""
        for table in tables:
            for row in await connection.fetch(f"SELECT t::text AS text FROM {table['name']} AS t"):
                found += row["text"].encode() + b"\n"
        return found
    finally:
        await connection.close()


async def test_they_lie_nowhere_in_plain(
    clone: Callable[[], Awaitable[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    url = await clone()
    configure_logs(LogSettings(level="DEBUG"))
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        hooks = Hooks(service, client)
        fields = {"id": "wh", "url": URL, "secret": OWN, "headers": {"X-Key": VALUE}}
        seen = [
            await client.post("/v1/webhooks", json=fields, headers={"idempotency-key": "a"}),
            await client.post("/v1/webhooks/wh/rotate-secret", json={"secret": NEXT}, headers={"idempotency-key": "b"}),
        ]
        assert [answer.json()["secret"] for answer in seen] == [OWN, NEXT]
        later = [
            await client.post("/v1/webhooks", json=fields, headers={"idempotency-key": "a"}),
            await client.post("/v1/webhooks/wh/rotate-secret", json={"secret": NEXT}, headers={"idempotency-key": "b"}),
            await client.post("/v1/webhooks", json=fields),
            await client.patch("/v1/webhooks/wh", json={"headers": {"X-Key": NEXT_VALUE}}),
            await client.get("/v1/webhooks/wh"),
            await client.get("/v1/webhooks"),
            await client.post("/v1/webhooks/wh/test"),
            await client.get("/v1/deliveries?include=body"),
            # Refusals quote what is wrong, not what is secret.
            await client.post("/v1/webhooks", json={**fields, "secret": OWN + "!"}),
            await client.post("/v1/webhooks", json={**fields, "headers": {"X-Key": VALUE + "\n"}}),
            await client.post("/v1/webhooks", json={**fields, "url": URL + "?x"}),
        ]
        await hooks.sequenced()
        later.append(await client.get("/v1/events"))
        for answer in later:
            for hidden in HIDDEN:
                assert hidden not in answer.text, f"{answer.request.method} {answer.request.url}: {answer.text}"
        assert [answer.status_code for answer in later[-4:-1]] == [422, 422, 409]
    stored = await everything(url)
    assert b"wh" in stored
    for hidden in HIDDEN:
        for written in (hidden, hidden.encode().hex(), base64.b64encode(hidden.encode()).decode().rstrip("=")):
            assert written.encode() not in stored
    said = capfd.readouterr()
    for hidden in HIDDEN:
        assert hidden not in said.out + said.err


async def test_nobody_without_a_key_can_try_whether_a_value_is_the_one(hooks: Hooks) -> None:
    fields = {"id": "wh", "url": URL, "headers": {"X-Pin": "1234"}}
    await hooks.made(headers=fields["headers"])
    (row,) = await hooks.execute("SELECT digest FROM webhooks WHERE tenant_id = $1")
    unsealed = {name: value for name, value in fields.items() if name != "id"}
    assert row["digest"] not in (digest_of(fields), digest_of(unsealed))
    assert row["digest"] == Seal(WEBHOOK_KEY).digests(digest_of(unsealed))[0]


async def test_the_same_fields_are_known_again_for_as_long_as_their_key_is_there(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url, old, new = await clone(), new_key(), new_key()
    fields = {"id": "wh", "url": URL, "headers": {"X-Pin": "1234"}}
    async with running(settings_for(url)) as service, await new_tenant(service) as client:
        headers = dict(client.headers)
    statuses = []
    for keys in (old, old, f"{new},{old}", new):
        settings = settings_for(url, webhooks={"encryption_keys": keys})
        async with running(settings) as service, http(service, **headers) as client:
            statuses.append((await client.post("/v1/webhooks", json=fields)).status_code)
    assert statuses == [201, 200, 200, 409]


async def test_without_a_key_of_the_settings_no_secret_is_taken(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), webhooks={"encryption_keys": None})
    async with running(settings) as service, await new_tenant(service) as client:
        refused = await client.post("/v1/webhooks", json={"url": URL})
        assert problem(refused) == (409, "encryption_key_missing")
        assert "CAIRN_WEBHOOKS__ENCRYPTION_KEYS" in refused.json()["detail"]
        assert (await client.get("/v1/webhooks")).json()["items"] == []


async def test_two_tenants_have_webhooks_of_one_id_and_see_their_own(
    hooks: Hooks, client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    await hooks.made(description="mine")
    theirs = await other.post("/v1/webhooks", json={"id": "wh", "url": URL, "description": "theirs"})
    assert theirs.status_code == 201
    assert (await other.get("/v1/webhooks/wh")).json()["description"] == "theirs"
    await other.delete("/v1/webhooks/wh")
    assert (await hooks.get())["description"] == "mine"
    name = await hooks.delivery()
    assert problem(await other.get(f"/v1/deliveries/{name}")) == (404, "delivery_not_found")
    assert problem(await other.post(f"/v1/deliveries/{name}/redeliver")) == (404, "delivery_not_found")
    assert problem(await other.get("/v1/webhooks/wh/deliveries")) == (404, "webhook_not_found")


async def test_a_key_that_may_read_neither_makes_nor_sends(service: object, client: httpx.AsyncClient) -> None:
    reads = await client.post("/v1/api-keys", json={"name": "r", "scopes": ["webhooks:read", "dead-letters:read"]})
    client.headers["authorization"] = f"Bearer {reads.json()['key']}"
    assert (await client.get("/v1/webhooks")).status_code == 200
    for method, path in (
        ("POST", "/v1/webhooks"), ("POST", "/v1/deliveries/x/redeliver"), ("POST", "/v1/webhooks/x/test"),
        ("POST", "/v1/dead-letters/replay"), ("DELETE", "/v1/dead-letters?all=true"),
    ):  # fmt: skip
        assert problem(await client.request(method, path)) == (403, "forbidden")
