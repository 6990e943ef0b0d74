"""Progress, best, configurations and graph of a run, each from one statement."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.evolution import reads
from app.http.service import Service
from tests.conftest import Make, running, settings_for
from tests.payloads import problem, send
from tests.plans import kept_plan

RUNS = "/v1/evolution-runs"
RUN = f"{RUNS}/r"


@pytest.fixture(scope="module")
async def service(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A service with one connection, so that every statement of a request is seen."""
    async with running(settings_for(await kept_clone(), database={"pool_min": 1, "pool_max": 1})) as started:
        yield started


@pytest.fixture
async def searched(client: httpx.AsyncClient, make: Make) -> None:
    """A run of three generations: seeds `a` and `b`, their child `c`, and `d`, which is `a` again under a parent."""
    await make.workflow(id="w")
    await make.created(RUNS, id="r", generation={"id": "g0"})
    for name in ("g1", "g2"):
        await make.created(f"{RUN}/generations", id=name)
    await make.version("w", id="a", dsl={"x": 1}, generation_id="g0")
    await make.version("w", id="b", dsl={"x": 2}, generation_id="g0")
    await make.version("w", id="c", dsl={"x": 3}, operation="crossover", parent1_id="a", parent2_id="b",
                       generation_id="g1")  # fmt: skip
    await make.version("w", id="d", dsl={"x": 1.0}, operation="mutation", parent1_id="c", generation_id="g1")
    await make.version("w", id="seed", dsl={"x": 9})
    await make.version("w", id="stranger", dsl={"x": 8})
    members = [{"version_id": "a", "fitness": 0.125}, {"version_id": "seed", "fitness": 0.25}]
    await client.put("/v1/generations/g2/members", json={"items": members})
    for name, version, score, accuracy, cost, links in (
        ("i1", "a", 0.5, 40, b"0.1", {"run_id": "r", "generation_id": "g0"}),
        ("i2", "b", 0.25, 60, b"0.2", {"generation_id": "g0"}),
        ("i3", "c", 0.75, 90, b"0.000000000000000001", {}),
        ("i4", "d", 0.5, None, b"3", {"run_id": "r"}),
        ("i5", "d", None, None, b"null", {"run_id": "r", "parent_invocation_id": "i4"}),
        ("i6", "c", 0.75, 95, b"1", {"run_id": "r", "generation_id": "g1"}),
    ):
        await make.invocation(id=name, version_id=version, input="secret", **links)
        values = [b"null" if value is None else str(value).encode() for value in (score, accuracy)]
        body = b'{"status":"completed","fitness_score":%b,"accuracy":%b,"usd_cost":%b}' % (*values, cost)
        assert (await send(client, "POST", f"/v1/invocations/{name}/end", body)).status_code == 200


async def read(client: httpx.AsyncClient, service: Service, path: str) -> Any:
    """What a read answers; it must be one statement."""
    seen: list[Any] = []
    async with service.ground.database.reading() as transaction:
        transaction.connection.add_query_logger(seen.append)
    answer = await client.get(path)
    async with service.ground.database.reading() as transaction:
        transaction.connection.remove_query_logger(seen.append)
    assert answer.status_code == 200, answer.text
    sent = [query.query for query in seen if not query.query.startswith(("BEGIN", "COMMIT"))]
    assert len(sent) == 1, sent
    return answer.json()


@pytest.mark.usefixtures("searched")
async def test_progress_takes_what_the_engine_said_and_else_what_was_recorded(
    client: httpx.AsyncClient, service: Service
) -> None:
    stats = {"best_fitness": 9, "avg_fitness": 8, "evaluation_cost": 7}
    await client.post("/v1/generations/g1/complete", json={"best_version_id": "c", "stats": stats})
    found = await read(client, service, f"{RUN}/progress")
    names = ("generation_id", "number", "best_fitness", "avg_fitness", "worst_fitness", "accuracy", "invocation_count")
    assert (found["run_id"], found["next_number"]) == ("r", None)
    assert [tuple(step[name] for name in names) for step in found["generations"]] == [
        ("g0", 0, 0.5, 0.375, 0.25, 50.0, 2),
        ("g1", 1, 9.0, 8.0, 0.5, 92.5, 4),
        ("g2", 2, 0.25, 0.1875, 0.125, None, 0),
    ]
    assert [step["best_version_id"] for step in found["generations"]] == [None, "c", None]
    text = (await client.get(f"{RUN}/progress")).text
    assert '"usd_cost":0.3,' in text
    assert '"usd_cost":4.000000000000000001,' in text
    first = await read(client, service, f"{RUN}/progress?limit=2")
    assert ([step["number"] for step in first["generations"]], first["next_number"]) == ([0, 1], 2)
    rest = await read(client, service, f"{RUN}/progress?from_number=2")
    assert [step["number"] for step in rest["generations"]] == [2]


@pytest.mark.usefixtures("searched")
async def test_the_cost_of_a_generation_without_invocations_is_what_the_engine_said(
    client: httpx.AsyncClient,
) -> None:
    await client.post("/v1/generations/g2/complete", json={"stats": {"evaluation_cost": 7.5}})
    steps = (await client.get(f"{RUN}/progress")).json()["generations"]
    assert [step["usd_cost"] for step in steps] == [0.3, 4.0, 7.5]


@pytest.mark.usefixtures("searched")
async def test_the_best_come_first_and_those_without_a_score_last(client: httpx.AsyncClient, service: Service) -> None:
    found = (await read(client, service, f"{RUN}/best?n=10"))["items"]
    assert [item["id"] for item in found] == ["i6", "i3", "i1", "i4", "i2", "i5"]
    assert [item["generation_number"] for item in found] == [1, 1, 0, 1, 0, 1]
    assert (found[0]["version"]["parent1_id"], found[0]["version"]["operation"]) == ("a", "crossover")
    assert not {"input", "output", "dsl"} & {*found[0], *found[0]["version"]}
    two = (await read(client, service, f"{RUN}/best?n=2"))["items"]
    assert two == found[:2]
    each = (await read(client, service, f"{RUN}/best?per=version"))["items"]
    assert [(item["version_id"], item["id"]) for item in each] == [("c", "i6"), ("a", "i1"), ("d", "i4"), ("b", "i2")]
    for query in ("n=0", "n=1001", "n=x", "per=run"):
        assert problem(await client.get(f"{RUN}/best?{query}")) == (422, "invalid_input")


@pytest.mark.usefixtures("searched")
async def test_identical_configurations_come_once_with_the_generations_that_saw_them(
    client: httpx.AsyncClient, service: Service
) -> None:
    found = (await read(client, service, f"{RUN}/versions?group_by=dsl_hash"))["items"]
    names = ("first_version_id", "first_generation_number", "last_generation_number", "generation_count",
             "version_count", "invocation_count", "best_fitness")  # fmt: skip
    assert {tuple(item[name] for name in names) for item in found} == {
        ("a", 0, 2, 3, 2, 3, 0.5),
        ("b", 0, 0, 1, 1, 1, 0.25),
        ("c", 1, 1, 1, 1, 2, 0.75),
        ("seed", 2, 2, 1, 1, 0, 0.25),
    }
    assert sum(item["total_cost"] for item in found) == pytest.approx(4.3)
    assert [item["first_generation_number"] for item in found] == [0, 0, 1, 2]
    total = (await client.get(f"{RUN}/versions?group_by=dsl_hash&count=exact&limit=1")).json()
    assert (total["total"], len(total["items"])) == (4, 1)
    assert "dsl" not in found[0]


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    "sort",
    ["first_generation_number", "last_generation_number", "version_count", "invocation_count", "best_fitness",
     "total_cost"],
)  # fmt: skip
async def test_configurations_are_paged_in_every_order(client: httpx.AsyncClient, sort: str, order: str) -> None:
    path, cursor, seen = f"{RUN}/versions?group_by=dsl_hash&limit=1&sort={sort}&order={order}", "", []
    while cursor is not None:
        page = (await client.get(path + (f"&cursor={cursor}" if cursor else ""))).json()
        seen += page["items"]
        cursor = page["next_cursor"]
    keys = [(item[sort], item["dsl_hash"]) for item in seen]
    assert len(keys) == 4
    assert keys == sorted(keys, reverse=order == "desc")


@pytest.mark.usefixtures("searched")
async def test_the_versions_of_a_run_are_those_that_the_list_of_versions_has(client: httpx.AsyncClient) -> None:
    ours = (await client.get(f"{RUN}/versions?include=dsl")).json()
    theirs = (await client.get("/v1/versions?run_id=r&include=dsl")).json()
    assert ours["items"] == theirs["items"]
    assert {item["id"] for item in ours["items"]} == {"a", "b", "c", "d"}
    for query in ("sort=best_fitness", "group_by=dsl_hash&sort=created_at", "group_by=id",
                  "group_by=dsl_hash&include=dsl"):  # fmt: skip
        assert problem(await client.get(f"{RUN}/versions?{query}")) == (422, "invalid_input"), query


@pytest.mark.usefixtures("searched")
async def test_the_graph_has_versions_and_invocations_as_nodes_and_parents_as_edges(
    client: httpx.AsyncClient, service: Service
) -> None:
    found = await read(client, service, f"{RUN}/graph")
    versions = [node for node in found["nodes"] if node["kind"] == "version"]
    names = ("id", "generation_number", "invocation_count", "best_fitness")
    assert [tuple(node[name] for name in names) for node in versions] == [
        ("a", 0, 1, 0.5), ("b", 0, 1, 0.25), ("c", 1, 2, 0.75), ("d", 1, 2, 0.5), ("seed", 2, 0, 0.25),
    ]  # fmt: skip
    invocations = [node for node in found["nodes"] if node["kind"] == "invocation"]
    assert {(node["id"], node["generation_number"]) for node in invocations} == {
        ("i1", 0), ("i2", 0), ("i3", 1), ("i4", 1), ("i5", 1), ("i6", 1),
    }  # fmt: skip
    edges = {(edge["kind"], edge["from"], edge["to"]) for edge in found["edges"]}
    assert edges == {
        ("parent1", "a", "c"), ("parent2", "b", "c"), ("parent1", "c", "d"), ("invocation", "a", "i1"),
        ("invocation", "b", "i2"), ("invocation", "c", "i3"), ("invocation", "d", "i4"), ("invocation", "d", "i5"),
        ("invocation", "c", "i6"), ("parent_invocation", "i4", "i5"),
    }  # fmt: skip
    assert len(edges) == len(found["edges"])
    assert found["more"] == {"versions": False, "invocations": False}


@pytest.mark.usefixtures("searched")
async def test_a_part_of_the_graph_has_the_edges_between_what_it_shows(client: httpx.AsyncClient) -> None:
    first = (await client.get(f"{RUN}/graph?limit=1")).json()
    assert [(node["kind"], node["id"]) for node in first["nodes"]] == [("version", "a"), ("invocation", "i1")]
    assert [edge["kind"] for edge in first["edges"]] == ["invocation"]
    assert first["more"] == {"versions": True, "invocations": True}
    last = (await client.get(f"{RUN}/graph?from_number=1&to_number=1")).json()
    assert {node["id"] for node in last["nodes"]} == {"c", "d", "i3", "i4", "i5", "i6"}
    assert ("parent1", "c", "d") in {(edge["kind"], edge["from"], edge["to"]) for edge in last["edges"]}
    assert (await client.get(f"{RUN}/graph?from_number=3")).json()["nodes"] == []


@pytest.mark.parametrize("path", ["progress", "best", "graph", "versions", "versions?group_by=dsl_hash"])
async def test_a_read_of_a_run_with_nothing_is_empty_and_of_none_is_404(
    client: httpx.AsyncClient, make: Make, path: str
) -> None:
    await make.created(RUNS, id="r")
    found = (await client.get(f"{RUN}/{path}")).json()
    assert [value for value in found.values() if value and value not in ("r", {"versions": False,
            "invocations": False})] == [], json.dumps(found)  # fmt: skip
    assert problem(await client.get(f"{RUNS}/none/{path}")) == (404, "evolution_run_not_found")


@pytest.mark.usefixtures("searched")
async def test_edges_are_looked_up_in_a_hash_whatever_number_of_nodes_the_plan_expects(
    service: Service,
) -> None:
    """As joins they were nested loops in a kept plan: 10,000 nodes of each kind took sixteen seconds."""
    graph = reads._SQL["graph"]
    async with service.ground.database.reading() as transaction:
        told = await kept_plan(transaction.connection, graph.text, len(graph.parameters), "COSTS OFF")
    assert told.count("hashed SubPlan") == 4
