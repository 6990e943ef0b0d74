"""A workflow can be deleted though completed generations name its versions as their best: they name none then."""

from __future__ import annotations

from asyncio import create_task
from typing import Any

import asyncpg
import httpx
import pytest

from app.background import cascade
from app.background.cascade import delete_workflow
from app.background.runner import drain
from app.background.work import JobRunner
from app.db.database import Transaction
from app.events.jobs import sequencer
from app.http.service import Service
from app.jobs.store import Claimed, Standing, Step
from app.surface import KINDS
from tests.conftest import Make
from tests.waiting import held_up

STATS = {"best_fitness": 0.9}


@pytest.fixture(autouse=True)
async def run(service: Service, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, two workflows, and steps of two rows; jobs that other tests left are done first."""
    monkeypatch.setattr(cascade, "PARENTS_MAX", 2)
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)
    await make.created("/v1/evolution-runs", id="r")
    for name in ("w", "kept"):
        await make.workflow(id=name)
        await make.version(name, id=f"best-of-{name}")


async def completed(make: Make, generation_id: str, best_version_id: str) -> dict[str, Any]:
    """A generation that was completed with this best version."""
    await make.created("/v1/evolution-runs/r/generations", id=generation_id)
    body = {"best_version_id": best_version_id, "comment": "c", "stats": STATS}
    answer = await make.client.post(f"/v1/generations/{generation_id}/complete", json=body)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"'), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def deleted(client: httpx.AsyncClient, service: Service, work: Any = delete_workflow) -> dict[str, Any]:
    """The job that deleted the workflow."""
    asked = await client.delete("/v1/workflows/w?cascade=true")
    await drain(JobRunner({"workflow.delete": work}, 30, service.ground.hints).run, service.ground.database)
    found: dict[str, Any] = (await client.get(asked.headers["location"])).json()
    assert (found["state"], found["error"], found["counts"]["versions"]) == ("completed", None, 1)
    return found


async def test_generations_keep_all_but_the_name(client: httpx.AsyncClient, service: Service, make: Make) -> None:
    names = [f"g{n}" for n in range(5)]
    before = {name: await completed(make, name, "best-of-w") for name in names}
    other = await completed(make, "other", "best-of-kept")
    job = await deleted(client, service)
    assert job["counts"]["best_of_generations"] == 5
    for name in names:
        left = await client.get(f"/v1/generations/{name}")
        assert left.headers["etag"] == '"3"'
        assert {**left.json(), **before[name]} == {**left.json(), "best_version_id": "best-of-w"}
        assert left.json()["best_version_id"] is None
    again = await client.post(
        "/v1/generations/g0/complete", json={"best_version_id": "best-of-w", "comment": "c", "stats": STATS}
    )
    assert (again.status_code, again.json()["best_version_id"], again.headers["etag"]) == (200, None, '"3"')
    kept = await client.get("/v1/generations/other")
    assert (kept.json()["best_version_id"], kept.headers["etag"]) == (other["best_version_id"], '"2"')
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events?type=generation.updated")).json()["items"]
    assert [(event["subject_id"], event["data"]["best_version_id"]) for event in events] == [
        (name, None) for name in names
    ]


async def test_a_name_given_between_two_steps_goes_too(client: httpx.AsyncClient, service: Service, make: Make) -> None:
    late = {"versions": "g"}

    async def complete_meanwhile(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
        if generation := late.pop(str((standing.resume_from or {}).get("phase")), None):
            await completed(make, generation, "best-of-w")
        return await delete_workflow(transaction, job, standing)

    await deleted(client, service, complete_meanwhile)
    assert not late
    assert (await client.get("/v1/generations/g")).json()["best_version_id"] is None


async def test_a_completion_under_way_is_waited_for(client: httpx.AsyncClient, service: Service, make: Make) -> None:
    await make.created("/v1/evolution-runs/r/generations", id="g")
    connection = await asyncpg.connect(service.ground.database.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "UPDATE generations SET best_version_id = 'best-of-w' WHERE tenant_id = $1 AND id = 'g'",
        client.headers["x-test-tenant"],
    )
    deletion = create_task(deleted(client, service))
    await held_up(service)
    await transaction.commit()
    await connection.close()
    await deletion
    assert (await client.get("/v1/generations/g")).json()["best_version_id"] is None
