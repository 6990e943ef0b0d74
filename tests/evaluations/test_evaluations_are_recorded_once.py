"""Evaluations: recorded once, listed in order, deleted with their invocation; the invocation's own scores stay."""

from __future__ import annotations

from asyncio import gather

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import Make
from tests.payloads import codes, problem

PATH = "/v1/invocations/inv/evaluations"
GIVEN = {"id": "e", "evaluator_id": "judge", "score": 0.82, "accuracy": 0.5, "rubric": {"sources": 3}, "feedback": "ok"}


@pytest.fixture(autouse=True)
async def record(make: Make) -> None:
    """An invocation and an evaluator."""
    await make.invocation(id="inv")
    await make.created("/v1/evaluators", id="judge", name="Judge")


async def test_an_evaluation_is_kept_as_it_was_said(client: httpx.AsyncClient) -> None:
    made = await client.post(PATH, json=GIVEN)
    assert made.status_code == 201, made.text
    assert "etag" not in made.headers
    shown = made.json()
    assert shown == {**GIVEN, "invocation_id": "inv", "metadata": {}, "created_at": shown["created_at"]}
    assert (await client.get(PATH)).json()["items"] == [shown]
    assert (await client.get("/v1/invocations/inv")).json()["accuracy"] is None


async def test_the_same_again_is_a_replay_and_something_else_a_conflict(client: httpx.AsyncClient) -> None:
    answers = await gather(*(client.post(PATH, json=GIVEN) for _ in range(20)))
    assert codes(answers) == [200] * 19 + [201]
    assert len({answer.content for answer in answers}) == 1
    refused = await client.post(PATH, json={**GIVEN, "score": 0.83})
    assert (problem(refused), refused.json()["id"]) == ((409, "evaluation_conflict"), "e")
    assert (await client.get(f"{PATH}?count=exact")).json()["total"] == 1


async def test_an_invocation_is_judged_often_also_after_its_end_and_by_hand(
    client: httpx.AsyncClient, make: Make
) -> None:
    await client.post("/v1/invocations/inv/end", json={"status": "completed", "fitness_score": 0.1})
    for number in range(3):
        await make.created(PATH, id=f"e{number}", score=number, evaluator_id="judge" if number else None)
    assert [item["score"] for item in (await client.get(PATH)).json()["items"]] == [0, 1, 2]
    assert [item["id"] for item in (await client.get(f"{PATH}?order=desc")).json()["items"]] == ["e2", "e1", "e0"]
    found = await client.get(f"{PATH}?evaluator_id=judge")
    assert [item["id"] for item in found.json()["items"]] == ["e1", "e2"]
    assert (await client.get("/v1/invocations/inv")).json()["fitness_score"] == 0.1


async def test_what_is_not_there_is_named(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    missing = await client.post(PATH, json={"evaluator_id": "none"})
    assert problem(missing) == (404, "reference_not_found")
    for caller, path in ((client, "/v1/invocations/none/evaluations"), (other, PATH)):
        assert problem(await caller.get(path)) == (404, "invocation_not_found")
        assert problem(await caller.post(path, json={})) == (404, "invocation_not_found")
    assert (await client.get(PATH)).json()["items"] == []


async def test_an_event_tells_of_each_new_one(service: Service, client: httpx.AsyncClient) -> None:
    made = (await client.post(PATH, json=GIVEN)).json()
    await client.post(PATH, json=GIVEN)
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events?type=evaluation.recorded")).json()["items"]
    assert [(event["subject_id"], event["subject_parent_id"], event["data"]) for event in events] == [
        ("e", "inv", made)
    ]


async def test_evaluations_go_with_their_invocation(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json=GIVEN)
    assert problem(await client.delete("/v1/evaluators/judge")) == (409, "evaluator_in_use")
    await client.post("/v1/invocations/inv/end", json={"status": "completed"})
    assert (await client.delete("/v1/invocations/inv")).status_code == 204
    assert (await client.get(PATH)).status_code == 404
    assert (await client.delete("/v1/evaluators/judge")).status_code == 204
