"""The list of node invocations across invocations reads its page from an index, also where many started at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import httpx
import pytest

from app.db.database import set_codecs
from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for
from tests.statements import sent_by

ROWS = 10_000
SEED = """
INSERT INTO workflows (tenant_id, id) VALUES ($1, 'w');
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
VALUES ($1, 'v', 'w', '{}', 'raw:' || repeat('0', 64), 'init');
INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, config_hash)
VALUES ($1, 'nv', 'v', 'n', 1, '');
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, digest)
SELECT $1, 'i' || n, 'v', 'w', 'running', now(), '' FROM generate_series(0, 99) AS n;
INSERT INTO node_invocations (tenant_id, invocation_id, id, node_id, node_version_id, status, started_at, digest)
SELECT $1, 'i' || n % 100, 'ni' || n / 100, 'n', 'nv', 'running', timestamptz '2026-01-01', ''
FROM generate_series(0, 9999) AS n;
"""


@pytest.fixture
async def long_list(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with a client whose tenant has many node invocations that started at the same instant."""
    settings = settings_for(await clone(), database={"pool_min": 1, "pool_max": 1})
    async with running(settings) as service, await new_tenant(service) as client:
        connection = await asyncpg.connect(service.ground.database.url)
        for statement in SEED.strip().split(";\n"):
            text = statement.rstrip(";").replace("$1", "$1::text")
            await connection.execute(text, client.headers["x-test-tenant"])
        await connection.execute("ANALYZE")
        await connection.close()
        yield service, client


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


@pytest.mark.parametrize("query", ["order=desc", "order=asc", "node_id=n"])
async def test_b07_a_page_costs_its_rows_and_every_row_comes_once(
    long_list: tuple[Service, httpx.AsyncClient], query: str
) -> None:
    service, client = long_list
    seen: list[tuple[str, str]] = []
    cursor: str | None = ""
    async with sent_by(service) as sent:
        while cursor is not None:
            page = (await client.get(f"/v1/node-invocations?limit=1000&{query}{cursor}")).json()
            seen += [(item["invocation_id"], item["id"]) for item in page["items"]]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert len(seen) == len(set(seen)) == ROWS
    assert seen == sorted(seen, reverse="asc" not in query)
    queries = [query for query in sent if "FROM node_invocations AS t" in query.query]
    assert len(queries) == 10
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    for each in (queries[0], queries[-1]):
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {each.query}", *each.args)
        kinds = {node["Node Type"] for node in nodes(json.loads(text)[0]["Plan"])}
        assert not kinds & {"Sort", "Incremental Sort", "Seq Scan"}, text
    await connection.close()
