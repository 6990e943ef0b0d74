"""The list of runs: filters, what is derived, every invocation counted once, sorts with ties and nulls, its plans."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import httpx
import pytest

from app.db.database import set_codecs
from app.http.service import Service
from tests.conftest import Make, new_tenant
from tests.payloads import problem, send
from tests.statements import sent_by

RUNS = "/v1/evolution-runs"
DERIVED = ("duration", "generation_count", "invocation_count", "successful_invocation_count", "total_cost",
           "accuracy_delta")  # fmt: skip


async def ids(client: httpx.AsyncClient, query: str) -> list[str]:
    """The ids of a page, in order."""
    answer = await client.get(f"{RUNS}?{query}")
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def invocation(client: httpx.AsyncClient, make: Make, cost: bytes = b"0", **fields: Any) -> None:
    """An ended invocation."""
    accuracy = fields.pop("accuracy", None)
    status = fields.pop("status", "completed")
    made = await make.invocation(**fields)
    body = b'{"status":"%b","usd_cost":%b,"accuracy":%b}' % (
        status.encode(), cost, b"null" if accuracy is None else str(accuracy).encode(),
    )  # fmt: skip
    ended = await send(client, "POST", f"/v1/invocations/{made['id']}/end", body)
    assert ended.status_code == 200, ended.text


async def test_filters_narrow_the_list(client: httpx.AsyncClient, make: Make) -> None:
    for number, (name, fields) in enumerate(
        {
            "one": {"goal_text": "Find the PLAN", "evolution_type": "gp", "owner_id": "u"},
            "two": {"goal_text": "Größer", "evolution_type": "iterative", "config": {"populationSize": 4}},
            "Plan-3": {},
        }.items()
    ):
        await make.created(RUNS, id=name, started_at=f"2026-01-0{number + 1}T00:00:00Z", **fields)
    await client.post(f"{RUNS}/two/complete", json={"status": "interrupted"})
    await make.created(f"{RUNS}/one/generations")
    for query, wanted in {
        "": ["Plan-3", "two", "one"],
        "order=asc": ["one", "two", "Plan-3"],
        "status=interrupted": ["two"],
        "status=interrupted&status=running": ["Plan-3", "two", "one"],
        "evolution_type=gp": ["one"],
        "owner_id=u": ["one"],
        "q=plan": ["Plan-3", "one"],
        "config_q=POPULATIONsize": ["two"],
        "q=GRÖSS": [],
        "q=GRÖßER": ["two"],
        "started_after=2026-01-02T00:00:00Z": ["Plan-3", "two"],
        "started_before=2026-01-02T00:00:00Z": ["one"],
        "hide_empty=true": ["one"],
        "hide_empty=false": ["Plan-3", "two", "one"],
        "sort=generation_count&order=desc&q=plan": ["one", "Plan-3"],
        "sort=status&order=asc": ["two", "Plan-3", "one"],
        "sort=id": ["Plan-3", "one", "two"],
    }.items():
        assert await ids(client, query) == wanted, query
    assert (await client.get(f"{RUNS}?limit=1&count=exact&sort=total_cost")).json()["total"] == 3
    for query in ("status=paused", "sort=notes", "hide_empty=1", "started_after=2026-01-02"):
        assert problem(await client.get(f"{RUNS}?{query}")) == (422, "invalid_input"), query


async def test_what_is_derived_adds_up_exactly(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(
        RUNS, id="r", started_at="2026-01-05T10:00:00Z", generation={"id": "g0"}
    )  # fmt: skip
    for name in ("g1", "g2"):
        await make.created(f"{RUNS}/r/generations", id=name)
    version = (await make.version())["id"]
    await invocation(client, make, b"0.1", version_id=version, generation_id="g0", accuracy=40)
    await invocation(client, make, b"0.2", version_id=version, generation_id="g0", accuracy=60, run_id="r")
    await invocation(client, make, b"0.000000000000000001", version_id=version, generation_id="g1", accuracy=90)
    await invocation(client, make, version_id=version, generation_id="g2", status="failed")
    await make.invocation(version_id=version, run_id="r")
    await invocation(client, make, b"100", version_id=version)
    await client.post(f"{RUNS}/r/complete", json={"status": "completed", "ended_at": "2026-01-05T10:01:40.5Z"})
    answer = await client.get(f"{RUNS}/r")
    assert b'"total_cost":0.300000000000000001,' in answer.content
    found = {name: answer.json()[name] for name in DERIVED if name != "total_cost"}
    assert found == {
        "duration": 100.5,
        "generation_count": 3,
        "invocation_count": 5,
        "successful_invocation_count": 3,
        "accuracy_delta": 40.0,
    }
    assert (await client.get(RUNS)).json()["items"] == [answer.json()]
    assert (await client.get(f"{RUNS}?sort=total_cost")).json()["items"] == [answer.json()]


async def test_an_invocation_that_is_reached_three_ways_counts_once(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RUNS, id="r", generation={"id": "g"})
    await make.created(RUNS, id="other", generation={"id": "h"})
    inside = (await make.version(generation_id="g"))["id"]
    outside = (await make.version())["id"]
    for links in ({"run_id": "r", "generation_id": "g"}, {"run_id": "r"}, {"generation_id": "g"}, {}):
        await invocation(client, make, b"1", version_id=inside, **links)
    for links in ({"run_id": "r"}, {"generation_id": "g"}):
        await invocation(client, make, b"1", version_id=outside, **links)
    # Not this run's: the version was made in it, but what ran belongs to another.
    for links in ({"run_id": "other"}, {"generation_id": "h"}, {"run_id": "other", "generation_id": "h"}):
        await invocation(client, make, b"1", version_id=inside, **links)
    # What it names itself comes before what its generation names.
    await invocation(client, make, b"1", version_id=outside, run_id="other", generation_id="g")
    for run, count in (("r", 6), ("other", 4)):
        found = (await client.get(f"{RUNS}/{run}")).json()
        assert (found["invocation_count"], found["total_cost"]) == (count, count)
    generations = {name: (await client.get(f"/v1/generations/{name}")).json() for name in ("g", "h")}
    assert {name: item["invocation_count"] for name, item in generations.items()} == {"g": 6, "h": 2}
    costs = (await client.get("/v1/costs?group_by=run")).json()["items"]
    assert {item["key"]: item["count"] for item in costs} == {"r": 6, "other": 4}


async def test_a_run_without_accuracies_has_no_delta_and_of_one_generation_it_is_zero(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created(RUNS, id="none", generation={})
    await make.created(RUNS, id="one", generation={"id": "g"})
    await make.created(f"{RUNS}/one/generations")
    await invocation(client, make, generation_id="g", accuracy=40)
    found = {item["id"]: item["accuracy_delta"] for item in (await client.get(RUNS)).json()["items"]}
    assert found == {"none": None, "one": 0.0}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", [*DERIVED, "ended_at", "status", "started_at", "id", "goal_text", "evolution_type"])
async def test_every_sort_pages_through_every_run_once_with_nulls_last(
    client: httpx.AsyncClient, make: Make, sort: str, order: str
) -> None:
    version = (await make.version())["id"]
    for number in range(7):
        told = {"goal_text": "éa"[number % 2], "evolution_type": "gp"} if number % 3 else {}
        run = await make.created(RUNS, id=f"r{number}", started_at="2026-01-05T10:00:00Z", **told)
        if number == 6:
            break
        first, last = [(await make.created(f"{RUNS}/{run['id']}/generations"))["id"] for _ in range(2)]
        await invocation(client, make, b"0.1", version_id=version, generation_id=first, accuracy=10)
        if number % 3:
            await invocation(
                client, make, b"0.%d" % (number % 2), version_id=version, generation_id=last, accuracy=number % 3
            )
        body = {"status": "failed" if number % 2 else "completed", "ended_at": f"2026-01-05T10:00:0{number % 3}Z"}
        await client.post(f"{RUNS}/{run['id']}/complete", json=body)
    seen: list[dict[str, Any]] = []
    path = f"{RUNS}?limit=2&sort={sort}&order={order}"
    cursor = ""
    while cursor is not None:
        page = (await client.get(path + (f"&cursor={cursor}" if cursor else ""))).json()
        seen += page["items"]
        cursor = page["next_cursor"]
    assert sorted(item["id"] for item in seen) == [f"r{number}" for number in range(7)]
    keys = [(item[sort], item["id"]) for item in seen]
    valued = [key for key in keys if key[0] is not None]
    assert keys[: len(valued)] == valued == sorted(valued, reverse=order == "desc")
    nulls = [key[1] for key in keys[len(valued) :]]
    assert nulls == sorted(nulls, reverse=order == "desc")


SEED = """
INSERT INTO workflows (tenant_id, id) VALUES ($1, 'w');
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
VALUES ($1, 'v', 'w', '{}', 'raw:' || repeat('0', 64), 'init');
INSERT INTO evolution_runs (tenant_id, id, started_at)
SELECT $1, 'r' || n, timestamptz '2026-01-01' + n * interval '1 minute' FROM generate_series(1, 2000) AS n;
INSERT INTO generations (tenant_id, id, run_id, number)
SELECT $1, 'g' || n, 'r' || n, 0 FROM generate_series(1, 2000) AS n;
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, run_id, generation_id, status, started_at, digest)
SELECT $1, 'i' || n, 'v', 'w', 'r' || (1 + n % 2000), 'g' || (1 + n % 2000), 'running',
  timestamptz '2026-01-01' + n * interval '1 second', '' FROM generate_series(1, 20000) AS n
"""


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of a plan."""
    return [plan, *(node for below in plan.get("Plans", []) for node in nodes(below))]


async def explained(service: Service, client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """The nodes of the plan, as carried out, of the one statement behind a page."""
    async with sent_by(service) as seen:
        answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    sent = [query for query in seen if "evolution_runs AS t" in query.query]
    assert len(sent) == 1, "a page is one statement"
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sent[0].query}", *sent[0].args)
    await connection.close()
    return nodes(json.loads(text)[0]["Plan"])


@pytest.mark.parametrize("query", ["", "&order=asc", "&status=running", "&sort=started_at&hide_empty=true"])
async def test_the_list_reads_in_index_order_and_derives_for_the_rows_of_the_page_alone(
    fresh: Service, query: str
) -> None:
    async with await new_tenant(fresh) as client:
        connection = await asyncpg.connect(fresh.ground.database.url)
        for statement in SEED.strip().split(";\n"):
            await connection.execute(statement.replace("$1", "$1::text"), client.headers["x-test-tenant"])
        await connection.execute("ANALYZE")
        await connection.close()
        plan = await explained(fresh, client, f"{RUNS}?limit=10{query}")
    scans = [node for node in plan if node.get("Relation Name") == "evolution_runs"]
    assert [(node["Node Type"], node["Index Name"]) for node in scans] == [
        ("Index Scan", "ix_evolution_runs_started_at")
    ], json.dumps(plan[0], indent=1)
    assert not any(node["Node Type"] == "Sort" and scans[0] in nodes(node) for node in plan)
    counted = [node for node in plan if node.get("Relation Name") == "invocations" and node["Alias"] == "i"]
    assert counted
    # Eleven, since one more row than the page tells whether another page follows.
    assert {node["Actual Loops"] for node in counted if "Index Scan" in node["Node Type"]} <= {0, 1, 11}, counted
    assert max(node["Actual Loops"] * node["Actual Rows"] for node in counted) <= 11 * 20, counted
