"""Node versions: one revision for each configuration, in dense numbers, whoever writes at once."""

from __future__ import annotations

import json
from asyncio import gather
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.db.database import Database
from app.settings import DatabaseSettings
from app.versions import node_store
from app.versions.errors import VersionNotFound
from app.versions.node_errors import NodeVersionConflict

SEED = """
INSERT INTO tenants (tenant_id) VALUES ('t');
INSERT INTO workflows (tenant_id, id) VALUES ('t', 'w');
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
VALUES ('t', 'v', 'w', '{}', 'raw:' || repeat('0', 64), 'init');
"""


@pytest.fixture
async def database(clone: Callable[[], Awaitable[str]]) -> Any:
    url = await clone()
    connection = await asyncpg.connect(url)
    await connection.execute(SEED)
    await connection.close()
    opened = await Database.open(DatabaseSettings(url=url, pool_min=0, pool_max=12))
    yield opened
    await opened.close()


async def record(database: Database, *nodes: dict[str, Any], version_id: str = "v") -> list[dict[str, Any]]:
    async with database.writing() as writer:
        return [json.loads(body) for body in await node_store.record(writer, "t", version_id, list(nodes))]


async def test_bodies_come_in_the_order_given_and_equal_ones_are_one_row(database: Database) -> None:
    found = await record(
        database,
        {"node_id": "b", "llm_model": "m", "tools": ["x", "y"], "memory": b'{"a": 1}'},
        {"node_id": "a", "system_prompt": "p"},
        {"node_id": "b", "llm_model": "m2"},
        {"node_id": "b", "llm_model": "m", "tools": ["x", "y"], "memory": b'{"a": 1}', "handoffs": []},
    )
    assert [(node["node_id"], node["revision"]) for node in found] == [("b", 1), ("a", 1), ("b", 2), ("b", 1)]
    assert found[0] == found[3]
    assert (found[0]["tools"], found[0]["memory"], found[0]["extras"]) == (["x", "y"], {"a": 1}, {})
    assert [node["id"] for node in await record(database, {"node_id": "a", "system_prompt": "p"})] == [found[1]["id"]]


async def test_an_unknown_version_or_a_foreign_id_is_refused(database: Database) -> None:
    with pytest.raises(VersionNotFound):
        await record(database, {"node_id": "n"}, version_id="none")
    await record(database, {"id": "x", "node_id": "n"})
    with pytest.raises(NodeVersionConflict):
        await record(database, {"id": "x", "node_id": "n", "llm_model": "m"})
    with pytest.raises(NodeVersionConflict):
        await record(database, {"id": "y", "node_id": "n"})


async def test_b09_thirty_parallel_configurations_take_thirty_dense_revisions(database: Database) -> None:
    found = await gather(*(record(database, {"node_id": "n", "llm_model": f"m{n}"}) for n in range(30)))
    assert sorted(node["revision"] for (node,) in found) == list(range(1, 31))
    again = await gather(*(record(database, {"node_id": "n", "llm_model": "same"}) for _ in range(30)))
    assert len({node["id"] for (node,) in again}) == 1
