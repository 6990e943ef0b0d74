"""The job `workflow.delete`: bounded steps, resumed after a kill, nothing done twice, refused before it begins."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import httpx
import pytest

from app.background import cascade
from app.background.cascade import delete_workflow, without_parents_of_others
from app.background.runner import drain
from app.background.work import ATTEMPTS_MAX, JobRunner
from app.db.database import Transaction
from app.db.sql import Statement
from app.http.service import Service
from app.jobs.store import Claimed, Standing, Step
from app.surface import KINDS
from tests.conftest import Make
from tests.waiting import held_up

LAPSE = Statement(
    "UPDATE jobs SET lease_expires_at = clock_timestamp() - interval '1 second'"
    " WHERE tenant_id = :t AND state = 'running'"
)
TABLES = (
    "artifact_references",
    "checkpoints",
    "contexts",
    "messages",
    "evaluations",
    "actions",
    "node_invocations",
    "invocations",
    "node_versions",
    "node_memories",
    "versions",
)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a few rows, so that a small record takes many."""
    monkeypatch.setattr(cascade, "ROWS_MAX", 3)
    monkeypatch.setattr(cascade, "PARENTS_MAX", 2)


def runner(service: Service) -> JobRunner:
    return JobRunner(KINDS, 30, service.ground.hints)


@pytest.fixture(autouse=True)
async def nothing_else_to_do(service: Service) -> None:
    """Jobs that other tests asked for and left are done first."""
    await drain(runner(service).run, service.ground.database)


async def record(make: Make, workflow_id: str) -> None:
    """A workflow with descending versions, invocations that start one another, nodes, tool calls and messages."""
    await make.workflow(id=workflow_id)
    parent = await make.version(workflow_id)
    for _ in range(4):
        parent = await make.version(workflow_id, operation="mutation", parent1_id=parent["id"])
        await make.client.patch(f"/v1/versions/{parent['id']}/nodes/n/memory", json={"a": 1})
    artifact = (await make.client.post("/v1/artifacts", content=b"x")).json()["hash"]
    above = None
    for n in range(5):
        made = await make.invocation(version_id=parent["id"], parent_invocation_id=above)
        above = made["id"]
        path = f"/v1/invocations/{above}"
        await make.created(f"{path}/nodes", id="n1", node_id="n")
        await make.created(f"{path}/nodes/n1/actions", id="a1", tool="ls", input={})
        await make.created(f"{path}/evaluations", id="e1", score=n)
        await make.created(f"{path}/checkpoints", node_id="n", state=n)
        assert (await make.client.put(f"{path}/artifacts/a", json={"hash": artifact})).status_code == 201
        assert (await make.client.put(f"{path}/contexts/s/k", content=b"x")).status_code == 201
        await make.created(f"{path}/messages", items=[{"id": f"m{i}", "role": "user", "payload": n} for i in range(4)])


async def rows_of(service: Service, tenant: str) -> dict[str, int]:
    counted = {}
    for table in TABLES:
        row = await service.ground.database.row(
            Statement(f"SELECT count(*) AS n FROM {table} WHERE tenant_id = :t"), t=tenant
        )
        assert row is not None
        counted[table] = row["n"]
    return counted


async def ask(client: httpx.AsyncClient, workflow_id: str) -> str:
    """Asks for the deletion; the job's path."""
    answer = await client.delete(f"/v1/workflows/{workflow_id}", params={"cascade": "true"})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    assert (answer.json()["state"], answer.json()["kind"]) == ("queued", "workflow.delete")
    return answer.headers["location"]


async def job(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    return (await client.get(path)).json()


async def test_all_below_goes_and_nothing_beside(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    tenant = client.headers["x-test-tenant"]
    await record(make, "kept")
    before = await rows_of(service, tenant)
    await record(make, "w")
    path = await ask(client, "w")
    assert await drain(runner(service).run, service.ground.database) == 1
    done = await job(client, path)
    assert (done["state"], done["error"], done["progress"]) == ("completed", None, {"done": 11, "total": 11})
    assert done["counts"] == {
        "messages": 20, "evaluations": 5, "actions": 5, "node_invocations": 5, "invocations": 5, "versions": 5,
        "node_versions": 5, "node_memories": 4, "version_io": 0, "workflows": 1, "checkpoints": 5,
        "contexts": 5, "artifact_references": 5,
    }  # fmt: skip
    assert await rows_of(service, tenant) == before
    assert (await client.get("/v1/workflows/w")).status_code == 404
    assert (await client.get("/v1/workflows/kept")).status_code == 200


async def test_a_job_whose_runner_died_goes_on_where_it_stood(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await record(make, "w")
    path, database = await ask(client, "w"), service.ground.database
    dead = runner(service)
    await dead.run(database, 5)
    halfway = await job(client, path)
    assert halfway["state"] == "running"
    # The runner dies in the middle of a step: it holds the lease, and what the step did is rolled back.
    killed = JobRunner({"workflow.delete": dies_at_the_end_of_a_step}, 30, service.ground.hints)
    with pytest.raises(Killed):
        await killed.run(database, 1)
    assert (await job(client, path))["counts"] == halfway["counts"]
    assert await runner(service).run(database, 1000) == 0, "the lease still holds"
    await database.rows(LAPSE, t=client.headers["x-test-tenant"])
    await drain(runner(service).run, database)
    done = await job(client, path)
    assert (done["state"], done["counts"]["messages"], done["counts"]["invocations"]) == ("completed", 20, 5)
    assert done["progress"] == {"done": 11, "total": 11}


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the runner's own handling happens."""


async def dies_at_the_end_of_a_step(transaction: Transaction, claimed: Claimed, standing: Standing) -> Step:
    await delete_workflow(transaction, claimed, standing)
    raise Killed


async def test_a_runner_that_lost_its_job_changes_nothing_more(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await record(make, "w")
    path, database, tenant = await ask(client, "w"), service.ground.database, client.headers["x-test-tenant"]
    before = await rows_of(service, tenant)

    async def taken_meanwhile(transaction: Transaction, claimed: Claimed, standing: Standing) -> Step:
        step = await delete_workflow(transaction, claimed, standing)
        await database.rows(LAPSE, t=tenant)
        assert await JobRunner({}, 30, service.ground.hints).run(database, 0) == 1
        return step

    slow = JobRunner({"workflow.delete": taken_meanwhile}, 30, service.ground.hints)
    assert await slow.run(database, 1) == 1
    assert await rows_of(service, tenant) == before
    await drain(runner(service).run, database)
    assert (await job(client, path))["state"] == "failed"


async def test_descendants_in_other_workflows_refuse_it_before_anything_is_deleted(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await record(make, "w")
    parent = (await client.get("/v1/workflows/w/versions/latest")).json()["id"]
    await make.workflow(id="other")
    child = await make.version("other", operation="mutation", parent1_id=parent)
    before = await rows_of(service, client.headers["x-test-tenant"])
    path = await ask(client, "w")
    await drain(runner(service).run, service.ground.database)
    failed = await job(client, path)
    assert failed["state"] == "failed"
    assert failed["error"]["code"] == "workflow_in_use"
    assert failed["error"]["referring_ids"] == [child["id"]]
    assert await rows_of(service, client.headers["x-test-tenant"]) == before


async def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_before_its_next_step(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await record(make, "w")
    waiting = await ask(client, "w")
    assert (await client.post(f"{waiting}/cancel")).json()["state"] == "cancelled"
    assert (await client.post(f"{waiting}/cancel")).json()["state"] == "cancelled"
    running = await ask(client, "w")
    database = service.ground.database
    await runner(service).run(database, 2)
    asked = (await client.post(f"{running}/cancel")).json()
    assert (asked["state"], asked["cancel_requested_at"] is not None) == ("running", True)
    await drain(runner(service).run, database)
    assert (await job(client, running))["state"] == "cancelled"
    assert (await client.get("/v1/workflows/w")).status_code == 200
    finished = await ask(client, "w")
    await drain(runner(service).run, database)
    late = await client.post(f"{finished}/cancel")
    assert (late.status_code, late.json()["code"], late.json()["current_state"]) == (409, "job_ended", "completed")
    absent = await client.post("/v1/jobs/absent/cancel")
    assert (absent.status_code, absent.json()["code"]) == (404, "job_not_found")


async def test_a_job_that_kills_its_runners_fails_with_the_reason(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow(id="w")
    path, database = await ask(client, "w"), service.ground.database
    for _ in range(ATTEMPTS_MAX):
        with pytest.raises(Killed):
            await JobRunner({"workflow.delete": dies_at_the_end_of_a_step}, 30, service.ground.hints).run(database, 1)
        await database.rows(LAPSE, t=client.headers["x-test-tenant"])
    await drain(runner(service).run, database)
    failed = await job(client, path)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "persistence_error")


async def test_several_runners_share_the_jobs(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    for n in range(6):
        await make.workflow(id=f"w{n}")
        await make.version(f"w{n}")
    paths = [await ask(client, f"w{n}") for n in range(6)]
    await asyncio.gather(*(drain(runner(service).run, service.ground.database) for _ in range(3)))
    assert {(await job(client, path))["state"] for path in paths} == {"completed"}
    listed = (await client.get("/v1/jobs", params={"state": "completed", "count": "exact"})).json()
    assert listed["total"] == 6


async def test_the_deletion_of_what_is_not_there_or_has_changed_is_refused(client: httpx.AsyncClient) -> None:
    absent = await client.delete("/v1/workflows/absent", params={"cascade": "true"})
    assert (absent.status_code, absent.json()["code"]) == (404, "workflow_not_found")
    await client.put("/v1/workflows/w", json={})
    changed = await client.delete("/v1/workflows/w", params={"cascade": "true"}, headers={"if-match": '"7"'})
    assert (changed.status_code, changed.json()["code"]) == (412, "precondition_failed")
    batched = await client.post(
        "/v1/batch", json={"operations": [{"method": "DELETE", "path": "/v1/workflows/w?cascade=true"}]}
    )
    assert batched.status_code == 422
    assert (await client.get("/v1/jobs")).json()["items"] == []


async def test_what_is_run_between_two_steps_goes_too(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version((await make.workflow(id="w"))["id"])
    late = {"versions": "i1"}

    async def run_meanwhile(transaction: Transaction, job: Claimed, standing: Standing) -> Step:
        phase = (standing.resume_from or {}).get("phase")
        if invocation := late.pop(str(phase), None):
            await make.invocation(id=invocation, version_id=version["id"])
        return await delete_workflow(transaction, job, standing)

    accepted = await client.delete("/v1/workflows/w?cascade=true")
    await drain(
        JobRunner({"workflow.delete": run_meanwhile}, 30, service.ground.hints).run, service.ground.database, limit=100
    )
    job = (await client.get(accepted.headers["location"])).json()
    assert (job["state"], job["error"]) == ("completed", None)
    assert not any((await rows_of(service, client.headers["x-test-tenant"])).values())
    assert "versions" not in late


def test_only_what_leaves_no_child_behind_goes_at_once() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "x")]
    assert without_parents_of_others(["a", "b", "c"], edges) == []
    assert without_parents_of_others(["a", "b", "c", "x"], edges) == ["a", "b", "c", "x"]
    assert without_parents_of_others(["b", "d"], edges) == ["d"]


async def test_what_is_changed_while_it_is_deleted_goes_too(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.workflow(id="w")
    await make.version("w", id="v", nodes=[{"node_id": "n"}])
    await make.invocation(id="i", version_id="v")
    await make.created("/v1/invocations/i/nodes", id="x", node_id="n")
    await make.created("/v1/invocations/i/evaluations", id="e", score=1)
    asked = await client.delete("/v1/workflows/w?cascade=true")
    connection = await asyncpg.connect(service.ground.database.url)
    transaction = connection.transaction()
    await transaction.start()
    tenant = client.headers["x-test-tenant"]
    await connection.execute("UPDATE evaluations SET digest = digest WHERE tenant_id = $1", tenant)
    await connection.execute("UPDATE node_invocations SET summary = 'a' WHERE tenant_id = $1", tenant)
    running_jobs = asyncio.create_task(drain(runner(service).run, service.ground.database))
    await held_up(service)
    await transaction.commit()
    await connection.close()
    await running_jobs
    job = (await client.get(asked.headers["location"])).json()
    assert (job["state"], job["error"]) == ("completed", None)
    assert (job["counts"]["evaluations"], job["counts"]["node_invocations"]) == (1, 1)
