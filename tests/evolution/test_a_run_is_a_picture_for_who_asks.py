"""`Accept: image/svg+xml` draws a run's graph and its progress; everyone else gets the same JSON as ever."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make

SVG = "{http://www.w3.org/2000/svg}"
ASKING = {"accept": "image/svg+xml"}


async def searched(client: httpx.AsyncClient, make: Make) -> None:
    """A run `r` of two generations: `first` and `second` in 0, their child `third`, the best, in 1."""
    await make.created("/v1/evolution-runs", id="r", generation={"id": "g0"})
    await make.created("/v1/evolution-runs/r/generations", id="g1")
    await make.workflow(id="w")
    for name, generation, more in (
        ("first", "g0", {}),
        ("second", "g0", {}),
        ("third", "g1", {"operation": "crossover", "parent1_id": "first", "parent2_id": "second"}),
    ):
        await make.version("w", id=name, generation_id=generation, **more)
    for name, version, fitness, cost in (
        ("i1", "first", 0.25, "0.5"),
        ("i2", "second", 0.5, "0.25"),
        ("i3", "third", 0.875, "1"),
        ("i4", "third", 0.75, "1"),
    ):
        await make.invocation(id=name, version_id=version, run_id="r")
        ended = await client.post(
            f"/v1/invocations/{name}/end",
            json={"status": "completed", "fitness_score": fitness, "accuracy": fitness, "usd_cost": cost},
        )
        assert ended.status_code == 200, ended.text


def texts(answer: httpx.Response) -> set[str]:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml"), answer.text
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert (answer.headers["x-content-type-options"], answer.headers["vary"]) == ("nosniff", "Accept")
    return {text.text or "" for text in fromstring(answer.content).iter(f"{SVG}text")}


async def test_a_graph_shows_versions_by_generation_and_the_best(client: httpx.AsyncClient, make: Make) -> None:
    await searched(client, make)
    found = texts(await client.get("/v1/evolution-runs/r/graph", headers=ASKING))
    assert {
        "Graph of evolution run r",
        "generation 0",
        "1",
        "first",
        "fitness 0.25",
        "third",
        "fitness 0.875, 2 runs",
        "init 2",
        "crossover 1",
        "best: third fitness 0.875, 2 runs, and its line of first parents",
    } <= found
    assert any(text.endswith("4 invocations, told with their versions") for text in found)
    cut = texts(await client.get("/v1/evolution-runs/r/graph?limit=1", headers=ASKING))
    assert any(text.endswith("later ones are left out") for text in cut)


async def test_progress_is_a_chart_with_names_and_units(client: httpx.AsyncClient, make: Make) -> None:
    await searched(client, make)
    found = texts(await client.get("/v1/evolution-runs/r/progress", headers=ASKING))
    assert {"Progress of evolution run r", "fitness", "accuracy", "cost (USD)", "generation", "best"} <= found
    assert "2 generations · best fitness 0.875 in generation 1 · 2.75 USD in all" in found
    cut = texts(await client.get("/v1/evolution-runs/r/progress?limit=1", headers=ASKING))
    assert any(text.endswith("generation 1 and later are left out") for text in cut)


@pytest.mark.parametrize("what", ["graph", "progress"])
async def test_the_rest_is_as_without_pictures(client: httpx.AsyncClient, make: Make, what: str) -> None:
    await make.created("/v1/evolution-runs", id="r")
    path = f"/v1/evolution-runs/r/{what}"
    drawn = [await client.get(path, headers=ASKING) for _ in range(2)]
    assert drawn[0].content == drawn[1].content
    plain = await client.get(path)
    assert (plain.headers["content-type"], plain.headers["vary"]) == ("application/json", "Accept")
    missing = await client.get(f"/v1/evolution-runs/missing/{what}", headers=ASKING)
    assert (missing.status_code, missing.json()["code"]) == (404, "evolution_run_not_found")
    refused = await client.get(f"{path}?limit=0", headers=ASKING)
    assert refused.status_code == 422


async def test_too_many_generations_are_refused_with_what_to_do(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/evolution-runs", id="r")
    for first in range(0, 2001, 500):
        operations = [
            {"method": "POST", "path": "/v1/evolution-runs/r/generations", "body": {"number": number}}
            for number in range(first, min(first + 500, 2001))
        ]
        answer = await client.post("/v1/batch", json={"operations": operations})
        assert answer.status_code == 200, answer.text
    refused = await client.get("/v1/evolution-runs/r/progress?limit=10000", headers=ASKING)
    assert (refused.status_code, refused.json()["code"]) == (422, "picture_too_large")
    assert (refused.json()["count"], refused.json()["count_max"]) == (2001, 2000)
    assert "from_number" in refused.json()["detail"]
    assert (await client.get("/v1/evolution-runs/r/progress?limit=2000", headers=ASKING)).status_code == 200


async def test_a_queue_of_pictures_has_an_end(
    client: httpx.AsyncClient, service: Service, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make.created("/v1/evolution-runs", id="r")
    monkeypatch.setattr(service.ground.drawing, "waiting_max", 0)
    refused = await client.get("/v1/evolution-runs/r/graph", headers=ASKING)
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "retry-after" in refused.headers
    assert (await client.get("/v1/evolution-runs/r/graph")).status_code == 200
