"""Spaces: made with a partition of their own, kept as they are, one of them active."""

from __future__ import annotations

from asyncio import create_task, gather

import asyncpg
import httpx

from app.background.runner import drain
from app.db.sql import Statement
from app.events.jobs import sequencer
from app.http.service import Service
from app.memory.jobs import drop_deleted_spaces
from app.memory.partitions import table_of
from tests.payloads import problem

SPACE = {"model": "m", "dimensions": 3}


async def test_the_first_space_is_active_and_the_next_is_not(client: httpx.AsyncClient) -> None:
    first = await client.put("/v1/memory/spaces/a", json=SPACE)
    assert (first.status_code, first.headers["etag"]) == (201, '"1"')
    made = first.json()
    assert {name: made[name] for name in made if not name.endswith("_at")} == {
        "name": "a", "model": "m", "dimensions": 3, "metric": "cosine", "language": "simple", "active": True,
        "filling": False, "index": {"state": "none", "progress": None, "rows": 0, "size_bytes": 0},
    }  # fmt: skip
    second = await client.put("/v1/memory/spaces/b", json=SPACE | {"dimensions": 4})
    assert (second.status_code, second.json()["active"], second.json()["activated_at"]) == (201, False, None)
    listed = (await client.get("/v1/memory/spaces")).json()["items"]
    assert listed == [made, second.json()]
    assert (await client.get("/v1/memory/spaces/a")).json() == made
    assert problem(await client.get("/v1/memory/spaces/c")) == (404, "memory_space_not_found")


async def test_b25_a_space_keeps_its_fields_whoever_starts_with_others(client: httpx.AsyncClient) -> None:
    made = await client.put("/v1/memory/spaces/a", json=SPACE)
    same = await client.put("/v1/memory/spaces/a", json=SPACE | {"metric": "cosine", "language": "simple"})
    assert (same.status_code, same.json(), same.headers["etag"]) == (200, made.json(), '"1"')
    for other in ({"dimensions": 4}, {"model": "n"}, {"metric": "l2"}, {"language": "english"}):
        refused = await client.put("/v1/memory/spaces/a", json=SPACE | other)
        assert problem(refused) == (409, "memory_space_conflict")
        stored = {name: refused.json()[name] for name in ("name", "model", "dimensions", "metric", "language")}
        assert stored == {"name": "a", "metric": "cosine", "language": "simple"} | SPACE


async def test_b25_dimensions_and_language_are_bounded_when_a_space_is_made(client: httpx.AsyncClient) -> None:
    for wrong in (0, -1, 4001, 16_000, True, "3", 3.5, None):
        refused = await client.put("/v1/memory/spaces/a", json=SPACE | {"dimensions": wrong})
        assert problem(refused) == (422, "invalid_input"), wrong
        assert refused.json()["errors"][0]["pointer"] == "/dimensions"
    for wrong in (0, 4001):
        refused = await client.put("/v1/memory/spaces/a", json=SPACE | {"dimensions": wrong})
        assert "from 1 to 4000" in refused.json()["detail"]
    refused = await client.put("/v1/memory/spaces/a", json=SPACE | {"language": "klingon"})
    assert problem(refused) == (422, "invalid_input")
    assert "english" in refused.json()["detail"]
    for metric in ("manhattan", None):
        refused = await client.put("/v1/memory/spaces/a", json=SPACE | {"metric": metric})
        assert problem(refused) == (422, "invalid_input")
    assert (await client.get("/v1/memory/spaces")).json()["items"] == []
    for dimensions in (1, 2000, 4000):
        made = await client.put(f"/v1/memory/spaces/of {dimensions}", json=SPACE | {"dimensions": dimensions})
        assert made.status_code == 201, made.text


async def test_a_space_gives_way_to_another_and_can_come_back(client: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await client.put(f"/v1/memory/spaces/{name}", json=SPACE)
    current = (await client.get("/v1/memory/spaces/b")).headers["etag"]
    stale = await client.post("/v1/memory/spaces/b/activate", headers={"if-match": '"9"'})
    assert (problem(stale), stale.json()["current_etag"]) == ((412, "precondition_failed"), current)
    activated = await client.post("/v1/memory/spaces/b/activate", json={}, headers={"if-match": current})
    assert (activated.status_code, activated.json()["active"]) == (200, True)
    assert activated.headers["etag"] != current
    again = await client.post("/v1/memory/spaces/b/activate")
    assert (again.status_code, again.json(), again.headers["etag"]) == (
        200,
        activated.json(),
        activated.headers["etag"],
    )

    async def standing() -> dict[str, tuple[bool, bool]]:
        items = (await client.get("/v1/memory/spaces")).json()["items"]
        return {item["name"]: (item["active"], item["filling"]) for item in items}

    assert await standing() == {"a": (False, True), "b": (True, False)}
    assert problem(await client.delete("/v1/memory/spaces/b")) == (409, "memory_space_active")
    assert (await client.post("/v1/memory/spaces/a/activate")).status_code == 200
    assert await standing() == {"a": (True, False), "b": (False, True)}
    assert problem(await client.delete("/v1/memory/spaces/b", headers={"if-match": '"9"'}))[0] == 412
    assert (await client.delete("/v1/memory/spaces/b")).status_code == 204
    for gone in (client.delete("/v1/memory/spaces/b"), client.post("/v1/memory/spaces/b/activate")):
        assert problem(await gone) == (404, "memory_space_not_found")
    assert (await client.put("/v1/memory/spaces/b", json=SPACE | {"dimensions": 7})).status_code == 201


async def test_many_who_make_the_first_space_at_once_make_one_that_is_active(client: httpx.AsyncClient) -> None:
    names = ["a", "b", "c", "a", "b", "c"]
    made = await gather(*(client.put(f"/v1/memory/spaces/{name}", json=SPACE) for name in names))
    assert sorted(answer.status_code for answer in made) == [200, 200, 200, 201, 201, 201]
    items = (await client.get("/v1/memory/spaces")).json()["items"]
    assert sorted(item["active"] for item in items) == [False, False, True]


async def test_what_happens_to_a_space_is_told(client: httpx.AsyncClient, service: Service) -> None:
    for name in ("a", "b"):
        await client.put(f"/v1/memory/spaces/{name}", json=SPACE)
    await client.post("/v1/memory/spaces/b/activate")
    await client.delete("/v1/memory/spaces/a")
    await drain(drop_deleted_spaces, service.ground.database)
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events")).json()["items"]
    assert [(event["type"], event["subject_id"], event["data"]["active"]) for event in events] == [
        ("memory_space.created", "a", True),
        ("memory_space.created", "b", False),
        ("memory_space.activated", "b", True),
        ("memory_space.deleted", "a", False),
    ]


async def test_a_space_is_made_while_others_write_and_read_for_long(
    client: httpx.AsyncClient, other: httpx.AsyncClient, service: Service
) -> None:
    await other.put("/v1/memory/spaces/a", json=SPACE)
    row = "(tenant_id, space_number, kind, id, lexemes) VALUES ($1, $2, 'record', 'r', '')"
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        tenant = other.headers["x-test-tenant"]
        number = await connection.fetchval("SELECT number FROM memory_spaces WHERE tenant_id = $1", tenant)
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {table_of(number)} {row}", tenant, number)
            await connection.fetch("SELECT * FROM memory_spaces")
            for name in ("a", "b"):
                made = await client.put(f"/v1/memory/spaces/{name}", json=SPACE)
                assert made.status_code == 201, made.text
            assert (await client.delete("/v1/memory/spaces/b")).status_code == 204
            # It is another's write that the partition waits for, and nobody waits for the partition.
            assert await drop_deleted_spaces(service.ground.database, 20) == 0
            assert (await client.put("/v1/memory/spaces/b", json=SPACE)).status_code == 201
        assert await drop_deleted_spaces(service.ground.database, 20) == 1
    finally:
        await connection.close()
    assert await drop_deleted_spaces(service.ground.database, 20) == 0
    assert (await client.get("/v1/memory/spaces/b")).status_code == 200


async def test_whoever_drops_a_partition_in_use_waits_for_nobody_while_others_wait_for_it(
    client: httpx.AsyncClient, service: Service
) -> None:
    for name in ("a", "b"):
        await client.put(f"/v1/memory/spaces/{name}", json=SPACE)
    database = service.ground.database
    held = Statement(
        "SELECT count(*) AS held FROM pg_locks WHERE relation = CAST('memory_vectors' AS regclass)"
        " AND mode = 'AccessExclusiveLock' AND granted"
    )
    connection = await asyncpg.connect(database.url)
    try:
        number = await connection.fetchval(
            "SELECT number FROM memory_spaces WHERE tenant_id = $1 AND name = 'b'", client.headers["x-test-tenant"]
        )
        assert (await client.delete("/v1/memory/spaces/b")).status_code == 204
        async with connection.transaction():
            # As a write that was planned before, or the build of an index: a circle of those who wait for each other
            # needs one that holds the table of all and waits for this one.
            await connection.execute(f"LOCK TABLE {table_of(number)} IN ROW EXCLUSIVE MODE")
            dropping = create_task(drop_deleted_spaces(database, 20))
            seen = 0
            while not dropping.done():
                row = await database.row(held)
                assert row is not None
                seen += row["held"]
            assert (await dropping, seen) == (0, 0)
        assert await drop_deleted_spaces(database, 20) == 1
    finally:
        await connection.close()


async def test_processes_that_drop_the_same_partitions_are_no_defect_of_either(
    client: httpx.AsyncClient, service: Service
) -> None:
    names = [f"s{number}" for number in range(6)]
    for name in ("active", *names):
        await client.put(f"/v1/memory/spaces/{name}", json=SPACE)
    for name in names:
        assert (await client.delete(f"/v1/memory/spaces/{name}")).status_code == 204
    dropped = await gather(*(drop_deleted_spaces(service.ground.database, 20) for _ in range(4)))
    assert sum(dropped) + await drop_deleted_spaces(service.ground.database, 20) == len(names)


async def test_a_tenant_has_so_many_spaces_and_no_more(client: httpx.AsyncClient, service: Service) -> None:
    fill = Statement(
        "INSERT INTO memory_spaces (tenant_id, name, model, dimensions, metric, language, digest, active)"
        " SELECT :tenant_id, 's' || n, 'm', 3, 'cosine', 'simple', '', n = 1 FROM generate_series(1, 99) AS n"
    )
    await service.ground.database.rows(fill, tenant_id=client.headers["x-test-tenant"])
    assert (await client.put("/v1/memory/spaces/last", json=SPACE)).status_code == 201
    refused = await client.put("/v1/memory/spaces/more", json=SPACE)
    assert (problem(refused), refused.json()["limit"]) == ((409, "memory_spaces_full"), 100)
