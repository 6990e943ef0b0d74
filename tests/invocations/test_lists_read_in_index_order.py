"""Every sort of the invocation list, and `started_at` under each of five filters, reads an index in its order.

Judged by the plans of the very statements that the service sends, custom and generic, at the start of the list, after
a key and after a null.
"""

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

ROWS = 20_000
SORTS = ("started_at", "ended_at", "status", "usd_cost", "fitness_score", "accuracy", "duration")
FILTERS = ("workflow_id=w3", "version_id=v3", "run_id=r3", "generation_id=g3", "status=completed")
SEED = """
INSERT INTO workflows (tenant_id, id) SELECT $1, 'w' || n FROM generate_series(0, 9) AS n;
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
SELECT $1, 'v' || n, 'w' || n, '{}', 'raw:' || repeat('0', 64), 'init' FROM generate_series(0, 9) AS n;
INSERT INTO evolution_runs (tenant_id, id, status) SELECT $1, 'r' || n, 'running' FROM generate_series(0, 9) AS n;
INSERT INTO generations (tenant_id, id, run_id, number)
SELECT $1, 'g' || n, 'r' || n, 0 FROM generate_series(0, 9) AS n;
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, run_id, generation_id, status, started_at, ended_at,
  usd_cost, fitness_score, accuracy, digest)
SELECT $1, 'i' || n, 'v' || n % 10, 'w' || n % 10, 'r' || n % 10, 'g' || n % 10,
  CASE n % 4 WHEN 0 THEN 'queued' WHEN 1 THEN 'running' WHEN 2 THEN 'completed' ELSE 'failed' END,
  CASE WHEN n % 4 > 0 THEN timestamptz '2026-01-01' + n * interval '1 second' END,
  CASE WHEN n % 4 > 1 THEN timestamptz '2026-01-02' + n * interval '1 second' END,
  CASE WHEN n % 5 > 0 THEN n / 7.0 END, CASE WHEN n % 6 > 0 THEN n / 9.0 END, CASE WHEN n % 7 > 0 THEN n / 3.0 END, ''
FROM generate_series(1, $2) AS n;
"""


@pytest.fixture(scope="module")
async def long_list(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with a client whose tenant has many invocations."""
    settings = settings_for(await clone(), database={"pool_min": 1, "pool_max": 1})
    async with running(settings) as service, await new_tenant(service) as client:
        connection = await asyncpg.connect(service.ground.database.url)
        for statement in SEED.strip().split(";\n"):
            arguments = [client.headers["x-test-tenant"], ROWS][: 2 if "$2" in statement else 1]
            await connection.execute(statement.rstrip(";").replace("$1", "$1::text"), *arguments)
        await connection.execute("ANALYZE")
        await connection.close()
        yield service, client


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def sorts_the_table(plan: dict[str, Any]) -> bool:
    """Whether a Sort stands over a scan with no Limit between: it would read everything that matches."""
    return any(node["Node Type"] in ("Sort", "Incremental Sort") and reads_all(node) for node in nodes(plan))


def reads_all(node: dict[str, Any]) -> bool:
    if node["Node Type"] == "Limit":
        return False
    return node.get("Relation Name") == "invocations" or any(map(reads_all, node.get("Plans", [])))


async def plans(service: Service, client: httpx.AsyncClient, path: str) -> tuple[list[dict[str, Any]], str | None]:
    """The custom and the generic plan of the statement behind a page, and the cursor of the next page."""
    seen: list[Any] = []
    async with service.ground.database.writing() as transaction:
        transaction.connection.add_query_logger(seen.append)
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    sent = [query for query in seen if "FROM invocations AS t" in query.query]
    assert len(sent) == 1
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    found = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        await connection.execute(f"SET plan_cache_mode = {mode}")
        explained = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {sent[0].query}", *sent[0].args)
        found.append(json.loads(explained)[0]["Plan"])
    await connection.close()
    return found, answer.json()["next_cursor"]


def assert_in_index_order(plan: dict[str, Any]) -> None:
    assert not sorts_the_table(plan), json.dumps(plan, indent=1)
    scans = [node for node in nodes(plan) if node.get("Relation Name") == "invocations"]
    assert scans
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}, json.dumps(plan, indent=1)
    assert not any("Filter" in node for node in scans), json.dumps(plan, indent=1)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("query", [f"sort={sort}" for sort in SORTS] + [f"sort=started_at&{each}" for each in FILTERS])
async def test_a_page_is_read_in_index_order(
    long_list: tuple[Service, httpx.AsyncClient], query: str, order: str
) -> None:
    service, client = long_list
    path = f"/v1/invocations?limit=50&{query}&order={order}"
    first, cursor = await plans(service, client, path)
    later, _ = await plans(service, client, f"{path}&cursor={cursor}")
    for plan in (*first, *later):
        assert_in_index_order(plan)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["started_at", "usd_cost", "duration"])
async def test_a_page_among_the_nulls_is_read_in_index_order(
    long_list: tuple[Service, httpx.AsyncClient], sort: str, order: str
) -> None:
    service, client = long_list
    path, cursor = f"/v1/invocations?sort={sort}&order={order}", ""
    for _ in range(ROWS // 1000 - 1):
        cursor = (await client.get(f"{path}&limit=1000{cursor}")).json()["next_cursor"]
        cursor = f"&cursor={cursor}"
    found, _ = await plans(service, client, f"{path}&limit=50{cursor}")
    for plan in found:
        assert_in_index_order(plan)


async def test_the_pages_hold_each_row_once_in_order(long_list: tuple[Service, httpx.AsyncClient]) -> None:
    _, client = long_list
    seen: list[tuple[float | None, str]] = []
    path = "/v1/invocations?limit=1000&sort=usd_cost&order=desc"
    cursor = None
    while True:
        page = (await client.get(path + (f"&cursor={cursor}" if cursor else ""))).json()
        seen += [(item["usd_cost"], item["id"]) for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len({identity for _, identity in seen}) == ROWS
    valued = [item for item in seen if item[0] is not None]
    assert seen[: len(valued)] == valued
    assert valued == sorted(valued, reverse=True)
