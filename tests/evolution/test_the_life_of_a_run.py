"""A run starts, lives, ends in one of four ways, and may be taken up again."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import PAYLOADS, codes, problem, send

RUNS = "/v1/evolution-runs"
FIELDS = {
    "goal_text": "Find it",
    "config": {"populationSize": 4, "rate": 0.3},
    "evolution_type": "gp",
    "notes": "GP Evolution Run - Pop: 4, Gen: 3",
    "owner_id": "u",
}


async def event_types(client: httpx.AsyncClient, service: Service) -> list[str]:
    """The types of the tenant's events, in order."""
    await drain(sequencer(lambda _waited: None), service.ground.database)
    return [event["type"] for event in (await client.get("/v1/events?limit=1000")).json()["items"]]


async def test_a_run_starts_with_its_fields_and_its_first_generation(
    client: httpx.AsyncClient, service: Service, make: Make
) -> None:
    run = await make.created(RUNS, id="r", **FIELDS, generation={"id": "g", "comment": "seeds"})
    assert {name: run[name] for name in FIELDS} == FIELDS
    assert (run["status"], run["ended_at"], run["heartbeat_at"]) == ("running", None, None)
    generation = (await client.get("/v1/generations/g")).json()
    assert (generation["number"], generation["run_id"], generation["comment"]) == (0, "r", "seeds")
    assert generation["started_at"] == run["started_at"]
    assert (await client.get(f"{RUNS}/r")).json()["generation_count"] == 1
    assert await event_types(client, service) == ["evolution_run.started", "generation.started"]


async def test_a_run_without_a_generation_has_none(client: httpx.AsyncClient, make: Make) -> None:
    run = await make.created(RUNS)
    assert run["id"].startswith("run_")
    assert (await client.get(f"{RUNS}/{run['id']}/generations")).json()["items"] == []


async def test_nothing_of_a_run_stays_where_its_generation_cannot_be(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RUNS, id="first", generation={"id": "g"})
    refused = await client.post(RUNS, json={"id": "second", "generation": {"id": "g"}})
    assert (problem(refused), refused.json()["id"]) == ((409, "generation_conflict"), "g")
    assert problem(await client.get(f"{RUNS}/second")) == (404, "evolution_run_not_found")


async def test_the_same_run_again_is_a_replay_with_its_generation(client: httpx.AsyncClient) -> None:
    body = {"id": "r", **FIELDS, "generation": {"comment": "seeds"}}
    first = await client.post(RUNS, json=body)
    again = await client.post(RUNS, json=body)
    assert (first.status_code, again.status_code, again.content) == (201, 200, first.content)
    for other in ({**body, "goal_text": "Find them"}, {**body, "generation": {}}, {"id": "r"}):
        assert problem(await client.post(RUNS, json=other)) == (409, "evolution_run_conflict")
    assert len((await client.get(f"{RUNS}/r/generations")).json()["items"]) == 1
    replayed = await client.post(f"{RUNS}/r/generations", json={"number": 0, "comment": "seeds"})
    assert replayed.status_code == 200


async def test_twenty_equal_starts_make_one_run_and_one_generation(client: httpx.AsyncClient) -> None:
    body = {"id": "r", "generation": {}}
    answers = await gather(*(client.post(RUNS, json=body) for _ in range(20)))
    assert codes(list(answers)) == [200] * 19 + [201]
    assert [item["number"] for item in (await client.get(f"{RUNS}/r/generations")).json()["items"]] == [0]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "interrupted"])
async def test_a_run_ends_in_each_of_four_ways_and_the_first_stays(
    client: httpx.AsyncClient, service: Service, make: Make, status: str
) -> None:
    await make.created(RUNS, id="r", notes="before")
    body = {"status": status, "notes": "after"}
    ended = await client.post(f"{RUNS}/r/complete", json=body)
    assert (ended.status_code, ended.json()["status"], ended.json()["notes"]) == (200, status, "after")
    assert ended.json()["ended_at"] is not None
    again = await client.post(f"{RUNS}/r/complete", json=body)
    assert (again.status_code, again.content) == (200, ended.content)
    for other in ({"status": status}, {"status": "completed", "notes": "other"}):
        refused = await client.post(f"{RUNS}/r/complete", json=other)
        assert (problem(refused), refused.json()["current_status"]) == ((409, "evolution_run_ended"), status)
    listed = (await client.get(f"{RUNS}?status={status}")).json()["items"]
    assert [item["id"] for item in listed] == ["r"]
    assert await event_types(client, service) == ["evolution_run.started", "evolution_run.ended"]


async def test_an_end_keeps_the_notes_unless_it_says_others_and_honours_its_instant(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created(RUNS, id="r", notes="before", started_at="2026-01-05T10:00:00Z")
    early = await client.post(
        f"{RUNS}/r/complete", json={"status": "failed", "ended_at": "2026-01-05T09:59:59.999999Z"}
    )
    assert (problem(early), early.json()["errors"][0]["pointer"]) == ((422, "invalid_input"), "/ended_at")
    body = {"status": "failed", "ended_at": "2026-01-05T10:00:01.5Z"}
    ended = (await client.post(f"{RUNS}/r/complete", json=body)).json()
    assert (ended["notes"], ended["ended_at"]) == ("before", "2026-01-05T10:00:01.500000Z")
    assert (await client.get(f"{RUNS}/r")).json()["duration"] == 1.5


async def test_the_race_to_end_a_run_has_one_winner(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RUNS, id="r")
    statuses = ["completed", "failed", "cancelled", "interrupted"]
    answers = await gather(*(client.post(f"{RUNS}/r/complete", json={"status": statuses[n % 4]}) for n in range(20)))
    won = {answer.json()["status"] for answer in answers if answer.status_code == 200}
    assert len(won) == 1
    assert codes(list(answers)) == [200] * 5 + [409] * 15
    assert won == {(await client.get(f"{RUNS}/r")).json()["status"]}


async def test_an_interrupted_run_is_taken_up_again(client: httpx.AsyncClient, service: Service, make: Make) -> None:
    await make.created(RUNS, id="r")
    await client.post(f"{RUNS}/r/complete", json={"status": "interrupted"})
    assert problem(await client.post(f"{RUNS}/r/generations", json={})) == (409, "evolution_run_ended")
    reopened = await client.post(f"{RUNS}/r/reopen")
    assert (reopened.json()["status"], reopened.json()["ended_at"]) == ("running", None)
    again = await client.post(f"{RUNS}/r/reopen")
    assert (again.status_code, again.content) == (200, reopened.content)
    assert (await client.post(f"{RUNS}/r/generations", json={})).status_code == 201
    assert (await client.post(f"{RUNS}/r/complete", json={"status": "interrupted"})).status_code == 200
    types = await event_types(client, service)
    assert types == ["evolution_run.started", "evolution_run.ended", "evolution_run.reopened", "generation.started",
                     "evolution_run.ended"]  # fmt: skip


async def test_a_heartbeat_moves_no_etag_and_shows_that_the_run_was_cancelled(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.created(RUNS, id="r")
    etag = (await client.get(f"{RUNS}/r")).headers["etag"]
    for _ in range(2):
        alive = await client.post(f"{RUNS}/r/heartbeat")
        assert (alive.status_code, alive.headers["etag"]) == (200, etag)
        assert alive.json()["heartbeat_at"] is not None
    assert (await client.get(f"{RUNS}/r")).headers["etag"] == etag
    await client.post(f"{RUNS}/r/complete", json={"status": "cancelled"})
    refused = await client.post(f"{RUNS}/r/heartbeat")
    assert (problem(refused), refused.json()["current_status"]) == ((409, "evolution_run_ended"), "cancelled")


@pytest.mark.parametrize(("path", "body"), [("complete", {"status": "failed"}), ("heartbeat", None), ("reopen", None)])
async def test_a_transition_holds_its_precondition(
    client: httpx.AsyncClient, make: Make, path: str, body: dict[str, Any] | None
) -> None:
    await make.created(RUNS, id="r")
    if path == "reopen":
        await client.post(f"{RUNS}/r/complete", json={"status": "failed"})
    current = (await client.get(f"{RUNS}/r")).headers["etag"]
    refused = await client.post(f"{RUNS}/r/{path}", json=body, headers={"if-match": '"7"'})
    assert (problem(refused), refused.json()["current_etag"]) == ((412, "precondition_failed"), current)
    assert (await client.post(f"{RUNS}/r/{path}", json=body, headers={"if-match": current})).status_code == 200


async def test_fields_are_patched_and_nothing_else_moves(client: httpx.AsyncClient, make: Make) -> None:
    await make.created(RUNS, id="r", **FIELDS)
    assert (await client.patch(f"{RUNS}/r", json={})).headers["etag"] == '"1"'
    patched = await client.patch(f"{RUNS}/r", json={"notes": None, "config": None, "goal_text": "Other"})
    assert patched.headers["etag"] == '"2"'
    changed = {name: patched.json()[name] for name in FIELDS}
    assert changed == {**FIELDS, "notes": None, "config": {}, "goal_text": "Other"}
    assert problem(await client.patch(f"{RUNS}/none", json={"notes": "n"})) == (404, "evolution_run_not_found")
    assert problem(await client.patch(f"{RUNS}/r", json={"status": "failed"})) == (422, "invalid_input")


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_checkpoint_comes_back_byte_for_byte(client: httpx.AsyncClient, make: Make, name: str) -> None:
    await make.created(RUNS, id="r", generation={"id": "g"})
    await client.post("/v1/generations/g/complete", json={})
    assert problem(await client.get(f"{RUNS}/r/checkpoint")) == (404, "checkpoint_not_found")
    path = f"{RUNS}/r/checkpoint"
    first = await send(client, "PUT", path, PAYLOADS[name])
    assert (first.status_code, first.headers["etag"], first.json()["run_id"]) == (201, '"1"', "r")
    found = await client.get(path)
    assert (found.content, found.headers["etag"]) == (PAYLOADS[name], '"1"')
    resumed = await client.get(f"{RUNS}/r/generations/last-completed")
    assert resumed.content.endswith(b',"checkpoint":' + PAYLOADS[name] + b"}")
    again = await send(client, "PUT", path, b"[]", **{"if-match": '"1"'})
    assert (again.status_code, again.headers["etag"]) == (200, '"2"')
    assert problem(await send(client, "PUT", path, b"[1]", **{"if-match": '"1"'})) == (412, "precondition_failed")
    assert (await client.get(path)).content == b"[]"
    # A checkpoint is its own resource: it moves neither the run nor its generations.
    assert (await client.get(f"{RUNS}/r")).headers["etag"] == '"1"'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("POST", "/heartbeat"),
        ("POST", "/reopen"),
        ("GET", "/checkpoint"),
        ("PUT", "/checkpoint"),
        ("GET", "/generations"),
        ("POST", "/generations"),
        ("GET", "/generations/by-number/0"),
        ("GET", "/generations/last-completed"),
    ],
)
async def test_a_run_that_is_not_there_is_said_so(client: httpx.AsyncClient, method: str, path: str) -> None:
    refused = await client.request(method, f"{RUNS}/none{path}", json={} if method in ("PUT", "PATCH") else None)
    assert problem(refused) == (404, "evolution_run_not_found")
