"""Generations: numbered once in their run, 0 like any other, completed once, with the members that each had."""

from __future__ import annotations

from asyncio import gather
from decimal import Decimal
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.events.jobs import sequencer
from app.http.service import Service
from app.surface import KINDS
from tests.conftest import Make
from tests.payloads import codes, problem, send

RUNS = "/v1/evolution-runs"
GENERATIONS = f"{RUNS}/r/generations"
STATS = {
    "best_fitness": 0.91,
    "worst_fitness": -1.5,
    "avg_fitness": 1e-300,
    "fitness_std_dev": 0.0,
    "evaluation_cost": 0.123456789012345678,
    "evaluations_per_hour": 300.5,
    "improvement_rate": None,
}


@pytest.fixture(autouse=True)
async def run(make: Make) -> None:
    await make.workflow(id="w")
    await make.created(RUNS, id="r")


async def versions(make: Make, *ids: str, **fields: Any) -> None:
    """Versions under these ids."""
    for name in ids:
        await make.version("w", id=name, dsl={"of": name}, **fields)


async def completed(client: httpx.AsyncClient, generation_id: str, **body: Any) -> httpx.Response:
    """The answer to a completion."""
    return await client.post(f"/v1/generations/{generation_id}/complete", json=body)


async def test_numbers_are_given_from_zero_where_none_is_asked_for(client: httpx.AsyncClient, make: Make) -> None:
    made = [await make.created(GENERATIONS) for _ in range(3)]
    assert [item["number"] for item in made] == [0, 1, 2]
    assert (await make.created(GENERATIONS, number=7))["number"] == 7
    assert (await make.created(GENERATIONS))["number"] == 8
    await make.created(RUNS, id="other")
    assert (await make.created(f"{RUNS}/other/generations"))["number"] == 0


@pytest.mark.parametrize("number", [0, 3])
async def test_the_same_number_again_is_a_replay_or_a_conflict(
    client: httpx.AsyncClient, make: Make, number: int
) -> None:
    body = {"number": number, "comment": "c", "started_at": "2026-01-05T10:00:00Z"}
    first = await client.post(GENERATIONS, json=body)
    assert (first.status_code, first.json()["number"]) == (201, number)
    again = await client.post(GENERATIONS, json=body)
    assert (again.status_code, again.content) == (200, first.content)
    made = first.json()["id"]
    assert (await client.post(GENERATIONS, json={**body, "id": made})).status_code == 200
    for other in ({"number": number}, {**body, "comment": "d"}, {**body, "id": "another"}):
        refused = await client.post(GENERATIONS, json=other)
        assert problem(refused) == (409, "generation_conflict")
        assert (refused.json()["id"], refused.json()["number"]) == (made, number)
    await completed(client, made, stats={"best_fitness": 1})
    as_it_now_is = await client.post(GENERATIONS, json=body)
    assert (as_it_now_is.status_code, as_it_now_is.json()["stats"]["best_fitness"]) == (200, 1)


async def test_an_id_is_one_generation_of_one_run(client: httpx.AsyncClient, make: Make) -> None:
    first = await make.created(GENERATIONS, id="g")
    assert await make.created(GENERATIONS, id="g") == first
    await make.created(RUNS, id="other")
    for path, body in ((f"{RUNS}/other/generations", {"id": "g"}), (GENERATIONS, {"id": "g", "number": 5})):
        assert problem(await client.post(path, json=body)) == (409, "generation_conflict")


async def test_twenty_equal_creates_of_a_number_make_one(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(GENERATIONS, json={"number": 4, "comment": "c"}) for _ in range(20)))
    assert codes(list(answers)) == [200] * 19 + [201]
    assert len({answer.content for answer in answers}) == 1


async def test_twenty_creates_without_a_number_get_twenty_numbers(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(GENERATIONS, json={}) for _ in range(20)))
    assert codes(list(answers)) == [201] * 20
    assert sorted(answer.json()["number"] for answer in answers) == list(range(20))


async def test_a_generation_is_found_by_its_number(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g")
    found = await client.get(f"{GENERATIONS}/by-number/0")
    assert (found.json()["id"], found.headers["etag"]) == ("g", '"1"')
    assert found.content == (await client.get("/v1/generations/g")).content
    assert (await client.head(f"{GENERATIONS}/by-number/0")).status_code == 200
    assert problem(await client.get(f"{GENERATIONS}/by-number/1")) == (404, "generation_not_found")
    for text in ("-1", "01", "1.0", "x", "9007199254740992", "%20"):
        assert problem(await client.get(f"{GENERATIONS}/by-number/{text}")) == (422, "invalid_input"), text


async def test_a_completion_stores_every_statistic_and_the_first_stays(
    client: httpx.AsyncClient, service: Service, make: Make
) -> None:
    await versions(make, "best")
    await make.created(GENERATIONS, id="g", comment="before", started_at="2026-01-05T10:00:00Z")
    body = {"ended_at": "2026-01-05T10:00:01.25Z", "best_version_id": "best", "feedback": "f", "stats": STATS}
    ended = await completed(client, "g", **body)
    assert ended.status_code == 200, ended.text
    found = ended.json()
    assert (found["ended_at"], found["best_version_id"]) == ("2026-01-05T10:00:01.250000Z", "best")
    assert (found["comment"], found["feedback"], found["stats"]) == ("before", "f", STATS)
    again = await completed(client, "g", **body)
    assert (again.status_code, again.content) == (200, ended.content)
    for other in ({}, {**body, "comment": "after"}, {**body, "stats": {}}):
        assert problem(await completed(client, "g", **other)) == (409, "generation_completed")
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events?type=generation.started&type=generation.completed")).json()["items"]
    assert [(event["type"], event["subject_id"]) for event in events] == [
        ("generation.started", "g"),
        ("generation.completed", "g"),
    ]
    assert events[1]["data"]["stats"] == STATS


async def test_a_cost_keeps_every_digit(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g")
    cost = b"12345678901234567890.123456789012345678"
    body = b'{"stats":{"evaluation_cost":%b}}' % cost
    ended = await send(client, "POST", "/v1/generations/g/complete", body)
    assert b'"evaluation_cost":%b,' % cost in ended.content
    assert Decimal(cost.decode())


async def test_a_completion_is_refused_where_it_cannot_be(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g", started_at="2026-01-05T10:00:00Z")
    refused = await completed(client, "g", best_version_id="none")
    assert (problem(refused), refused.json()["pointer"]) == ((404, "version_not_found"), "/best_version_id")
    early = await completed(client, "g", ended_at="2026-01-05T09:00:00Z")
    assert (problem(early), early.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/ended_at")
    assert problem(await completed(client, "none")) == (404, "generation_not_found")
    assert (await client.get("/v1/generations/g")).json()["ended_at"] is None
    stale = await client.post("/v1/generations/g/complete", json={}, headers={"if-match": '"7"'})
    assert problem(stale) == (412, "precondition_failed")


async def test_the_race_to_complete_has_one_winner(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g")
    answers = await gather(*(completed(client, "g", comment=f"{n % 2}") for n in range(20)))
    assert codes(list(answers)) == [200] * 10 + [409] * 10
    assert len({answer.json()["comment"] for answer in answers if answer.status_code == 200}) == 1


async def test_parents_survive_completion_and_re_creation(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g")
    await versions(make, "a", "b", generation_id="g")
    child = {"id": "c", "dsl": {"of": "c"}, "operation": "crossover", "parent1_id": "a", "parent2_id": "b",
             "generation_id": "g"}  # fmt: skip
    await make.created("/v1/workflows/w/versions", **child)
    stood = (await client.get("/v1/versions/c")).content
    await client.put("/v1/generations/g/members", json={"items": [{"version_id": "c"}]})
    assert (await completed(client, "g", best_version_id="c", stats=STATS)).status_code == 200
    assert (await client.get("/v1/versions/c")).content == stood
    again = await client.post("/v1/workflows/w/versions", json={**child, "generation_id": None, "commit_message": "m"})
    assert again.status_code == 200
    assert (await client.get("/v1/versions/c")).content == stood
    assert problem(
        await client.post("/v1/workflows/w/versions", json={"id": "c", "dsl": {"of": "c"}, "operation": "init"})
    ) == (409, "version_conflict")


async def test_a_version_is_a_member_of_many_generations(client: httpx.AsyncClient, make: Make) -> None:
    await versions(make, "a", "b", "c")
    for name in ("g0", "g1"):
        await make.created(GENERATIONS, id=name)
        put = await client.put(
            f"/v1/generations/{name}/members",
            json={"items": [{"version_id": "a", "rank": 2}, {"version_id": "b", "rank": 1, "fitness": 0.5}]},
        )
        assert put.status_code == 200, put.text
        wanted = [{"version_id": "b", "rank": 1, "fitness": 0.5}, {"version_id": "a", "rank": 2, "fitness": None}]
        assert put.json() == {"items": wanted}
        found = await client.get(f"/v1/generations/{name}/members")
        assert (found.json(), found.headers["etag"]) == (put.json(), put.headers["etag"])
    replaced = await client.put("/v1/generations/g1/members", json={"items": [{"version_id": "c"}]})
    assert replaced.json()["items"] == [{"version_id": "c", "rank": None, "fitness": None}]
    assert (await client.get("/v1/generations/g1/members")).json() == replaced.json()
    assert len((await client.get("/v1/generations/g0/members")).json()["items"]) == 2
    assert (await client.put("/v1/generations/g1/members", json={"items": []})).json() == {"items": []}
    assert (await client.get("/v1/generations/g1/members")).json() == {"items": []}


async def test_members_are_refused_where_they_cannot_be(client: httpx.AsyncClient, make: Make) -> None:
    await versions(make, "a")
    await make.created(GENERATIONS, id="g")
    path = "/v1/generations/g/members"
    refused = await client.put(path, json={"items": [{"version_id": "a"}, {"version_id": "none"}]})
    assert (problem(refused), refused.json()["missing_ids"]) == ((404, "version_not_found"), ["none"])
    twice = await client.put(path, json={"items": [{"version_id": "a"}, {"version_id": "a"}]})
    assert (problem(twice), twice.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/items/1/version_id")
    stale = await client.put(path, json={"items": []}, headers={"if-match": '"7"'})
    assert (problem(stale), stale.json()["current_etag"]) == ((412, "precondition_failed"), '"1"')
    for method in ("GET", "PUT"):
        answer = await client.request(
            method, "/v1/generations/none/members", json={"items": []} if method == "PUT" else None
        )
        assert problem(answer) == (404, "generation_not_found")
    assert (await client.get(path)).json() == {"items": []}


async def test_those_who_replace_the_members_at_once_leave_the_members_of_one(
    client: httpx.AsyncClient, make: Make
) -> None:
    names = [f"v{n}" for n in range(8)]
    await versions(make, *names)
    await make.created(GENERATIONS, id="g")
    pairs = [[{"version_id": names[n]}, {"version_id": names[n - 1]}] for n in range(8)]
    answers = await gather(*(client.put("/v1/generations/g/members", json={"items": items}) for items in pairs))
    assert codes(list(answers)) == [200] * 8
    left = (await client.get("/v1/generations/g/members")).json()
    assert left in [answer.json() for answer in answers]


async def test_the_last_completed_generation_is_what_a_run_resumes_from(client: httpx.AsyncClient, make: Make) -> None:
    await versions(make, "a", "b")
    path = f"{GENERATIONS}/last-completed"
    await make.created(GENERATIONS, id="g0")
    assert problem(await client.get(path)) == (404, "no_completed_generation")
    members = [{"version_id": "b", "rank": 0, "fitness": 0.75}, {"version_id": "a", "rank": 1, "fitness": -0.5}]
    await client.put("/v1/generations/g0/members", json={"items": members})
    await completed(client, "g0", stats=STATS)
    await make.created(GENERATIONS, id="g1")
    zero = (await client.get(path)).json()
    assert (zero["id"], zero["number"], zero["members"], zero["stats"]) == ("g0", 0, members, STATS)
    assert (zero["checkpoint"], zero["member_count"]) == (None, 2)
    await send(client, "PUT", f"{RUNS}/r/checkpoint", b'{"rng": [1.0]}')
    assert (await client.get(path)).content.endswith(b',"checkpoint":{"rng": [1.0]}}')
    assert "checkpoint" not in (await client.get(f"{path}?include=")).json()
    assert (await client.get(f"{path}?include=checkpoint")).json()["checkpoint"] == {"rng": [1]}
    assert problem(await client.get(f"{path}?include=members")) == (422, "invalid_input")
    await completed(client, "g1")
    one = await client.get(path)
    assert (one.json()["number"], one.json()["members"], one.headers["etag"]) == (1, [], '"2"')


async def test_notes_are_patched_after_the_completion_too(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(GENERATIONS, id="g", comment="c", feedback="f")
    await completed(client, "g", comment=None)
    patched = await client.patch("/v1/generations/g", json={"feedback": "better"})
    assert (patched.json()["comment"], patched.json()["feedback"]) == (None, "better")
    assert (await client.patch("/v1/generations/g", json={})).headers["etag"] == patched.headers["etag"]
    assert problem(await client.patch("/v1/generations/g", json={"stats": {}})) == (422, "invalid_input")
    assert problem(await client.patch("/v1/generations/none", json={})) == (404, "generation_not_found")


async def test_the_list_counts_members_and_invocations_and_shows_the_range_of_scores(
    client: httpx.AsyncClient, make: Make
) -> None:
    for name in ("g0", "g1", "g2"):
        await make.created(GENERATIONS, id=name)
    await versions(make, "a", generation_id="g0")
    await versions(make, "b")
    await client.put("/v1/generations/g1/members", json={"items": [{"version_id": "a", "fitness": 3.5}]})
    for score, links in ((0.25, {"generation_id": "g0"}), (None, {"generation_id": "g0"}), (0.75, {"run_id": "r"}),
                         (0.5, {}), (9.0, {"generation_id": "g2"})):  # fmt: skip
        made = await make.invocation(version_id="a", **links)
        if score is not None:
            await client.post(f"/v1/invocations/{made['id']}/end", json={"status": "completed", "fitness_score": score})
    page = (await client.get(GENERATIONS)).json()
    assert [item["number"] for item in page["items"]] == [0, 1, 2]
    shown = [
        (item["member_count"], item["invocation_count"], item["successful_invocation_count"], item["fitness"])
        for item in page["items"]
    ]
    assert shown == [
        (0, 4, 3, {"min": 0.25, "max": 0.75, "count": 3}),
        (1, 0, 0, {"min": 3.5, "max": 3.5, "count": 1}),
        (0, 1, 1, {"min": 9.0, "max": 9.0, "count": 1}),
    ]
    newest = (await client.get(f"{GENERATIONS}?order=desc&limit=2")).json()
    assert [item["number"] for item in newest["items"]] == [2, 1]
    assert page["items"][0] == (await client.get("/v1/generations/g0")).json()


async def test_the_versions_of_a_generation_and_of_its_run_agree(client: httpx.AsyncClient, make: Make) -> None:
    for number, name in enumerate(("g0", "g1")):
        await make.created(GENERATIONS, id=name)
        await versions(make, f"a{number}", f"b{number}", generation_id=name)
    await versions(make, "elsewhere")

    async def ids(query: str) -> set[str]:
        return {item["id"] for item in (await client.get(f"/v1/versions?{query}")).json()["items"]}

    assert await ids("generation_id=g0") == {"a0", "b0"}
    assert await ids("run_id=r") == await ids("generation_id=g0") | await ids("generation_id=g1")
    assert await ids("run_id=r&generation_id=g1") == {"a1", "b1"}


async def test_a_generation_loses_the_members_whose_workflow_is_deleted_and_no_others(
    client: httpx.AsyncClient, service: Service, make: Make
) -> None:
    await make.workflow(id="kept")
    await make.version("kept", id="stays")
    await make.created(GENERATIONS, id="g")
    await versions(make, "a", "b", generation_id="g")
    items = [{"version_id": name} for name in ("a", "b", "stays")]
    await client.put("/v1/generations/g/members", json={"items": items})
    deleted = await client.delete("/v1/workflows/w?cascade=true")
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)
    job = (await client.get(deleted.headers["location"])).json()
    assert (job["state"], job["error"], job["counts"]["versions"]) == ("completed", None, 2)
    left = (await client.get("/v1/generations/g/members")).json()["items"]
    assert [member["version_id"] for member in left] == ["stays"]
