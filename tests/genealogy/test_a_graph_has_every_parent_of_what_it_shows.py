"""The genealogy of a workflow: its versions as nodes, their parents too, and an edge from each parent to its child."""

from __future__ import annotations

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.genealogy.lineages import CIRCLE, insert
from tests.payloads import problem

PATH = "/v1/workflows/w/genealogy"


@pytest.fixture
async def crossed(make: Make) -> None:
    """A workflow whose newest version has a parent in another."""
    await make.version("elsewhere", id="far", workflow={})
    await make.version("w", id="a/1", workflow={}, dsl={"secret": 1})
    await make.version("w", id="b", operation="mutation", parent1_id="a/1")
    await make.version("w", id="c", operation="crossover", parent1_id="b", parent2_id="far")


@pytest.mark.usefixtures("crossed")
async def test_parents_of_other_workflows_are_nodes_outside(client: httpx.AsyncClient) -> None:
    found = (await client.get(PATH)).json()
    assert [(node["id"], node["outside"]) for node in found["nodes"]] == [
        ("c", False), ("b", False), ("a/1", False), ("far", True),
    ]  # fmt: skip
    assert found["edges"] == [
        {"from": "b", "to": "c", "kind": "parent1"},
        {"from": "far", "to": "c", "kind": "parent2"},
        {"from": "a/1", "to": "b", "kind": "parent1"},
    ]
    assert found["more"] == {"versions": None}
    version = (await client.get("/v1/versions/b?include=")).json()
    assert found["nodes"][1] == {**version, "outside": False}


@pytest.mark.usefixtures("crossed")
async def test_a_graph_beyond_its_limit_says_how_to_go_on(client: httpx.AsyncClient) -> None:
    found = (await client.get(f"{PATH}?limit=1")).json()
    assert [(node["id"], node["outside"]) for node in found["nodes"]] == [("c", False), ("far", True), ("b", False)]
    assert {(edge["from"], edge["to"]) for edge in found["edges"]} == {("b", "c"), ("far", "c")}
    rest = await client.get("/v1/workflows/w/versions", params={"cursor": found["more"]["versions"]})
    assert [item["id"] for item in rest.json()["items"]] == ["b", "a/1"]
    assert (await client.get(f"{PATH}?limit=3")).json()["more"] == {"versions": None}
    for limit in ("0", "10001", "x"):
        assert problem(await client.get(f"{PATH}?limit={limit}")) == (422, "invalid_input")


@pytest.mark.usefixtures("crossed")
async def test_an_empty_workflow_has_an_empty_graph_and_a_missing_one_none(
    client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow(id="empty")
    nothing = {"nodes": [], "edges": [], "more": {"versions": None}}
    assert (await client.get("/v1/workflows/empty/genealogy")).json() == nothing
    assert problem(await client.get("/v1/workflows/none/genealogy")) == (404, "workflow_not_found")
    assert problem(await other.get(PATH)) == (404, "workflow_not_found")
    assert (await client.head(PATH)).status_code == 200


async def test_a_circle_is_drawn_as_it_is(service: Service, client: httpx.AsyncClient) -> None:
    await insert(service, client, CIRCLE)
    found = (await client.get(PATH)).json()
    assert {node["id"] for node in found["nodes"]} == {"x", "y", "z"}
    assert {(edge["from"], edge["to"]) for edge in found["edges"]} == {("z", "x"), ("y", "x"), ("x", "y"), ("y", "z")}


async def test_ten_thousand_versions_are_one_answer(service: Service, client: httpx.AsyncClient) -> None:
    await insert(service, client, "SELECT 'v' || n, 'v' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, 10000) AS n")
    found = (await client.get(PATH)).json()
    # The one that is left out is a parent of one that is shown.
    assert (len(found["nodes"]), len(found["edges"])) == (10_001, 10_000)
    assert found["more"]["versions"] is not None
