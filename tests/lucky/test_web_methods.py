"""What the web application wrote by itself, method by method."""

from __future__ import annotations

import httpx

from app.http.service import Service
from tests.conftest import Make, new_tenant


async def test_create_workflow(client: httpx.AsyncClient) -> None:
    body = {"id": "wf", "name": "Research", "description": "Answers.", "owner_id": "user_1"}
    made, again = await client.post("/v1/workflows", json=body), await client.post("/v1/workflows", json=body)
    assert (made.status_code, again.status_code) == (201, 200)
    taken = await client.post("/v1/workflows", json={**body, "owner_id": "user_2"})
    assert (taken.status_code, taken.json()["code"]) == (409, "workflow_conflict")


async def test_save_workflow_version_of_a_parent(client: httpx.AsyncClient, make: Make) -> None:
    parent = await make.version("wf", workflow={}, iteration_budget=50, time_budget_seconds=3600)
    body = {
        "dsl": {"edited": True}, "operation": "mutation", "parent1_id": parent["id"], "commit_message": "Edit.",
        "iteration_budget": parent["iteration_budget"], "time_budget_seconds": parent["time_budget_seconds"],
    }  # fmt: skip
    made = await client.post("/v1/workflows/wf/versions", json=body)
    again = await client.post("/v1/workflows/wf/versions", json=body)
    assert (made.status_code, again.status_code, again.json()["id"]) == (201, 200, made.json()["id"])
    assert len(made.json()["id"]) == 64


async def test_upsert_workflow_is_one_transaction_and_needs_no_rollback_by_hand(client: httpx.AsyncClient) -> None:
    broken = {"dsl": {}, "operation": "mutation", "parent1_id": "nobody", "workflow": {"name": "Half"}}
    assert (await client.post("/v1/workflows/wf/versions", json=broken)).status_code == 404
    assert (await client.get("/v1/workflows/wf")).status_code == 404
    whole = {"dsl": {}, "operation": "init", "workflow": {"name": "Whole"}, "nodes": [{"node_id": "plan"}]}
    assert (await client.post("/v1/workflows/wf/versions", json=whole)).status_code == 201
    assert (await client.get("/v1/workflows/wf")).json()["version_count"] == 1


async def test_delete_workflow_with_all_that_belongs_to_it_or_not_at_all(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="empty")
    assert (await client.delete("/v1/workflows/empty")).status_code == 204
    await make.version("wf", workflow={})
    kept = await client.delete("/v1/workflows/wf")
    assert (kept.status_code, kept.json()["code"]) == (409, "workflow_not_empty")
    job = await client.delete("/v1/workflows/wf?cascade=true")
    assert (job.status_code, job.json()["kind"]) == (202, "workflow.delete")


async def test_update_workflow_description_under_an_etag(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="wf", name="Research", description="Old.")
    etag = (await client.get("/v1/workflows/wf")).headers["etag"]
    changed = await client.patch("/v1/workflows/wf", json={"description": "New."}, headers={"if-match": etag})
    assert (changed.json()["description"], changed.json()["name"]) == ("New.", "Research")
    late = await client.patch("/v1/workflows/wf", json={"description": "Lost."}, headers={"if-match": etag})
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")


async def test_delete_workflow_invocations_all_or_none_and_says_which_are_not_there(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version()
    for name in ("a", "b"):
        await make.invocation(id=name, version_id=version["id"])
        await client.post(f"/v1/invocations/{name}/end", json={"status": "completed"})

    def delete(*names: str) -> dict[str, object]:
        return {"operations": [{"method": "DELETE", "path": f"/v1/invocations/{name}"} for name in names]}

    missing = await client.post("/v1/batch", json=delete("a", "nobody"))
    assert (missing.status_code, missing.json()["index"]) == (404, 1)
    done = await client.post("/v1/batch", json=delete("a", "b"))
    assert [result["status"] for result in done.json()["results"]] == [204, 204]


async def test_update_workflow_invocation_scores_unrounded_and_beside_the_fitness(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="inv")
    fitness = {"data": {"score": 12.5, "feedback": "kept"}}
    await client.post("/v1/invocations/inv/end", json={"status": "completed", "fitness": fitness})
    changed = await client.patch("/v1/invocations/inv", json={"accuracy": 66.6, "fitness_score": 81.25})
    assert (changed.json()["accuracy"], changed.json()["fitness_score"]) == (66.6, 81.25)
    assert (await client.get("/v1/invocations/inv?include=fitness")).json()["fitness"] == fitness


async def test_create_data_set(client: httpx.AsyncClient) -> None:
    body = {"id": "ds", "name": "Questions", "description": "Hard ones.", "data_format": "qa", "owner_id": "user_1"}
    made = await client.post("/v1/datasets", json=body)
    assert made.status_code == 201
    assert {name: made.json()[name] for name in body} == body


async def test_create_dataset_record(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/datasets", id="ds", name="Questions")
    body = {
        "id": "r", "workflow_input": {"q": 1.0}, "ground_truth": "a", "output_schema": {"type": "string"},
        "rubric": [{"criterion": "is right"}],
    }  # fmt: skip
    made = await client.post("/v1/datasets/ds/records?include=workflow_input,ground_truth", json=body)
    assert made.status_code == 201
    assert {name: made.json()[name] for name in body} == body
    assert (await client.post("/v1/datasets/nobody/records", json={**body, "id": "s"})).status_code == 404


async def test_get_data_set(client: httpx.AsyncClient, service: Service, make: Make) -> None:
    made = await make.created("/v1/datasets", id="ds", name="Questions")
    assert (await client.get("/v1/datasets/ds")).json() == made
    async with await new_tenant(service) as stranger:
        assert (await stranger.get("/v1/datasets/ds")).status_code == 404


async def test_list_data_sets_newest_first_and_of_one_owner(client: httpx.AsyncClient, make: Make) -> None:
    for name, owner in (("a", "user_1"), ("b", "user_2"), ("c", "user_1")):
        await make.created("/v1/datasets", id=name, name=name, owner_id=owner)
    every, own = (await client.get("/v1/datasets"), await client.get("/v1/datasets?owner_id=user_1"))
    assert [item["id"] for item in every.json()["items"]] == ["c", "b", "a"]
    assert [item["id"] for item in own.json()["items"]] == ["c", "a"]


async def test_get_dataset_records_oldest_first_in_pages(client: httpx.AsyncClient, make: Make) -> None:
    await make.created("/v1/datasets", id="ds", name="Questions")
    for name in ("r1", "r2", "r3"):
        await make.created("/v1/datasets/ds/records", id=name, workflow_input=name)
    first = (await client.get("/v1/datasets/ds/records?order=asc&limit=2&include=workflow_input")).json()
    assert [item["workflow_input"] for item in first["items"]] == ["r1", "r2"]
    rest = await client.get(f"/v1/datasets/ds/records?order=asc&limit=2&cursor={first['next_cursor']}")
    assert [item["id"] for item in rest.json()["items"]] == ["r3"]
