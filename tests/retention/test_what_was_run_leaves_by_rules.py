"""Invocations, versions and evolution runs: what of them a rule keeps, and what leaves with what."""

from __future__ import annotations

import httpx

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem
from tests.retention.aging import Run, age, ended, left, sql, told


async def test_invocations_leave_with_all_below_them_but_for_what_the_rule_keeps(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    for name in ("plain", "pinned"):
        await ended(make, version, name)
    await ended(make, version, "failed", "failed")
    await make.invocation(id="running", version_id=version)
    await make.created("/v1/invocations/plain/nodes", id="n", node_id="n")
    await make.created("/v1/invocations/plain/checkpoints", node_id="n", state=1)
    await make.created("/v1/invocations/plain/evaluations", id="e", score=1)
    assert (await client.put("/v1/pins/invocation/pinned")).status_code == 201
    assert (await client.put("/v1/pins/invocation/pinned")).status_code == 200
    await age(service, client, "invocations", "ended_at")
    await ended(make, version, "young")
    job = await run({"invocations": {"max_age_days": 30, "keep_failed": True}}, rows_max=1)
    assert await left(client) == ["failed", "pinned", "running", "young"]
    assert job["counts"] == {
        "checkpoints": 1, "evaluations": 1, "invocations": 1, "messages": 1, "node_invocations": 1,
    }  # fmt: skip
    assert await told(service, client, "invocation.deleted") == ["plain"]
    standing = (await client.get("/v1/retention")).json()["kinds"]["invocations"]
    assert (standing["last_counts"]["invocations"], standing["last_error"]) == (1, None)
    assert standing["last_success_at"] is not None
    assert (await client.delete("/v1/pins/invocation/pinned")).status_code == 204
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["running", "young"]


async def test_the_latest_of_each_workflow_stay(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for workflow in ("a", "b"):
        version = (await make.version((await make.workflow(id=workflow))["id"]))["id"]
        for n in range(3):
            await ended(make, version, f"{workflow}{n}")
    await age(service, client, "invocations", "ended_at")
    await run({"invocations": {"max_age_days": 0, "keep_latest": 2}})
    assert await left(client) == ["a1", "a2", "b1", "b2"]


async def test_the_best_of_a_generation_and_those_of_its_best_version_stay(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    best, other = (await make.version())["id"], (await make.version())["id"]
    await make.created("/v1/evolution-runs", id="run", generation={"id": "g"})
    for name, version, score in (
        ("low", other, 0.1), ("high", other, 0.9), ("as_high", other, 0.9), ("of_best", best, 0.2),
    ):  # fmt: skip
        await ended(make, version, name, generation_id="g", fitness_score=score)
    answer = await client.post("/v1/generations/g/complete", json={"best_version_id": best})
    assert answer.status_code == 200, answer.text
    await age(service, client, "invocations", "ended_at")
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["as_high", "high", "of_best"]
    await run({"invocations": {"max_age_days": 30, "keep_best": False}})
    assert await left(client) == []


async def test_a_parent_stays_as_long_as_a_child_does(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    # The parents end first, so that a pass in the order of the ends meets them before their children.
    for family in ("kept", "gone"):
        await ended(make, version, f"{family}_1")
        await ended(make, version, f"{family}_2", parent_invocation_id=f"{family}_1")
        await ended(make, version, f"{family}_3", parent_invocation_id=f"{family}_2")
    await client.put("/v1/pins/invocation/kept_3")
    await age(service, client, "invocations", "ended_at")
    tried = await client.put("/v1/retention", json={"kinds": {"invocations": {"max_age_days": 30}}, "dry_run": True})
    assert (tried.status_code, tried.json()["would_leave"]) == (200, {"invocations": 3}), tried.text
    assert tried.json()["kinds"]["invocations"]["rule"] is None
    stale = await client.put("/v1/retention", json={"kinds": {}, "dry_run": True}, headers={"if-match": '"7"'})
    assert problem(stale) == (412, "precondition_failed")
    job = await run({"invocations": {"max_age_days": 30}}, dry_run=True)
    assert (job["counts"], len(await left(client))) == ({"invocations": 3}, 6)
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["kept_1", "kept_2", "kept_3"]


async def test_a_version_that_others_descend_from_stays_without_its_content(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    workflow = (await make.workflow(id="w"))["id"]
    dsl = {"of": "root"}
    await make.version(workflow, id="root", dsl=dsl)
    await make.version(workflow, id="leaf", operation="mutation", parent1_id="root")
    await make.version(workflow, id="used", operation="mutation", parent1_id="root")
    await make.version(workflow, id="pinned")
    await make.invocation(id="i", version_id="used")
    await client.put("/v1/pins/version/pinned")
    held = (await client.get("/v1/versions/root")).headers["etag"]
    await age(service, client, "versions", "created_at")
    rule = {"versions": {"max_age_days": 30}}
    tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
    assert tried.json()["would_leave"] == {"versions": 1, "pruned_versions": 1}
    assert (await run(rule, dry_run=True))["counts"] == {"versions": 1, "pruned_versions": 1}
    job = await run(rule)
    assert job["counts"] == {"versions": 1, "pruned_versions": 1, "node_versions": 2}
    assert await left(client, "/v1/versions") == ["pinned", "root", "used"]
    root = await client.get("/v1/versions/root", headers={"if-none-match": held})
    assert (root.status_code, root.json()["dsl"]) == (200, None)
    assert root.json()["pruned_at"] is not None
    for path in ("/v1/versions/root/dsl", "/v1/versions/used/diff/root"):
        assert problem(await client.get(path)) == (410, "version_pruned")
    refused = await client.post("/v1/invocations", json={"version_id": "root"})
    assert problem(refused) == (409, "version_is_pruned")
    assert await left(client, "/v1/versions/used/ancestors") == ["root"]
    assert (await run(rule))["counts"] == {}
    tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
    assert tried.json()["would_leave"] == {"versions": 0}
    again = await client.post("/v1/workflows/w/versions", json={"id": "root", "dsl": dsl, "operation": "init"})
    assert (again.status_code, again.json()["pruned_at"]) == (200, None)
    assert (await client.get("/v1/versions/root")).json()["dsl"] == dsl
    told = "SELECT type FROM outbox WHERE tenant_id = :tenant AND subject_id = 'root' ORDER BY number"
    changes = [row["type"].removeprefix("version.") for row in await sql(service, client, told)]
    assert changes == ["created", "pruned", "restored"]
    await make.invocation(version_id="root")


async def test_so_many_versions_leave_at_once_as_have_so_many_nodes(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    workflow = (await make.workflow())["id"]
    nodes = [{"node_id": f"n{number}"} for number in range(8)]
    for _ in range(6):
        await make.version(workflow, nodes=nodes)
    await age(service, client, "versions", "created_at")
    job = await run({"versions": {"max_age_days": 30}}, rows_max=20)
    assert job["counts"] == {"versions": 6, "node_versions": 48}
    batches = await sql(
        service, client,
        "SELECT count(*) AS n FROM outbox WHERE tenant_id = :tenant AND type = 'version.deleted' GROUP BY xmin",
    )  # fmt: skip
    assert [row["n"] for row in batches] == [2, 2, 2]


async def test_an_evolution_run_leaves_once_nothing_names_it(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for name in ("old", "pinned", "used"):
        await make.created("/v1/evolution-runs", id=name, generation={"id": f"g_{name}"})
        state = await client.put(f"/v1/evolution-runs/{name}/checkpoint", json={"state": 1})
        assert state.status_code in (200, 201), state.text
    await make.created("/v1/evolution-runs", id="running")
    workflow = (await make.workflow(id="w"))["id"]
    for name in ("best", "member", "other"):
        await make.version(workflow, id=name, generation_id="g_old")
    await ended(make, "other", "i", generation_id="g_used")
    members = [{"version_id": name, "rank": rank} for rank, name in enumerate(("best", "member", "other"))]
    put = await client.put("/v1/generations/g_old/members", json={"items": members})
    assert put.status_code == 200, put.text
    done = await client.post("/v1/generations/g_old/complete", json={"best_version_id": "best"})
    assert done.status_code == 200, done.text
    for name in ("old", "pinned", "used"):
        answer = await client.post(f"/v1/evolution-runs/{name}/complete", json={"status": "completed"})
        assert answer.status_code == 200, answer.text
    assert (await client.put("/v1/pins/evolution_run/pinned")).status_code == 201
    for table, column in (("evolution_runs", "started_at"), ("evolution_runs", "ended_at"), ("versions", "created_at")):
        await age(service, client, table, column)
    runs = {"evolution_runs": {"max_age_days": 30}}
    # Members leave, the best and what ran stay, and so does the run.
    job = await run({"versions": {"max_age_days": 30}, **runs}, rows_max=1)
    assert await left(client, "/v1/versions") == ["best", "other"]
    assert job["counts"]["versions"] == 1
    assert len(await left(client, "/v1/evolution-runs")) == 4
    await age(service, client, "invocations", "ended_at")
    every = {"max_age_days": 30, "keep_best": False}
    tried = await client.put("/v1/retention", json={"kinds": runs, "dry_run": True})
    assert tried.json()["would_leave"] == {"evolution_runs": 0}
    job = await run({"invocations": every, "versions": every, **runs}, rows_max=1)
    assert await left(client, "/v1/evolution-runs") == ["pinned", "running"]
    expected = {
        "versions": 2, "best_of_generations": 1, "evolution_runs": 2, "generations": 2, "run_checkpoints": 2,
        "invocations": 1,
    }  # fmt: skip
    assert {table: job["counts"].get(table) for table in expected} == expected
    assert await told(service, client, "evolution_run.deleted") == ["old", "used"]
    assert await told(service, client, "generation.updated") == ["g_old", "g_old"]
