"""Scores, costs and numbers at the ends of what is accepted: every read still answers, and rightly."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import problem, send

RUNS = "/v1/evolution-runs"
LARGEST = 1.7976931348623157e308
SORTS = (
    "started_at", "ended_at", "status", "duration", "generation_count", "invocation_count",
    "successful_invocation_count", "total_cost", "accuracy_delta",
)  # fmt: skip
SVG = {"Accept": "image/svg+xml"}


async def scored(client: httpx.AsyncClient, make: Make, by_generation: list[list[float]]) -> None:
    """A run with one invocation for each number, which is its accuracy and its fitness score."""
    await make.workflow(id="w")
    await make.version("w", id="v")
    await make.created(RUNS, id="r")
    for number, values in enumerate(by_generation):
        await make.created(f"{RUNS}/r/generations", id=f"g{number}")
        for value in values:
            made = await make.invocation(version_id="v", generation_id=f"g{number}")
            ended = {"status": "completed", "accuracy": value, "fitness_score": value}
            assert (await client.post(f"/v1/invocations/{made['id']}/end", json=ended)).status_code == 200


async def told(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([LARGEST, LARGEST, LARGEST], LARGEST),
        ([-LARGEST, -LARGEST], -LARGEST),
        ([LARGEST, -LARGEST], 0.0),
        ([1e200, 3e200], 2e200),
        ([5e-324, 5e-324], 5e-324),
        ([LARGEST, -LARGEST, 5e-324], 0.0),
        ([1e308, 7.0, -1e308], 7.0 / 3),
        ([0.1, 0.2, 0.4], (0.1 + 0.2 + 0.4) / 3),
    ],
)
async def test_the_mean_of_any_scores_is_answered(
    client: httpx.AsyncClient, make: Make, values: list[float], mean: float
) -> None:
    await scored(client, make, [values])
    (step,) = (await told(client, f"{RUNS}/r/progress"))["generations"]
    assert (step["accuracy"], step["avg_fitness"]) == (pytest.approx(mean), pytest.approx(mean))
    assert (await told(client, f"{RUNS}/r"))["accuracy_delta"] == 0
    assert (await told(client, "/v1/invocations/summary?linked_run_id=r"))["avg_accuracy"] == pytest.approx(mean)
    assert (await client.get(f"{RUNS}/r/progress", headers=SVG)).status_code == 200


async def test_one_run_with_extreme_scores_leaves_the_list_of_runs_readable(
    client: httpx.AsyncClient, make: Make
) -> None:
    await scored(client, make, [[-LARGEST, -LARGEST], [LARGEST, LARGEST]])
    for sort in SORTS:
        (run,) = (await told(client, f"{RUNS}?sort={sort}"))["items"]
        assert run["accuracy_delta"] == LARGEST
    assert (await client.get(f"{RUNS}/r/graph", headers=SVG)).status_code == 200


async def test_percentiles_between_the_least_and_the_largest_double_are_doubles(
    client: httpx.AsyncClient, make: Make
) -> None:
    await scored(client, make, [[-LARGEST, LARGEST]])
    await make.invocation(version_id="v", id="without a score")
    scores = (await told(client, "/v1/invocations/summary"))["fitness_score"]
    assert scores == {name: pytest.approx(LARGEST * share) for name, share in
                      (("p50", 0.0), ("p90", 0.8), ("p95", 0.9), ("p99", 0.98))}  # fmt: skip


async def test_members_with_extreme_fitness_have_a_mean(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    await make.created(RUNS, id="r", generation={"id": "g"})
    for name in ("a", "b"):
        await make.version("w", id=name)
    items = [{"version_id": name, "fitness": LARGEST} for name in ("a", "b")]
    assert (await client.put("/v1/generations/g/members", json={"items": items})).status_code == 200
    (step,) = (await told(client, f"{RUNS}/r/progress"))["generations"]
    assert step["avg_fitness"] == LARGEST


async def test_after_the_last_number_a_generation_needs_a_number_of_its_own(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created(RUNS, id="r")
    generations = f"{RUNS}/r/generations"
    assert (await client.post(generations, json={"id": "last", "number": 2**53 - 1})).status_code == 201
    for body in ({}, {"id": "next"}):
        refused = await client.post(generations, json=body)
        assert problem(refused) == (409, "generation_conflict")
        assert refused.json()["number"] == 2**53 - 1
    assert (await client.post(generations, json={"number": 5})).status_code == 201
    assert (await client.post(generations, json={"id": "last"})).status_code == 200


async def test_the_greatest_cost_is_kept_to_its_last_digit(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RUNS, id="r", generation={"id": "g"})
    greatest = "99999999999999999999.999999999999999999"
    body = f'{{"stats":{{"evaluation_cost":{greatest}}}}}'.encode()
    answer = await send(client, "POST", "/v1/generations/g/complete", body)
    assert answer.status_code == 200
    assert f'"evaluation_cost":{greatest}' in answer.text
    assert f'"usd_cost":{greatest}' in (await client.get(f"{RUNS}/r/progress")).text
