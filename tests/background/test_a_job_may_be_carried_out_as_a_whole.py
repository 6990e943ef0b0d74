"""Jobs that are carried out as a whole: held while they go on, told how far they are, ended with their effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from app.background.work import JobRunner, Kind
from app.db.database import Database, Transaction
from app.db.sql import Statement
from app.errors import Conflict
from app.http.service import Service
from app.jobs import store
from app.jobs.course import Course
from app.jobs.store import Claimed, Standing, Step
from tests.conftest import new_tenant

KIND = "test.whole"
Work = Callable[[Database, Course], Awaitable[None]]


class Whole:
    """Does what it is given, as a whole."""

    def __init__(self, work: Work) -> None:
        self.work = work

    async def perform(self, database: Database, job: Claimed, standing: Standing, course: Course) -> None:
        """Do it."""
        await self.work(database, course)


async def _end(database: Database, course: Course) -> None:
    async with database.writing() as transaction:
        await course.finish(transaction, {"said": "all"}, done=7)


async def _job(service: Service, client: httpx.AsyncClient) -> str:
    answer = await store.create(service.ground.database.once(""), client.headers["x-test-tenant"], KIND, {})
    assert answer.body is not None
    return "/v1/jobs/" + httpx.Response(200, content=answer.body).json()["id"]


def _runner(service: Service, work: Work, lease_seconds: float = 30, *, as_a_whole: bool = True) -> JobRunner:
    return JobRunner({KIND: Whole(work)}, lease_seconds, service.ground.hints, as_a_whole=as_a_whole)


async def test_only_a_runner_of_whole_jobs_takes_one_and_ends_it(fresh: Service) -> None:
    database = fresh.ground.database
    async with await new_tenant(fresh) as client:
        path = await _job(fresh, client)
        # It takes every job but those, so there must be no other.
        assert await _runner(fresh, _end, as_a_whole=False).run(database, 10) == 0
        assert await _runner(fresh, _end).run(database, 10) == 1
        job = (await client.get(path)).json()
    assert (job["state"], job["report"], job["progress"]) == ("completed", {"said": "all"}, {"done": 7, "total": 7})


async def test_its_progress_is_told_while_it_goes_on_and_from_the_beginning_when_it_is_begun_again(
    service: Service, client: httpx.AsyncClient
) -> None:
    path, database = await _job(service, client), service.ground.database
    told, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_database: Database, course: Course) -> None:
        await course.tell(3, 9, {"rows": 3})
        told.set()
        await go_on.wait()

    running = asyncio.create_task(_runner(service, slow, 0.3).run(database, 1))
    await told.wait()
    job = (await client.get(path)).json()
    assert (job["state"], job["progress"], job["counts"]) == ("running", {"done": 3, "total": 9}, {"rows": 3})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    async def quick(database: Database, course: Course) -> None:
        await course.tell(1, 9)
        await _end(database, course)

    await database.rows(
        Statement("UPDATE jobs SET lease_expires_at = now() WHERE tenant_id = :t"), t=client.headers["x-test-tenant"]
    )
    assert await _runner(service, quick).run(database, 1) == 1
    assert (await client.get(path)).json()["progress"] == {"done": 7, "total": 7}


async def test_it_is_held_for_as_long_as_it_takes_and_cut_off_when_it_is_cancelled(
    service: Service, client: httpx.AsyncClient
) -> None:
    path, database = await _job(service, client), service.ground.database
    begun = asyncio.Event()

    async def endless(_database: Database, _course: Course) -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(_runner(service, endless, 0.3).run(database, 1))
    await begun.wait()
    # The lease is renewed before it ends, so no other runner takes the job.
    passed = Statement("SELECT clock_timestamp() > started_at + interval '0.9 s' AS it FROM jobs WHERE tenant_id = :t")
    while not (await database.rows(passed, t=client.headers["x-test-tenant"]))[0]["it"]:
        assert await _runner(service, _end).run(database, 1) == 0
    assert (await client.post(f"{path}/cancel")).status_code == 200
    assert await asyncio.wait_for(running, 10) == 1
    assert (await client.get(path)).json()["state"] == "cancelled"


async def test_who_has_lost_it_cannot_end_it_and_leaves_nothing_behind(
    service: Service, client: httpx.AsyncClient
) -> None:
    path, database = await _job(service, client), service.ground.database
    tenant = client.headers["x-test-tenant"]

    async def outlived(database: Database, course: Course) -> None:
        await database.rows(Statement("UPDATE jobs SET runner_id = 'another' WHERE tenant_id = :t"), t=tenant)
        async with database.writing() as transaction:
            await transaction.rows(Statement("UPDATE tenants SET name = 'half' WHERE tenant_id = :t"), t=tenant)
            await course.finish(transaction)

    assert await _runner(service, outlived).run(database, 1) == 1
    assert (await client.get(path)).json()["state"] == "running"
    assert (await client.get(f"/v1/tenants/{tenant}")).json()["name"] != "half"


async def test_what_is_to_be_done_after_its_end_is_done_however_long_that_takes(
    service: Service, client: httpx.AsyncClient
) -> None:
    path, database = await _job(service, client), service.ground.database
    told, done = list[tuple[str, str]](), list[str]()
    passed = Statement("SELECT clock_timestamp() > ended_at + interval '0.4 s' AS it FROM jobs WHERE tenant_id = :t")

    async def tidying(database: Database, course: Course) -> None:
        await _end(database, course)
        # Longer than it is held without being asked for.
        while not (await database.rows(passed, t=client.headers["x-test-tenant"]))[0]["it"]:
            pass
        done.append("tidied up")

    kinds = {KIND: Whole(tidying)}
    runner = JobRunner(kinds, 0.3, service.ground.hints, as_a_whole=True, ended=lambda *end: told.append(end))
    assert await runner.run(database, 1) == 1
    assert (done, told) == (["tidied up"], [(KIND, (await client.get(path)).json()["state"])])


async def test_each_end_is_told_once_with_its_kind_and_state(service: Service, client: httpx.AsyncClient) -> None:
    database, told = service.ground.database, list[tuple[str, str]]()
    asked = Statement("UPDATE jobs SET cancel_requested_at = now() WHERE tenant_id = :t AND state = 'queued'")

    async def refuse(_database: Database, _course: Course) -> None:
        raise Conflict("It cannot be.")

    async def step(_transaction: Transaction, _job: Claimed, _standing: Standing) -> Step:
        return Step(finished=True)

    kinds: tuple[Kind, ...] = (Whole(_end), Whole(refuse), step)
    for kind in kinds:
        runner = JobRunner(
            {KIND: kind}, 30, service.ground.hints, as_a_whole=kind is not step, ended=lambda *end: told.append(end)
        )
        for cancelled in (False, True):
            path = await _job(service, client)
            if cancelled:
                await database.rows(asked, t=client.headers["x-test-tenant"])
            assert await runner.run(database, 10) == 1
            assert told.pop() == (KIND, (await client.get(path)).json()["state"])
            assert told == []
