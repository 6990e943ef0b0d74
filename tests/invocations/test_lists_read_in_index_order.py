"""Every sort of the invocation list, and `started_at` under each of five filters, reads an index in its order; other
pairs sort what the filter leaves; the summary is one scan of what matches.

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
from tests.plans import kept_plan

ROWS = 20_000
SORTS = ("started_at", "ended_at", "status", "usd_cost", "fitness_score", "accuracy", "duration")
# What one of them holds is sorted by id; the runs, generations and versions themselves are read in order.
GROUPED = ("run_id", "generation_id", "version_id")
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
INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, config_hash)
VALUES ($1, 'nv', 'v0', 'n', 1, '');
INSERT INTO node_invocations (tenant_id, invocation_id, id, node_id, node_version_id, model, status, usd_cost,
  input_tokens, digest)
SELECT $1, 'i' || n, 'n', 'n' || n % 3, 'nv', 'm' || n % 4, 'running', n / 7.0, n, '' FROM generate_series(1, $2) AS n;
"""


@pytest.fixture(scope="module")
async def long_list(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with a client whose tenant has many invocations."""
    settings = settings_for(await kept_clone(), database={"pool_min": 1, "pool_max": 1})
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
    """The custom and the generic plan of the one statement behind a read, and the cursor of the next page."""
    seen: list[Any] = []
    async with service.ground.database.writing() as transaction:
        transaction.connection.add_query_logger(seen.append)
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    async with service.ground.database.writing() as transaction:
        transaction.connection.remove_query_logger(seen.append)
    # Who calls is looked up now and then; that is no part of the read.
    sent = [
        query for query in seen if not query.query.startswith(("BEGIN", "COMMIT")) and "api_keys" not in query.query
    ]
    assert len(sent) == 1, [query.query for query in sent]
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    custom = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {sent[0].query}", *sent[0].args)
    generic = await kept_plan(connection, sent[0].query, len(sent[0].args))
    await connection.close()
    return [json.loads(plan)[0]["Plan"] for plan in (custom, generic)], answer.json().get("next_cursor")


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


def conditions(scan: dict[str, Any]) -> str:
    """What of the table a scan reads, rather than what it throws away."""
    return str(scan.get("Index Cond", scan.get("Recheck Cond", "")))


def scans_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in nodes(plan) if node.get("Relation Name") == "invocations"]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("each", [*FILTERS, "session_id=s3", "parent_invocation_id=i7"])
@pytest.mark.parametrize("sort", SORTS)
async def test_any_other_pair_sorts_only_what_the_filter_leaves(
    long_list: tuple[Service, httpx.AsyncClient], sort: str, each: str, order: str
) -> None:
    service, client = long_list
    column = each.partition("=")[0]
    found, _ = await plans(service, client, f"/v1/invocations?limit=50&sort={sort}&order={order}&{each}")
    for plan in found:
        sorted_scans = [
            scan
            for node in nodes(plan)
            if node["Node Type"] in ("Sort", "Incremental Sort") and reads_all(node)
            for scan in scans_of(node)
        ]
        for scan in sorted_scans:
            assert f"({column} " in conditions(scan), json.dumps(plan, indent=1)
        assert not any(scan["Node Type"] == "Seq Scan" for scan in scans_of(plan)), json.dumps(plan, indent=1)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", GROUPED)
async def test_a_link_is_read_in_order_and_only_what_it_holds_is_sorted(
    long_list: tuple[Service, httpx.AsyncClient], sort: str, order: str
) -> None:
    service, client = long_list
    path = f"/v1/invocations?limit=50&sort={sort}&order={order}"
    first, cursor = await plans(service, client, path)
    later, _ = await plans(service, client, f"{path}&cursor={cursor}")
    for plan in (*first, *later):
        for node in nodes(plan):
            if node["Node Type"] == "Sort":
                assert not reads_all(node), json.dumps(plan, indent=1)
            if node["Node Type"] == "Incremental Sort":
                assert any(key.endswith(sort) for key in (k.split(" ")[0] for k in node["Presorted Key"]))
        assert {scan["Node Type"] for scan in scans_of(plan)} <= {"Index Scan", "Index Only Scan"}


@pytest.mark.parametrize("each", ["", *FILTERS, "session_id=s3", "started_after=2026-01-01T05:00:00Z"])
async def test_the_summary_is_one_scan_of_what_matches(long_list: tuple[Service, httpx.AsyncClient], each: str) -> None:
    service, client = long_list
    found, _ = await plans(service, client, f"/v1/invocations/summary?{each}")
    column = each.partition("=")[0].replace("started_after", "started_at")
    for plan in found:
        (scan,) = scans_of(plan)
        # A quarter of the rows is cheaper to find in the whole table than by an index, and so would be a range of which
        # nothing is known: one is planned for its values.
        if each and column != "status" and (column != "started_at" or plan is found[0]):
            assert f"({column} " in conditions(scan), json.dumps(plan, indent=1)


@pytest.mark.parametrize("group_by", ["day", "workflow", "version", "node", "model", "run", "generation"])
@pytest.mark.parametrize("each", ["", "run_id=r3", "linked_run_id=r3"])
async def test_costs_are_one_statement_over_what_matches(
    long_list: tuple[Service, httpx.AsyncClient], group_by: str, each: str
) -> None:
    service, client = long_list
    found, _ = await plans(service, client, f"/v1/costs?group_by={group_by}&{each}")
    for plan in found:
        assert len(scans_of(plan)) <= 2
        if each == "run_id=r3":
            assert all("(run_id " in conditions(scan) for scan in scans_of(plan)), json.dumps(plan, indent=1)


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
