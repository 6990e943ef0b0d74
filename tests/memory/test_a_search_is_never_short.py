"""B24: a filtered search gives as many as were asked for whenever so many match, be they far and few among many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest

from app.http.service import Service
from tests.conftest import http, new_tenant, running, settings_for
from tests.memory.remembered import Item, Vectors, build, cosine, remember

NEAR, FAR, DIMENSIONS = 20_000, 50, 8
LIMITS = (20, 40, 41, 200)


@dataclass(frozen=True)
class Crowd:
    """Two tenants on one database: A has many memories near the query and a few far from it, B has a few far ones."""

    url: str
    service: Service
    a: httpx.AsyncClient
    b: httpx.AsyncClient
    query: Vectors
    vectors: Vectors


def ids(answer: httpx.Response) -> list[str]:
    """The ids that were found, in order; the search must succeed."""
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


@pytest.fixture(scope="module")
async def crowd(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Crowd]:
    url = await kept_clone()
    random = np.random.default_rng(24)
    query = random.standard_normal(DIMENSIONS).astype(np.float32)
    near = (query + 0.5 * random.standard_normal((NEAR, DIMENSIONS))).astype(np.float32)
    far = (-query + 0.2 * random.standard_normal((FAR, DIMENSIONS))).astype(np.float32)
    items = [
        Item(f"n{place:05}", row, metadata={"of": "near", "part": place % 10}, session_id=f"s{place % 1000}")
        for place, row in enumerate(near)
    ]
    few = [Item(f"f{place:02}", row, metadata={"of": "far"}) for place, row in enumerate(far)]
    # Twenty thousand are written, and indexed, by one statement each.
    settings = settings_for(url, database={"statement_seconds": 240})
    async with running(settings) as service, await new_tenant(service) as a, await new_tenant(service) as b:
        for client, those in ((a, [*items, *few]), (b, few)):
            assert (
                await client.put("/v1/memory/spaces/s", json={"model": "m", "dimensions": DIMENSIONS})
            ).status_code == 201
            await build(service, await remember(service, client, "s", those), DIMENSIONS)
        yield Crowd(url, service, a, b, query, np.concatenate([near, far]))


def asked(crowd: Crowd, top_k: int, **more: Any) -> dict[str, Any]:
    return {"embedding": crowd.query.tolist(), "top_k": top_k, **more}


@pytest.mark.parametrize("top_k", LIMITS)
async def test_b24_a_small_tenant_finds_all_of_its_own_beside_a_large_one(crowd: Crowd, top_k: int) -> None:
    found = ids(await crowd.b.post("/v1/memory/search", json=asked(crowd, top_k)))
    assert len(found) == min(top_k, FAR)
    assert set(found) <= {f"f{place:02}" for place in range(FAR)}
    assert found == ids(await crowd.b.post("/v1/memory/search", json=asked(crowd, 200)))[:top_k]


@pytest.mark.parametrize("top_k", LIMITS)
async def test_b24_a_narrow_filter_finds_what_is_far_among_many_that_are_near(crowd: Crowd, top_k: int) -> None:
    answer = await crowd.a.post("/v1/memory/search", json=asked(crowd, top_k, filter={"of": "far"}))
    scores = cosine(crowd.vectors[NEAR:], crowd.query)
    best = [f"f{place:02}" for place in np.argsort(-scores)]
    assert ids(answer) == best[:top_k]
    assert answer.json()["exact"] is True


@pytest.mark.parametrize("top_k", LIMITS)
@pytest.mark.parametrize("more", [{}, {"filter": {"part": 3}}, {"kind": "document"}])
async def test_b24_a_wide_filter_is_full_and_finds_what_is_nearest(
    crowd: Crowd, top_k: int, more: dict[str, Any]
) -> None:
    answer = await crowd.a.post("/v1/memory/search", json=asked(crowd, top_k, explain=True, **more))
    found = ids(answer)
    scores = cosine(crowd.vectors[:NEAR], crowd.query)
    those = np.arange(NEAR) if "filter" not in more else np.arange(3, NEAR, 10)
    best = {f"n{place:05}" for place in those[np.argsort(-scores[those])[:top_k]]}
    assert len(found) == len(set(found)) == top_k
    assert len(best & set(found)) >= 0.95 * top_k
    by = {item["explain"]["vector"]["by"] for item in answer.json()["items"]}
    assert by == {"exact" if answer.json()["exact"] else "index"}
    # 2,000 match the filter, which are few enough to be compared; of the others the index finds the nearest.
    assert answer.json()["exact"] is ("filter" in more)


@pytest.mark.parametrize(("scan_rows_max", "compared"), [
    # Nothing counts as narrow: the index is read on and on, up to all of it. Fewer than are asked for are not all.
    (100_000, {20: False, 40: False, 41: False, 200: True}),
    # And given up soon: then everything is compared.
    (1000, {20: True, 40: True, 41: True, 200: True}),
], ids=["read on", "given up"])  # fmt: skip
async def test_b24_reading_on_in_the_index_ends_full_or_in_comparing_all(
    crowd: Crowd, scan_rows_max: int, compared: dict[int, bool]
) -> None:
    far = [f"f{place:02}" for place in np.argsort(-cosine(crowd.vectors[NEAR:], crowd.query))]
    key = crowd.a.headers["authorization"]
    memory = {"exact_rows_max": 0, "scan_rows_max": scan_rows_max}
    async with (
        running(settings_for(crowd.url, memory=memory)) as service,
        http(service, authorization=key) as client,
    ):
        exact = {}
        for top_k in LIMITS:
            answer = await client.post("/v1/memory/search", json=asked(crowd, top_k, filter={"of": "far"}))
            assert ids(answer) == far[:top_k]
            exact[top_k] = answer.json()["exact"]
        assert exact == compared
