"""The cost of a walk grows with what it meets, not with the table: judged by the statement that the service sends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx
import pytest

from app.db.database import set_codecs
from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for
from tests.genealogy.lineages import insert
from tests.invocations.test_lists_read_in_index_order import nodes

FEW, MANY, DEEP = 1000, 120_000, 50
LINE = "SELECT 'deep' || n, 'deep' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, 50) AS n"


def lines(rows: int) -> str:
    """Lines of fifty, each with its own founder, and now and then a parent from the line beside it."""
    beside = "CASE WHEN n % 50 > 0 AND n % 7 = 0 THEN 'v' || n - 50 END"
    return (
        f"SELECT 'v' || n, CASE WHEN n % 50 > 0 THEN 'v' || n - 1 END, {beside} FROM generate_series(50, {rows}) AS n"
    )


@dataclass
class Cost:
    """What one statement took: pages of shared memory, scans of whole tables, and its plan."""

    pages: int
    table_scans: int
    plan: dict[str, Any]


@asynccontextmanager
async def lineage(url: str, rows: int) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    settings = settings_for(url, database={"pool_min": 1, "pool_max": 1})
    async with running(settings) as service, await new_tenant(service) as client:
        founders = "SELECT 'v' || n, NULL, NULL FROM generate_series(0, 49) AS n"
        await insert(service, client, founders, lines(rows), LINE)
        yield service, client


async def cost(service: Service, client: httpx.AsyncClient, path: str) -> Cost:
    """The cost of the one statement behind a read, once its pages and plans are warm."""
    seen: list[Any] = []
    async with service.ground.database.writing() as transaction:
        transaction.connection.add_query_logger(seen.append)
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) == DEEP
    async with service.ground.database.writing() as transaction:
        transaction.connection.remove_query_logger(seen.append)
    sent = [query for query in seen if "versions" in query.query]
    assert len(sent) == 1
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sent[0].query}"
    await connection.fetchval(explain, *sent[0].args)
    async with connection.transaction():
        plan = json.loads(await connection.fetchval(explain, *sent[0].args))[0]["Plan"]
        scans = await connection.fetchval("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'versions'")
    await connection.close()
    return Cost(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], scans, plan)


@pytest.mark.timeout(120)
async def test_fifty_ancestors_and_descendants_cost_the_same_among_few_and_among_many(
    clone: Callable[[], Awaitable[str]],
) -> None:
    found: dict[tuple[str, int], Cost] = {}
    for rows in (FEW, MANY):
        async with lineage(await clone(), rows) as (service, client):
            for path in ("deep50/ancestors", "deep0/descendants"):
                found[path, rows] = await cost(service, client, f"/v1/versions/{path}?limit=100")
    for (path, rows), spent in found.items():
        scans = [node for node in nodes(spent.plan) if node.get("Relation Name") == "versions"]
        assert {node["Node Type"] for node in scans} == {"Index Scan"}, (path, rows, spent.plan)
        # The walk itself is in a function; what it read is counted with the statement.
        assert spent.table_scans == 0, (path, rows)
        assert spent.pages <= 1.5 * found[path, FEW].pages, (path, rows, spent.pages, found[path, FEW].pages)


async def test_a_page_of_many_descendants_ends_with_the_level_that_fills_it(
    clone: Callable[[], Awaitable[str]],
) -> None:
    async with lineage(await clone(), 0) as (service, client):
        line = "SELECT 'c' || n, 'c' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, %d) AS n"
        await insert(service, client, line % 3000)
        page = await cost(service, client, f"/v1/versions/c0/descendants?limit={DEEP}")
        whole = await cost(service, client, f"/v1/versions/c0/descendants?limit={DEEP}&order=desc")
    assert page.pages * 10 < whole.pages
