"""A dataset with more than is deleted at once goes by a job, in bounded steps that a killed worker may repeat."""

from __future__ import annotations

from asyncio import create_task

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner, Kind
from app.datasets import jobs, store
from app.db.database import Transaction
from app.http.service import Service
from app.jobs.store import Claimed, Standing, Step
from app.surface import KINDS
from tests.conftest import Make
from tests.payloads import problem
from tests.waiting import held_up

DATASET = "/v1/datasets/ds"


@pytest.fixture(autouse=True)
async def dataset(client: httpx.AsyncClient, make: Make, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset that is large, since little is deleted at once; jobs that other tests left are done first."""
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)
    monkeypatch.setattr(store, "AT_ONCE_MAX", 4)
    monkeypatch.setattr(jobs, "ROWS_MAX", 3)
    await make.created("/v1/datasets", id="ds", name="Questions")
    await make.created(f"{DATASET}/versions", id="v1")
    items = [{"id": f"r{n}", "dataset_version_id": "v1"} for n in range(7)]
    assert (await client.post(f"{DATASET}/records", json={"items": items})).status_code == 201


async def deleted(client: httpx.AsyncClient, service: Service) -> httpx.Response:
    """The job that deletes it, carried out."""
    answer = await client.delete(DATASET)
    assert (answer.status_code, answer.json()["kind"]) == (202, "dataset.delete"), answer.text
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)
    return await client.get(answer.headers["location"])


async def test_all_that_belongs_to_it_goes_in_steps(client: httpx.AsyncClient, service: Service) -> None:
    job = (await deleted(client, service)).json()
    assert (job["state"], job["progress"]) == ("completed", {"done": 9, "total": 9})
    assert job["counts"] == {"dataset_records": 7, "dataset_versions": 1, "datasets": 1}
    for path in (DATASET, "/v1/dataset-records/r0", f"{DATASET}/versions/v1"):
        assert (await client.get(path)).status_code == 404


async def test_two_jobs_for_one_dataset_delete_it_once(client: httpx.AsyncClient, service: Service) -> None:
    first = (await client.delete(DATASET)).headers["location"]
    second = (await deleted(client, service)).json()
    assert {(await client.get(first)).json()["state"], second["state"]} == {"completed"}
    assert (await client.get(DATASET)).status_code == 404


async def test_what_invocations_refer_to_stays(client: httpx.AsyncClient, make: Make, service: Service) -> None:
    await make.invocation(id="i", dataset_record_id="r3")
    job = (await deleted(client, service)).json()
    assert (job["state"], job["error"]["code"], job["error"]["invocation_ids"]) == ("failed", "dataset_in_use", ["i"])
    assert (await client.get(f"{DATASET}/records?count=exact")).json()["total"] == 7


async def test_an_invocation_that_comes_meanwhile_stops_the_job(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    asked = await client.delete(DATASET)
    job = JobRunner({"dataset.delete": then(make)}, 30, service.ground.hints)
    await drain(job.run, service.ground.database)
    found = (await client.get(asked.headers["location"])).json()
    assert (found["state"], found["error"]["code"], found["progress"]["done"]) == ("failed", "dataset_in_use", 0)
    assert (await client.get(f"{DATASET}/records?count=exact")).json()["total"] == 7


def then(make: Make) -> Kind:
    """The job, and after its first step an invocation that refers to every record but one."""

    async def step(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
        found = await jobs.delete_dataset(transaction, job, standing)
        if standing.resume_from is None:
            for number in range(6):
                await make.invocation(dataset_record_id=f"r{number}")
        return found

    return step


async def test_a_batch_holds_no_job_and_a_change_holds_its_precondition(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/batch", json={"operations": [{"method": "DELETE", "path": DATASET}]})
    assert (problem(refused), refused.json()["limit"]) == ((409, "dataset_too_large"), 4)
    assert problem(await client.delete(DATASET, headers={"if-match": '"7"'})) == (412, "precondition_failed")
    assert (await client.get(DATASET)).status_code == 200


@pytest.mark.parametrize("at_once", [4, 1000])
async def test_a_record_that_a_replay_touches_meanwhile_goes_too(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(store, "AT_ONCE_MAX", at_once)
    connection = await asyncpg.connect(service.ground.database.url)
    transaction = connection.transaction()
    await transaction.start()
    tenant = client.headers["x-test-tenant"]
    await connection.execute("UPDATE dataset_records SET digest = digest WHERE tenant_id = $1", tenant)
    going = create_task(deleted(client, service) if at_once == 4 else client.delete(DATASET))
    await held_up(service)
    await transaction.commit()
    await connection.close()
    gone = await going
    assert gone.json()["state"] == "completed" if at_once == 4 else gone.status_code == 204
    assert problem(await client.get(DATASET)) == (404, "dataset_not_found")
