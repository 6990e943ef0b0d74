"""IEvolutionPersistence, method by method."""

from __future__ import annotations

from asyncio import gather

import httpx

from tests.conftest import Make

RUNS = "/v1/evolution-runs"
STATS = {
    "best_fitness": 0.91,
    "worst_fitness": 0.125,
    "avg_fitness": 0.5,
    "fitness_std_dev": 0.25,
    "evaluation_cost": 0.0123,
    "evaluations_per_hour": 300.5,
    "improvement_rate": 0.1,
}


async def test_create_run_with_generation_0_in_one_transaction_and_an_owner(client: httpx.AsyncClient) -> None:
    body = {
        "id": "run", "goal_text": "Find it.", "config": {"populationSize": 4}, "evolution_type": "gp",
        "notes": "Pop: 4", "owner_id": "user_1", "generation": {"id": "gen_0"},
    }  # fmt: skip
    made, again = await client.post(RUNS, json=body), await client.post(RUNS, json=body)
    assert (made.status_code, again.status_code) == (201, 200)
    assert (made.json()["status"], made.json()["owner_id"]) == ("running", "user_1")
    generations = (await client.get(f"{RUNS}/run/generations")).json()["items"]
    assert [(item["id"], item["number"]) for item in generations] == [("gen_0", 0)]
    other = await client.post(RUNS, json={**body, "goal_text": "Another."})
    assert other.status_code == 409


async def test_complete_run_keeps_its_notes_and_knows_cancelled_and_interrupted(client: httpx.AsyncClient) -> None:
    for status in ("completed", "failed", "cancelled", "interrupted"):
        await client.post(RUNS, json={"id": status, "notes": "of its creation"})
        ended = await client.post(f"{RUNS}/{status}/complete", json={"status": status})
        assert (ended.status_code, ended.json()["status"], ended.json()["notes"]) == (200, status, "of its creation")
        assert ended.json()["ended_at"] is not None
    again = await client.post(f"{RUNS}/failed/complete", json={"status": "completed"})
    assert (again.status_code, again.json()["current_status"]) == (409, "failed")
    free = await client.post(f"{RUNS}/failed/complete", json={"status": "sort of done"})
    assert free.status_code == 422
    assert (await client.post(f"{RUNS}/nobody/complete", json={"status": "failed"})).status_code == 404


async def test_create_generation_is_one_for_each_number_whoever_is_first(client: httpx.AsyncClient) -> None:
    await client.post(RUNS, json={"id": "run"})
    answers = await gather(*(client.post(f"{RUNS}/run/generations", json={"number": 0}) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    following = await client.post(f"{RUNS}/run/generations", json={})
    assert following.json()["number"] == 1


async def test_complete_generation_keeps_every_statistic_the_comment_and_the_parents(
    client: httpx.AsyncClient, make: Make
) -> None:
    await client.post(RUNS, json={"id": "run", "generation": {"id": "gen"}})
    parent = await make.version("wf", workflow={})
    best = await make.version("wf", operation="mutation", parent1_id=parent["id"], generation_id="gen")
    completion = {
        "best_version_id": best["id"], "comment": "ours", "feedback": "good", "stats": STATS,
        "ended_at": "2099-01-05T10:00:00Z",
    }  # fmt: skip
    done = await client.post("/v1/generations/gen/complete", json=completion)
    again = await client.post("/v1/generations/gen/complete", json=completion)
    assert (done.status_code, again.status_code) == (200, 200)
    shown = (await client.get("/v1/generations/gen")).json()
    assert (shown["stats"], shown["comment"], shown["best_version_id"]) == (STATS, "ours", best["id"])
    assert shown["ended_at"] == "2099-01-05T10:00:00.000000Z"
    assert (await client.get(f"/v1/versions/{best['id']}?include=")).json() == best
    other = await client.post("/v1/generations/gen/complete", json={"comment": "over it"})
    assert other.status_code == 409
    assert (await client.post("/v1/generations/nobody/complete", json={})).status_code == 404


async def test_generation_exists(client: httpx.AsyncClient) -> None:
    await client.post(RUNS, json={"id": "run", "generation": {}})
    assert (await client.head(f"{RUNS}/run/generations/by-number/0")).status_code == 200
    assert (await client.head(f"{RUNS}/run/generations/by-number/1")).status_code == 404


async def test_get_generation_id_by_number(client: httpx.AsyncClient) -> None:
    await client.post(RUNS, json={"id": "run", "generation": {"id": "gen_0"}})
    found = await client.get(f"{RUNS}/run/generations/by-number/0")
    assert found.json()["id"] == "gen_0"
    missing = await client.get(f"{RUNS}/run/generations/by-number/7")
    assert (missing.status_code, missing.json()["code"]) == (404, "generation_not_found")


async def test_get_last_completed_generation_also_number_0_with_all_that_a_run_resumes_from(
    client: httpx.AsyncClient, make: Make
) -> None:
    await client.post(RUNS, json={"id": "run", "generation": {"id": "gen_0"}})
    path = f"{RUNS}/run/generations/last-completed"
    assert (await client.get(path)).status_code == 404
    version = await make.version("wf", workflow={})
    await client.put(
        "/v1/generations/gen_0/members", json={"items": [{"version_id": version["id"], "rank": 1, "fitness": 0.5}]}
    )
    state = b'{"rng": [1.0, 12345678901234567890], "cost": 0.10}'
    await client.put(f"{RUNS}/run/checkpoint", content=state, headers={"content-type": "application/json"})
    await client.post("/v1/generations/gen_0/complete", json={"stats": STATS})
    await client.post(f"{RUNS}/run/generations", json={"number": 1})
    last = await client.get(path)
    assert (last.json()["id"], last.json()["number"], last.json()["stats"]) == ("gen_0", 0, STATS)
    assert last.json()["members"] == [{"version_id": version["id"], "rank": 1, "fitness": 0.5}]
    assert state in last.content
    await client.post(f"{RUNS}/run/complete", json={"status": "interrupted"})
    reopened = await client.post(f"{RUNS}/run/reopen")
    assert (reopened.json()["status"], reopened.json()["ended_at"]) == ("running", None)
