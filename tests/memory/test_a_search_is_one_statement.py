"""A search is one statement that brings its settings along, and whose kept plan reads the index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import numpy as np
import pytest

from app.http.service import Service
from tests.memory.remembered import Item, build, remember
from tests.plans import kept_plan
from tests.statements import one_connection, sent_by

MANY, DIMENSIONS = 3000, 8
SETTINGS = ("hnsw.ef_search", "hnsw.iterative_scan", "hnsw.max_scan_tuples", "hnsw.scan_mem_multiplier")


@pytest.fixture(scope="module")
async def one(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[Service, httpx.AsyncClient, int]]:
    """A service with one connection to PostgreSQL, and a space with an index."""
    random = np.random.default_rng(3)
    vectors = random.standard_normal((MANY, DIMENSIONS)).astype(np.float32)
    async with one_connection(kept_clone) as (service, client):
        await client.put("/v1/memory/spaces/s", json={"model": "m", "dimensions": DIMENSIONS})
        items = [Item(f"i{place}", row, f"word{place % 7}", {"n": place % 3}) for place, row in enumerate(vectors)]
        number = await remember(service, client, "s", items)
        await build(service, number, DIMENSIONS)
        yield service, client, number


def asked(**more: object) -> dict[str, object]:
    return {"embedding": [1.0] * DIMENSIONS, **more}


async def test_its_settings_hold_for_the_scan_and_for_nothing_after_it(
    one: tuple[Service, httpx.AsyncClient, int],
) -> None:
    service, client, _ = one
    # By default a scan ends after 40; and the first of a connection comes before the library was loaded.
    answer = (await client.post("/v1/memory/search", json=asked(top_k=500, explain=True))).json()
    assert len(answer["items"]) == 500
    assert {item["explain"]["vector"]["by"] for item in answer["items"]} == {"index"}
    async with service.ground.database.writing() as transaction:
        values = [await transaction.connection.fetchval("SELECT current_setting($1)", name) for name in SETTINGS]
    assert values == ["40", "off", "20000", "1"]


async def test_the_search_is_one_statement(one: tuple[Service, httpx.AsyncClient, int]) -> None:
    service, client, _ = one
    for more in ({}, {"filter": {"n": 1}}, {"query": "word3"}):
        # Its space is remembered from the first search on.
        assert (await client.post("/v1/memory/search", json=asked(**more))).status_code == 200
        async with sent_by(service) as sent:
            assert (await client.post("/v1/memory/search", json=asked(**more))).status_code == 200
        assert len(sent) == 1


@pytest.mark.parametrize("more", [{}, {"filter": {"n": 1}}, {"query": "word3"}, {"top_k": 100}])
async def test_the_plan_that_is_kept_reads_the_index(
    one: tuple[Service, httpx.AsyncClient, int], more: dict[str, object]
) -> None:
    service, client, number = one
    async with sent_by(service) as sent:
        # From the sixth on PostgreSQL may keep the plan.
        for _ in range(7):
            answer = await client.post("/v1/memory/search", json=asked(explain=True, **more))
    assert {item["explain"]["vector"]["by"] for item in answer.json()["items"] if item["explain"]["vector"]} == {
        "index"
    }
    text, arguments = sent[-1].query, sent[-1].args
    async with service.ground.database.writing() as transaction:
        kept = await transaction.connection.fetchval(
            "SELECT generic_plans FROM pg_prepared_statements WHERE statement = $1", text
        )
        plan = await kept_plan(transaction.connection, text, len(arguments))
    assert kept >= 2
    assert f'"Index Name": "ix_memory_vectors_{number}_embedding"' in plan
