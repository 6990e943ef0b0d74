"""What an overview of invocations asks: every filter and sort, nulls last, an exact total, sums over the whole set."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conftest import Make

MADE: list[dict[str, Any]] = [
    {"id": "a", "end": "completed", "usd_cost": 0.25, "accuracy": 0.5, "fitness_score": 3, "second": 5},
    {"id": "b", "end": "failed", "usd_cost": 0.5, "accuracy": 1, "fitness_score": None, "second": 1},
    {"id": "c", "end": None, "usd_cost": None, "accuracy": None, "fitness_score": 2, "second": None},
    {"id": "d", "end": "failed", "usd_cost": 0.125, "accuracy": None, "fitness_score": 1, "second": 3},
]
# In ascending order; what comes after the bar has no value, and is last in both orders.
SORTS = {
    "started_at": "abcd|",
    "ended_at": "bda|c",
    "status": "abdc|",
    "usd_cost": "dab|c",
    "accuracy": "ab|cd",
    "fitness_score": "dca|b",
    "duration": "bda|c",
    "run_id": "bda|c",
    "generation_id": "bda|c",
    "version_id": "bcda|",
}


@pytest.fixture(autouse=True)
async def overview(client: httpx.AsyncClient, make: Make) -> None:
    """Four invocations of two versions, one of them without links and scores."""
    await make.workflow(id="w", description="Answers questions.")
    for name in ("v2", "v1"):
        await make.version("w", id=name)
    for name in ("r2", "r1"):
        await make.created("/v1/evolution-runs", id=name, goal_text="g")
        await make.created(f"/v1/evolution-runs/{name}/generations", id=f"g{name[1]}", number=0)
    for number, given in enumerate(MADE):
        fields = {name: given[name] for name in ("id", "usd_cost", "accuracy", "fitness_score")}
        links = {} if given["id"] == "c" else {"run_id": "r2", "generation_id": "g2"}
        if given["id"] in "bd":
            links = {"run_id": "r1", "generation_id": "g1"}
        version = "v2" if given["id"] == "a" else "v1"
        await make.invocation(version_id=version, started_at=f"2026-01-0{number + 1}T00:00:00Z", **fields, **links)
        if given["end"]:
            end = {"status": given["end"], "ended_at": f"2026-01-1{given['second']}T00:00:0{given['second']}Z"}
            assert (await client.post(f"/v1/invocations/{given['id']}/end", json=end)).status_code == 200


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("sort", SORTS)
async def test_every_sort_goes_both_ways_with_nulls_last(client: httpx.AsyncClient, sort: str, limit: int) -> None:
    valued, _, without = SORTS[sort].partition("|")
    for order in ("asc", "desc"):
        seen, cursor = "", {}
        while True:
            query = {"sort": sort, "order": order, "limit": limit, **cursor}
            page = (await client.get("/v1/invocations", params=query)).json()
            seen += "".join(item["id"] for item in page["items"])
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        values = {item["id"]: item for item in (await client.get("/v1/invocations")).json()["items"]}
        assert set(seen[len(valued) :]) == set(without)
        if order == "asc":
            assert seen[: len(valued)] == valued
        else:
            assert _groups(seen[: len(valued)], values, sort) == _groups(valued, values, sort)[::-1]


def _groups(seen: str, values: dict[str, Any], sort: str) -> list[set[str]]:
    """Ids of equal value together, in their order."""
    groups: list[tuple[Any, set[str]]] = []
    for one in seen:
        value = one if sort == "duration" else values[one][sort]
        if not groups or groups[-1][0] != value:
            groups.append((value, set()))
        groups[-1][1].add(one)
    return [ids for _, ids in groups]


@pytest.mark.parametrize(
    ("query", "ids", "summed"),
    [
        ("", "dcba", {"spent": 0.875, "failed": 2, "accuracy": 0.75}),
        ("status=failed", "db", {"spent": 0.625, "failed": 2, "accuracy": 1}),
        ("status=failed&status=completed", "dba", {"spent": 0.875, "failed": 2, "accuracy": 0.75}),
        ("run_id=r1", "db", {"spent": 0.625, "failed": 2, "accuracy": 1}),
        ("generation_id=g2", "a", {"spent": 0.25, "failed": 0, "accuracy": 0.5}),
        ("version_id=v1", "dcb", {"spent": 0.625, "failed": 2, "accuracy": 1}),
        ("started_after=2026-01-02T00:00:00Z&started_before=2026-01-04T00:00:00Z", "cb",
         {"spent": 0.5, "failed": 1, "accuracy": 1}),
        ("min_usd_cost=0.125&max_usd_cost=0.25", "da", {"spent": 0.375, "failed": 1, "accuracy": 0.5}),
        ("min_accuracy=0.6", "b", {"spent": 0.5, "failed": 1, "accuracy": 1}),
        ("max_fitness_score=2", "dc", {"spent": 0.125, "failed": 1, "accuracy": None}),
        ("has_fitness_score=false", "b", {"spent": 0.5, "failed": 1, "accuracy": 1}),
        ("has_accuracy=true", "ba", {"spent": 0.75, "failed": 1, "accuracy": 0.75}),
        ("status=rolled_back", "", {"spent": None, "failed": 0, "accuracy": None}),
    ],
)  # fmt: skip
async def test_a_filter_narrows_rows_total_and_sums_alike(
    client: httpx.AsyncClient, query: str, ids: str, summed: dict[str, Any]
) -> None:
    page = (await client.get(f"/v1/invocations?{query}&limit=2&count=exact&include=workflow_description")).json()
    assert "".join(item["id"] for item in page["items"]) == ids[:2]
    assert page["total"] == len(ids)
    for item in page["items"]:
        assert (item["workflow_id"], item["workflow_description"]) == ("w", "Answers questions.")
    summary = (await client.get(f"/v1/invocations/summary?{query}")).json()
    found = {
        "spent": summary["usd_cost"]["sum"],
        "failed": summary["by_status"].get("failed", 0),
        "accuracy": summary["avg_accuracy"],
    }
    assert (summary["count"], found) == (len(ids), summed)
