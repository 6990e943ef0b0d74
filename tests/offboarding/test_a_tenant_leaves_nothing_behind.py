"""Offboarding: from the first moment nobody acts for the tenant, and in the end it is named nowhere."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import asyncpg
import httpx

from app.bus.work import EmbeddedStreams
from app.cache.cache import Key
from app.db.sql import Statement
from app.embedded import Servers
from app.events.jobs import sequencer
from app.offboarding.receipt import read
from app.webhooks.fanout import fan_out
from app.webhooks.relay import Relay
from tests.conftest import http, running, settings_for
from tests.contract.script import arrange
from tests.digests import digests
from tests.offboarding.leaving import (
    LEAVING,
    SIGNER,
    STAYING,
    Place,
    begun,
    carried_out,
    offboarder,
    places_in_folder,
    places_in_redis,
    places_in_streams,
    places_in_tables,
)
from tests.waiting import eventually


async def enrich(place: Place, tenant_id: str) -> httpx.AsyncClient:
    """Rows in as many tables as there are routes that write, a value in the cache and an unfinished object."""
    client = await place.client(tenant_id)
    await arrange(client, tenant_id, place.service.ground.database.url)
    # Of the neighbour's keys one looks as if it were the other's.
    await place.service.ground.cache.put(Key("thing", tenant_id, f"x:{LEAVING}:y"), tenant_id.encode(), 600)
    (place.folder / tenant_id / "unfinished#1").write_bytes(b"x")
    return client


async def places(place: Place, servers: Servers, text: str) -> dict[str, list[str]]:
    connection = await place.connection()
    try:
        return {
            "tables": await places_in_tables(connection, text),
            "objects": places_in_folder(place.folder, text),
            "cache": await places_in_redis(servers.redis_url, text),
            "streams": await places_in_streams(servers.nats_url, text),
        }
    finally:
        await connection.close()


async def test_after_it_a_search_for_the_tenant_finds_nothing_and_its_neighbour_is_untouched(
    place: Place, servers: Servers
) -> None:
    database = place.service.ground.database
    await enrich(place, LEAVING)
    neighbour = await enrich(place, STAYING)
    connection = await place.connection()
    before, untouched = await places(place, servers, LEAVING), await digests(connection, STAYING)
    objects = {path.name: path.read_bytes() for path in (place.folder / STAYING).iterdir()}
    # The search finds what is there: in nearly every table, and everywhere else.
    assert len(before["tables"]) > 50
    assert all(before.values())
    offboarding = await begun(place.operator, LEAVING, database)
    await carried_out(place.runner, database)
    ended = await place.offboarding(offboarding["id"])
    assert (ended["state"], ended["tenant"]) == ("completed", f"sha256:{sha256(LEAVING.encode()).hexdigest()}")
    # The neighbour's id begins with it, so outside of tables that is all that is found.
    found, own = await places(place, servers, LEAVING), await places(place, servers, STAYING)
    assert found.pop("tables") == []
    assert found == {kind: own[kind] for kind in found}
    for name in await of_tenants(connection):
        assert await connection.fetchval(f"SELECT count(*) FROM {name} WHERE tenant_id = $1", LEAVING) == 0, name
    assert await digests(connection, STAYING) == untouched
    await connection.close()
    assert {path.name: path.read_bytes() for path in (place.folder / STAYING).iterdir()} == objects
    assert (await neighbour.get("/v1/workflows/w")).status_code == 200
    for name in ("objects", "cache_values", "stream_messages", "memory_vectors", "messages", "tenants"):
        assert ended["counts"].get(name, 0) > 0, name


async def of_tenants(connection: asyncpg.Connection) -> list[str]:
    found = await connection.fetch(
        "SELECT table_name FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND column_name = 'tenant_id' AND table_type = 'BASE TABLE'"
    )
    return [row["table_name"] for row in found]


async def test_from_the_first_moment_nobody_acts_for_it_in_any_process_and_nobody_makes_it_anew(
    place: Place,
) -> None:
    client, neighbour = await place.client(LEAVING), await place.client(STAYING)
    as_operator = {"x-tenant-id": LEAVING}
    assert [(await one.get("/v1/workflows")).status_code for one in (client, neighbour)] == [200, 200]
    assert (await place.operator.get("/v1/workflows", headers=as_operator)).status_code == 200
    settings = settings_for(place.service.ground.database.url, auth={"cache_seconds": 0.2})
    async with running(settings) as deaf, http(deaf, authorization=client.headers["authorization"]) as elsewhere:
        # This process hears nothing, and has just trusted the key.
        assert (await elsewhere.get("/v1/workflows")).status_code == 200
        stale = await place.operator.delete(f"/v1/tenants/{LEAVING}", headers={"if-match": '"99"'})
        assert stale.status_code == 412
        offboarding = await begun(place.operator, LEAVING)
        for refused in (
            await elsewhere.get("/v1/workflows"),
            await client.put("/v1/workflows/w", json={}),
            await place.operator.get("/v1/workflows", headers=as_operator),
        ):
            assert (refused.status_code, refused.json()["code"]) == (403, "tenant_closed")
    assert (await neighbour.get("/v1/workflows")).status_code == 200
    anew = await place.operator.put(f"/v1/tenants/{LEAVING}", json={})
    assert (anew.status_code, anew.json()["code"]) == (409, "tenant_leaving")
    assert (await place.operator.get(f"/v1/tenants/{LEAVING}")).json()["closed_at"] is not None
    again = await begun(place.operator, LEAVING)
    assert (again["id"], again["state"]) == (offboarding["id"], "closed")
    early = await place.operator.get(f"/v1/offboardings/{offboarding['id']}/receipt")
    assert (early.status_code, early.json()["code"], early.json()["state"]) == (409, "offboarding_under_way", "closed")
    listed = (await place.operator.get("/v1/offboardings")).json()["items"]
    assert [item["tenant"] for item in listed] == [LEAVING]
    await place.service.ground.database.execute("UPDATE offboardings SET lease_expires_at = NULL")
    await carried_out(place.runner, place.service.ground.database)
    # Then the id is free, and there is nothing to close.
    assert (await place.operator.delete(f"/v1/tenants/{LEAVING}")).status_code == 404
    assert (await place.operator.put(f"/v1/tenants/{LEAVING}", json={})).status_code == 201


async def test_only_the_operator_closes_tenants_and_sees_offboardings(place: Place) -> None:
    client = await place.client(LEAVING)
    offboarding = await begun(place.operator, STAYING)
    assert (await client.delete(f"/v1/tenants/{LEAVING}")).status_code == 403
    assert (await client.delete(f"/v1/tenants/{STAYING}")).status_code == 404
    for path in ("", f"/{offboarding['id']}", f"/{offboarding['id']}/receipt"):
        refused = await client.get(f"/v1/offboardings{path}")
        assert (refused.status_code, refused.json()["missing_scope"]) == (403, "operator")
    missing = await place.operator.get("/v1/offboardings/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "offboarding_not_found")


async def test_the_receipt_is_signed_byte_for_byte_and_names_the_tenant_by_its_digest_alone(place: Place) -> None:
    client = await place.client(LEAVING)
    assert (await client.put("/v1/workflows/w", json={"name": LEAVING})).status_code == 201
    offboarding = await begun(place.operator, LEAVING, place.service.ground.database)
    await carried_out(place.runner, place.service.ground.database)
    path = f"/v1/offboardings/{offboarding['id']}/receipt"
    answer = await place.operator.get(path)
    assert (answer.status_code, answer.content) == (200, (await place.operator.get(path)).content)
    said, public_key, true = read(answer.content)
    assert (public_key, true) == (SIGNER.public_key, True)
    ended = await place.offboarding(offboarding["id"])
    assert said["tenant_sha256"] == sha256(LEAVING.encode()).hexdigest()
    assert said["counts"] == ended["counts"]
    assert (said["started_at"], said["ended_at"]) == (ended["created_at"], ended["ended_at"])
    assert (said["counts"]["workflows"], said["verified_zero"]) == (1, True)
    assert LEAVING not in answer.text
    for changed in (answer.content.replace(b'"workflows":1', b'"workflows":2'), answer.content.replace(b":", b": ", 2)):
        assert changed != answer.content
        assert not read(changed)[2]


async def test_what_a_request_writes_that_was_under_way_is_found_too(place: Place) -> None:
    database, connection = place.service.ground.database, await place.connection()
    client = await place.client(LEAVING)
    assert (await client.put("/v1/workflows/w", json={})).status_code == 201
    offboarding = await begun(place.operator, LEAVING, database)
    # It passed the door before, and commits once its table is empty: the tenant's own row stays until it is gone.
    late = connection.transaction()
    await late.start()
    await connection.execute("INSERT INTO workflows (tenant_id, id) VALUES ($1, 'late')", LEAVING)
    going_on = asyncio.create_task(place.runner.run(database, 1))

    waiting = Statement("SELECT 1 AS one FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")

    async def waits_for_it() -> bool:
        return bool(await database.row(waiting))

    await eventually(waits_for_it, "the removal of the tenant's row")
    await late.commit()
    await going_on
    held_up = await place.offboarding(offboarding["id"])
    assert (held_up["state"], held_up["error"]["code"]) == ("deleting", "unavailable")
    await database.execute("UPDATE offboardings SET lease_expires_at = NULL")
    assert await place.runner.run(database, 1) == 1
    assert (await place.offboarding(offboarding["id"]))["state"] == "verifying"
    # What refers to no row of the tenant's is written even then; so is an object, and an event.
    await connection.execute(
        "INSERT INTO leases (tenant_id, name, fencing_token, lease_seconds) VALUES ($1, 'late', 1, 30)", LEAVING
    )
    await connection.execute(
        "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
        " VALUES ($1, 'workflow.created', 'workflow', 'w', '{}')", LEAVING,
    )  # fmt: skip
    (place.folder / LEAVING).mkdir()
    (place.folder / LEAVING / "late").write_bytes(b"late")
    # The events of others go on meanwhile.
    other = await place.client(STAYING)
    await other.put("/v1/workflows/w", json={})
    await sequenced(place)
    assert len((await other.get("/v1/events")).json()["items"]) == 1
    assert await place.runner.run(database, 1) == 1
    again = await place.offboarding(offboarding["id"])
    assert (again["state"], again["counts"]["leases"], again["counts"]["objects"]) == ("verifying", 1, 1)
    await carried_out(place.runner, database)
    assert (await place.offboarding(offboarding["id"]))["state"] == "completed"
    assert not (place.folder / LEAVING).exists()
    assert await connection.fetchval("SELECT count(*) FROM outbox WHERE tenant_id = $1", LEAVING) == 0
    await connection.close()


class Late(EmbeddedStreams):
    """The last place that is looked through; where the test says so, a row is written just then."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        super().__init__(60)
        self.connection, self.writes = connection, False

    async def erase(self, tenant_id: str) -> int:
        """Erase, and write into a table that was looked through before."""
        if self.writes:
            self.writes = False
            await self.connection.execute(
                "INSERT INTO leases (tenant_id, name, fencing_token, lease_seconds) VALUES ($1, 'late', 1, 30)",
                tenant_id,
            )
        return await super().erase(tenant_id)


async def test_nothing_is_vouched_for_that_is_there_when_it_is_counted(place: Place) -> None:
    database, connection = place.service.ground.database, await place.connection()
    streams = Late(connection)
    runner = offboarder(place.folder, streams=streams)
    offboarding = await begun(place.operator, LEAVING, database)
    assert await runner.run(database, 1) == 1
    assert (await place.offboarding(offboarding["id"]))["state"] == "verifying"
    streams.writes = True
    assert await runner.run(database, 1) == 1
    assert (await place.offboarding(offboarding["id"]))["state"] == "deleting"
    await carried_out(runner, database)
    ended = await place.offboarding(offboarding["id"])
    assert (ended["state"], ended["counts"]["leases"]) == ("completed", 1)
    assert await connection.fetchval("SELECT count(*) FROM leases WHERE tenant_id = $1", LEAVING) == 0
    await connection.close()


async def sequenced(place: Place) -> None:
    await sequencer(lambda _seconds: None)(place.service.ground.database, 1000)


async def test_nothing_is_sent_for_a_tenant_that_is_closed(place: Place) -> None:
    database = place.service.ground.database
    settings = settings_for(database.url).webhooks
    for tenant_id in (LEAVING, STAYING):
        client = await place.client(tenant_id)
        made = await client.post("/v1/webhooks", json={"id": "h", "url": "http://127.0.0.1:9/"})
        assert made.status_code == 201, made.text
        await client.put("/v1/workflows/w", json={})
    await sequenced(place)
    # What is handed out to a webhook before, waits; what would be later, is not.
    await fan_out(lambda: None)(database, 1000)
    await begun(place.operator, LEAVING)
    for client in place.clients:
        await client.put("/v1/workflows/later", json={})
    await database.rows(
        Statement(
            "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
            " VALUES (:tenant_id, 'workflow.created', 'workflow', 'late', '{}')"
        ),
        tenant_id=LEAVING,
    )
    await sequenced(place)
    await fan_out(lambda: None)(database, 1000)
    streams = EmbeddedStreams(60)
    await Relay(settings, streams, lambda _number: None).run(database, 1000)
    standing = await database.rows(
        Statement("SELECT tenant_id, status, count(*) AS n FROM webhook_deliveries GROUP BY 1, 2 ORDER BY 1, 2")
    )
    found = {(row["tenant_id"], row["status"]): row["n"] for row in standing}
    assert found.keys() == {(LEAVING, "pending"), (STAYING, "queued")}
    assert found[STAYING, "queued"] > found[LEAVING, "pending"]
