"""IPersistence, method by method: the documented result, without the documented defect."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from tests.conftest import Make

DSL = {"__schema_version": 1, "entryNodeId": "plan", "nodes": [{"nodeId": "plan", "memory": {}}]}
NODES = [{"node_id": "plan", "llm_model": "m-1", "memory": {"asked": "nothing"}}]


async def test_ensure_workflow_exists_never_overwrites_what_it_is_not_told(client: httpx.AsyncClient) -> None:
    made = await client.put("/v1/workflows/wf", json={"description": "Answers.", "owner_id": "user_1"})
    again = await client.put("/v1/workflows/wf", json={})
    assert (made.status_code, again.status_code) == (201, 200)
    assert (again.json()["description"], again.json()["owner_id"]) == ("Answers.", "user_1")
    if_absent = await client.post("/v1/workflows", json={"id": "wf", "description": "A commit message."})
    assert (if_absent.status_code, if_absent.json()["code"]) == (409, "workflow_conflict")
    changed = await client.put("/v1/workflows/wf", json={"description": "Answers better."})
    assert (changed.json()["description"], changed.json()["owner_id"]) == ("Answers better.", "user_1")


async def test_create_workflow_version_with_its_workflow_in_one_transaction_and_for_good(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow(id="wf", description="Answers.")
    parent = await make.version("wf", id="wf_ver_1", dsl=DSL, nodes=NODES)
    body = {
        "id": "wf_ver_2",
        "dsl": DSL,
        "operation": "mutation",
        "parent1_id": parent["id"],
        "commit_message": "Ask back.",
        "iteration_budget": 10,
        "time_budget_seconds": 3600,
        "workflow": {"description": "Ask back."},
    }
    made = await client.post("/v1/workflows/wf/versions", json=body)
    again = await client.post("/v1/workflows/wf/versions", json={**body, "commit_message": "Another message."})
    other = await client.post("/v1/workflows/wf/versions", json={**body, "dsl": {}})
    orphan = await client.post("/v1/workflows/wf/versions", json={"id": "wf_ver_2", "dsl": DSL, "operation": "init"})
    assert [answer.status_code for answer in (made, again, other, orphan)] == [201, 200, 409, 409]
    stored = (await client.get("/v1/versions/wf_ver_2?include=")).json()
    assert stored == made.json() == again.json()
    assert (stored["parent1_id"], stored["iteration_budget"], stored["time_budget_seconds"]) == ("wf_ver_1", 10, 3600)
    assert (await client.get("/v1/workflows/wf")).json()["description"] == "Answers."
    lost = await client.post("/v1/workflows/new/versions", json={**body, "id": "v", "parent1_id": "nobody"})
    assert (lost.status_code, lost.json()["code"]) == (404, "version_not_found")
    assert (await client.get("/v1/workflows/new")).status_code == 404


async def test_workflow_version_exists(client: httpx.AsyncClient, make: Make) -> None:
    await make.version(id="wf_ver_1")
    assert (await client.head("/v1/versions/wf_ver_1")).status_code == 200
    assert (await client.head("/v1/versions/wf_ver_2")).status_code == 404


async def test_get_workflow_version_is_the_version_and_not_only_its_id(client: httpx.AsyncClient, make: Make) -> None:
    made = await make.version(id="wf_ver_1")
    assert (await client.get("/v1/versions/wf_ver_1?include=")).json() == made
    assert (await client.get("/v1/versions/nobody")).json()["code"] == "version_not_found"


async def test_ensure_workflow_version_is_decided_by_the_database_and_tells_another_configuration(
    client: httpx.AsyncClient,
) -> None:
    body = {"id": "wf_ver_best", "dsl": DSL, "operation": "init", "workflow": {"description": "The goal."}}
    path = "/v1/workflows/wf/versions?on_existing=keep"
    answers = await gather(*(client.post(path, json=body) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert {answer.json()["id"] for answer in answers} == {"wf_ver_best"}
    assert (await client.post(path, json={**body, "dsl": {"nodes": []}})).json()["code"] == "version_conflict"


async def test_update_workflow_version_with_io_keeps_it_exactly_and_names_a_version_that_is_not_there(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.version(id="wf_ver_1")
    io = b'[{"workflowInput": "q", "workflowOutput": {"output": 1.50}, "schema": {"kept": true}}]'
    put = await client.put("/v1/versions/wf_ver_1/io", content=io, headers={"content-type": "application/json"})
    assert put.status_code == 201
    assert (await client.get("/v1/versions/wf_ver_1/io")).content == io
    assert (await client.put("/v1/versions/nobody/io", json=[])).json()["code"] == "version_not_found"


async def test_load_workflow_config(client: httpx.AsyncClient, make: Make) -> None:
    await make.version(id="wf_ver_1", dsl=DSL)
    assert (await client.get("/v1/versions/wf_ver_1/dsl")).json() == DSL
    assert (await client.get("/v1/versions/nobody/dsl")).json()["code"] == "version_not_found"


async def test_load_workflow_config_for_display_is_the_same_text_for_everybody(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.version(id="wf_ver_1", dsl={"nodes": [{"modelName": "a legacy name"}]})
    answer = await client.get("/v1/versions/wf_ver_1/dsl")
    assert answer.json() == {"nodes": [{"modelName": "a legacy name"}]}
    assert "immutable" in answer.headers["cache-control"]


async def test_load_latest_workflow_config_of_a_workflow_and_never_across_tenants(
    client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    await make.version("wf", workflow={}, dsl={"n": 1})
    await make.version("wf", dsl={"n": 2})
    await make.version("wf_else", workflow={}, dsl={"n": 3})
    latest = await client.get("/v1/workflows/wf/versions/latest?include=dsl")
    assert latest.json()["dsl"] == {"n": 2}
    assert (await client.get("/v1/versions/latest?include=dsl")).json()["dsl"] == {"n": 3}
    assert (await other.get("/v1/versions/latest")).status_code == 404


async def test_update_workflow_memory_of_one_node_loses_nobody_elses_and_leaves_the_version(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version(id="wf_ver_1", dsl=DSL, nodes=NODES)
    path = "/v1/versions/wf_ver_1/nodes/plan/memory"
    await gather(*(client.patch(path, json={f"learned_{n}": n}) for n in range(10)))
    memory = await client.get(path)
    assert memory.json() == {"asked": "nothing", **{f"learned_{n}": n for n in range(10)}}
    stale = await client.put(path, json={}, headers={"if-match": '"1"'})
    assert stale.status_code == 412
    assert (await client.get("/v1/versions/wf_ver_1/dsl")).json() == DSL
    assert (await client.get("/v1/versions/wf_ver_1?include=")).json() == version
    assert (await client.patch("/v1/versions/nobody/nodes/plan/memory", json={})).status_code == 404


async def test_create_workflow_invocation_keeps_metadata_and_empty_values_and_repeats_safely(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version()
    body: dict[str, Any] = {
        "id": "inv", "version_id": version["id"], "metadata": {"from": "cli"}, "expected_output": "", "input": False,
        "fitness": 0, "expected_output_type": {"type": "string"}, "output": "",
    }  # fmt: skip
    made, again = await client.post("/v1/invocations", json=body), await client.post("/v1/invocations", json=body)
    assert (made.status_code, again.status_code) == (201, 200)
    shown = (await client.get("/v1/invocations/inv?include=input,fitness,output")).json()
    for name, value in body.items():
        assert shown[name] == value
    assert (shown["status"], shown["ended_at"]) == ("running", None)
    assert shown["started_at"] is not None
    other = await client.post("/v1/invocations", json={**body, "metadata": {}})
    assert (other.status_code, other.json()["code"]) == (409, "invocation_conflict")
    lost = await client.post("/v1/invocations", json={"version_id": "nobody"})
    assert (lost.status_code, lost.json()["code"]) == (404, "version_not_found")


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "rolled_back"])
async def test_update_workflow_invocation_ends_every_kind_of_run_with_unrounded_scores(
    client: httpx.AsyncClient, make: Make, status: str
) -> None:
    await make.invocation(id="inv")
    fitness = {"success": True, "data": {"score": 81.25, "accuracy": 66.6, "totalCostUsd": 0.01}, "usdCost": 0.01}
    ended = await client.post(
        "/v1/invocations/inv/end",
        json={"status": status, "output": "the output", "fitness": fitness, "fitness_score": 81.25, "accuracy": 66.6},
    )
    assert ended.status_code == 200
    results = {"actual_output": "the output", "expected_output": "x", "feedback": "good", "usd_cost": 0.01}
    assert (await client.patch("/v1/invocations/inv", json=results)).status_code == 200
    shown = (await client.get("/v1/invocations/inv?include=fitness,output")).json()
    assert (shown["status"], shown["fitness_score"], shown["accuracy"]) == (status, 81.25, 66.6)
    assert (shown["fitness"], shown["output"], shown["usd_cost"]) == (fitness, "the output", 0.01)
    assert shown["ended_at"] is not None
    zombie = await client.post("/v1/invocations/inv/end", json={"status": "completed", "output": "late"})
    assert (zombie.status_code, zombie.json()["current_status"]) == (409, status)
    unmapped = await client.patch("/v1/invocations/inv", json={"fitnessScore": 1})
    assert (unmapped.status_code, unmapped.json()["errors"][0]["pointer"]) == (422, "/fitnessScore")
    assert (await client.patch("/v1/invocations/nobody", json={})).json()["code"] == "invocation_not_found"


async def test_load_dataset_records_in_the_order_asked_and_names_every_missing_one(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created("/v1/datasets", id="ds", name="Questions")
    for name in ("a", "b"):
        await make.created("/v1/datasets/ds/records", id=name, workflow_input=name, ground_truth={"is": name})
    found = await client.post("/v1/dataset-records/lookup", json={"ids": ["b", "a", "b"]})
    assert [item["id"] for item in found.json()["items"]] == ["b", "a", "b"]
    missing = await client.post("/v1/dataset-records/lookup", json={"ids": ["a", "x", "y"]})
    assert (missing.status_code, missing.json()["code"]) == (404, "dataset_record_not_found")
    assert missing.json()["missing_ids"] == ["x", "y"]


async def test_cleanup_stale_records_ends_what_is_silent_and_never_what_lives(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    for name in ("silent", "alive"):
        await make.invocation(id=name, version_id=version, started_at="2026-01-05T10:00:00Z")
        await make.created(f"/v1/invocations/{name}/messages", id="m", role="result")
        await make.created("/v1/evolution-runs", id=name, started_at="2026-01-05T10:00:00Z", generation={})
    await client.post("/v1/invocations/alive/heartbeat")
    await client.post("/v1/evolution-runs/alive/heartbeat")
    stats = (await client.post("/v1/maintenance/cleanup", json={})).json()
    assert {name: stats[name] for name in list(stats)[1:7]} == {
        "workflow_invocations": 1, "node_invocations": 0, "evolution_runs": 1, "evolution_runs_end_times": 1,
        "generations": 1, "messages": 0,
    }  # fmt: skip
    silent = (await client.get("/v1/invocations/silent")).json()
    assert (silent["status"], silent["error"]["category"]) == ("failed", "stale")
    assert silent["ended_at"] is not None
    assert (await client.get("/v1/evolution-runs/silent")).json()["status"] == "interrupted"
    assert (await client.get("/v1/evolution-runs/alive")).json()["status"] == "running"
    last = await client.get("/v1/evolution-runs/silent/generations/last-completed")
    assert last.status_code == 404
    assert len((await client.get("/v1/invocations/silent/messages")).json()["items"]) == 1
    keyless = await client.post("/v1/maintenance/cleanup", json={}, headers={"authorization": ""})
    assert keyless.status_code == 401
