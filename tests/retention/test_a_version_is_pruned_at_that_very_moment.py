"""A version that loses its content while somebody is about to run it, or to send something like it again."""

from __future__ import annotations

from asyncio import create_task
from typing import Any

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem
from tests.waiting import held_up

# As retention holds it: nobody can refer to it before the commit.
LOCK = "SELECT FROM versions WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
NODES = "DELETE FROM node_versions WHERE tenant_id = $1 AND version_id = $2"
DELETE = "DELETE FROM versions WHERE tenant_id = $1 AND id = $2"
PRUNE = "UPDATE versions SET dsl = NULL, pruned_at = now() WHERE tenant_id = $1 AND id = $2"


async def test_an_invocation_that_waits_for_it_is_refused(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    retention = await asyncpg.connect(service.ground.database.url)
    try:
        async with retention.transaction():
            tenant = client.headers["x-test-tenant"]
            await retention.execute(LOCK, tenant, version)
            await retention.execute(PRUNE, tenant, version)
            asked = create_task(client.post("/v1/invocations", json={"version_id": version}))
            await held_up(service)
    finally:
        await retention.close()
    assert problem(await asked) == (409, "version_is_pruned")
    assert (await client.get("/v1/invocations")).json()["items"] == []


async def test_another_ancestry_brings_no_content_back(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    workflow = (await make.workflow())["id"]
    for parent in ("p", "q"):
        await make.version(workflow, id=parent)
    given: dict[str, Any] = {"id": "v", "dsl": {"x": 1}, "operation": "mutation"}
    await make.created(f"/v1/workflows/{workflow}/versions", **given, parent1_id="p")
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        await connection.execute(PRUNE, client.headers["x-test-tenant"], "v")
    finally:
        await connection.close()
    path = f"/v1/workflows/{workflow}/versions"
    assert problem(await client.post(path, json={**given, "parent1_id": "q"})) == (409, "version_conflict")
    back = await client.post(path, json={**given, "parent1_id": "p"})
    assert (back.status_code, back.json()["pruned_at"]) == (200, None)


async def test_who_keeps_what_is_there_finds_it_with_its_content(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version(id="v", dsl={"x": 1}))["id"]
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        await connection.execute(PRUNE, client.headers["x-test-tenant"], version)
    finally:
        await connection.close()
    path = f"/v1/workflows/{(await make.workflow())['id']}/versions?on_existing=keep"
    back = await client.post(path, json={"id": version, "dsl": {"x": 1}, "operation": "init"})
    assert (back.status_code, back.json()["pruned_at"]) == (200, None)
    assert (await client.get(f"/v1/versions/{version}/dsl")).json() == {"x": 1}


@pytest.mark.parametrize("leaving", ["", PRUNE, DELETE])
async def test_what_waits_with_its_nodes_is_there_with_its_content(
    service: Service, client: httpx.AsyncClient, make: Make, leaving: str
) -> None:
    workflow = (await make.workflow())["id"]
    version = await make.version(workflow, dsl={"x": 1})
    retention = await asyncpg.connect(service.ground.database.url)
    key = client.headers["x-test-tenant"], version["id"]
    try:
        async with retention.transaction():
            await retention.execute(LOCK, *key)
            again = create_task(make.version(workflow, dsl={"x": 1}))
            await held_up(service)
            await retention.execute(NODES, *key)
            if leaving:
                await retention.execute(leaving, *key)
    finally:
        await retention.close()
    assert (await again)["pruned_at"] is None
    assert (await client.get(f"/v1/versions/{version['id']}/dsl")).json() == {"x": 1}
    assert len((await client.get(f"/v1/versions/{version['id']}/nodes")).json()["items"]) == 1


async def test_memory_of_a_node_whose_version_leaves_is_of_none(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    retention = await asyncpg.connect(service.ground.database.url)
    key = client.headers["x-test-tenant"], version
    try:
        async with retention.transaction():
            await retention.execute(LOCK, *key)
            written = create_task(client.put(f"/v1/versions/{version}/nodes/n/memory", json={}))
            await held_up(service)
            await retention.execute(NODES, *key)
            await retention.execute(DELETE, *key)
    finally:
        await retention.close()
    assert problem(await written) == (404, "node_version_missing")
