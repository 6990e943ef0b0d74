"""Steps that need the outside world are prepared while no transaction is open; what is away is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.background.runner import drain
from app.background.work import ATTEMPTS_MAX, PATIENCE_SECONDS, JobRunner
from app.db.database import Database, Transaction
from app.db.sql import Statement
from app.errors import Unavailable
from app.http.service import Service
from app.jobs import store
from app.jobs.store import Claimed, Standing, Step
from app.surface import KINDS
from tests.waiting import eventually

KIND = "test.prepared"
STEPS = 3

DUE = Statement("UPDATE jobs SET lease_expires_at = clock_timestamp() WHERE tenant_id = :t AND state = 'running'")
PAUSE = Statement(
    "SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS seconds, attempt_count"
    " FROM jobs WHERE tenant_id = :t"
)
LEASE = Statement("SELECT extract(epoch FROM lease_expires_at)::float8 AS ends FROM jobs WHERE tenant_id = :t")
LONG_AGO = Statement(
    "UPDATE jobs SET error = jsonb_set(error, '{since}', to_jsonb(clock_timestamp() - make_interval(secs => :seconds)))"
    " WHERE tenant_id = :t"
)
OPEN = Statement(
    "SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND xact_start IS NOT NULL AND backend_type = 'client backend'"
)


class Kind:
    """Each step prepares a number, and counts it; `meanwhile` happens in between, when it is prepared."""

    def __init__(self, meanwhile: Callable[[Database], Awaitable[object]] | None = None) -> None:
        self.meanwhile = meanwhile
        self.prepared: list[int] = []
        self.carried_out: list[int] = []
        self.cut_off = 0

    async def prepare(self, database: Database, job: Claimed, standing: Standing) -> int:
        number = (standing.resume_from or {}).get("next", 0)
        self.prepared.append(number)
        try:
            if self.meanwhile is not None:
                await self.meanwhile(database)
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        return int(number)

    async def carry_out(self, transaction: Transaction, job: Claimed, standing: Standing, prepared: int) -> Step:
        assert (standing.resume_from or {}).get("next", 0) == prepared
        self.carried_out.append(prepared)
        finished = prepared == STEPS - 1
        return Step({"next": prepared + 1}, 1, {"numbers": 1}, total=STEPS, finished=finished)


@pytest.fixture(autouse=True)
async def nothing_else_to_do(service: Service) -> None:
    """Jobs that other tests asked for and left are done first."""
    await drain(JobRunner(KINDS, 30, service.ground.hints).run, service.ground.database)


@pytest.fixture
async def path(service: Service, client: httpx.AsyncClient) -> str:
    """A job of the kind."""
    answer = await store.create(service.ground.database.once(""), client.headers["x-test-tenant"], KIND, {})
    assert answer.body is not None
    return f"/v1/jobs/{httpx.Response(200, content=answer.body).json()['id']}"


def runner(service: Service, kind: Kind, lease_seconds: float = 30) -> JobRunner:
    return JobRunner({KIND: kind}, lease_seconds, service.ground.hints)


async def begun(kind: Kind) -> None:
    """Until a step is being prepared."""

    async def prepared() -> bool:
        return bool(kind.prepared)

    await eventually(prepared, "the preparation")


async def job(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    return (await client.get(path)).json()


async def test_no_transaction_is_open_while_a_step_is_prepared(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    seen = []

    async def look(database: Database) -> None:
        row = await database.row(OPEN)
        assert row is not None
        seen.append(row["open"])

    kind = Kind(look)
    await drain(runner(service, kind).run, service.ground.database)
    assert (kind.prepared, kind.carried_out, seen) == ([0, 1, 2], [0, 1, 2], [0, 0, 0])
    done = await job(client, path)
    assert (done["state"], done["progress"], done["counts"]) == ("completed", {"done": 3, "total": 3}, {"numbers": 3})


async def test_a_job_is_held_while_a_step_is_prepared_for_longer_than_its_lease(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    gate, tenant, database = asyncio.Event(), client.headers["x-test-tenant"], service.ground.database
    kind = Kind(lambda _database: gate.wait())
    slow = asyncio.create_task(runner(service, kind, lease_seconds=1.5).run(database, 1))
    await begun(kind)
    ends: set[float] = set()

    async def outlived() -> bool:
        """Whether the lease was renewed several times; nobody else can have the job in between."""
        assert await runner(service, Kind()).run(database, 1) == 0
        row = await database.row(LEASE, t=tenant)
        assert row is not None
        ends.add(row["ends"])
        return len(ends) > 4

    await eventually(outlived, "the end of several leases")
    gate.set()
    assert await slow == 1
    assert (kind.prepared, kind.carried_out) == ([0], [0])


async def test_a_runner_that_loses_its_job_meanwhile_stops_and_changes_nothing(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    tenant, database = client.headers["x-test-tenant"], service.ground.database
    gate = asyncio.Event()
    kind, other = Kind(lambda _database: gate.wait()), Kind()
    slow = asyncio.create_task(runner(service, kind, lease_seconds=0.6).run(database, 1))
    await begun(kind)
    await database.rows(DUE, t=tenant)
    assert await runner(service, other).run(database, 1) == 1
    assert await slow == 1
    assert (kind.carried_out, kind.cut_off, other.carried_out) == ([], 1, [0])
    assert (await job(client, path))["progress"]["done"] == 1


async def test_a_preparation_is_cut_off_where_the_job_is_cancelled(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    gate = asyncio.Event()
    kind = Kind(lambda _database: gate.wait())
    slow = asyncio.create_task(runner(service, kind, lease_seconds=0.6).run(service.ground.database, 1))
    await begun(kind)
    assert (await client.post(f"{path}/cancel")).json()["state"] == "running"
    assert await slow == 1
    assert (kind.cut_off, kind.carried_out, (await job(client, path))["state"]) == (1, [], "cancelled")


async def test_what_is_away_is_waited_for_ever_longer_and_the_job_goes_on(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    tenant, database = client.headers["x-test-tenant"], service.ground.database
    away = True

    async def ask(_database: Database) -> None:
        if away:
            raise Unavailable("The other side is away.")

    one = runner(service, Kind(ask))
    pauses = []
    for tries in range(1, ATTEMPTS_MAX + 3):
        assert await one.run(database, 1) == 1
        assert await one.run(database, 1) == 0, "it waits"
        row = await database.row(PAUSE, t=tenant)
        assert row is not None
        pauses.append(round(row["seconds"]))
        waiting = await job(client, path)
        assert waiting["state"] == "running"
        assert (waiting["error"]["code"], waiting["error"]["detail"]) == ("unavailable", "The other side is away.")
        assert waiting["error"]["tries"] == tries
        await database.rows(DUE, t=tenant)
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 300, 300]
    away = False
    await drain(one.run, database)
    done = await job(client, path)
    assert (done["state"], done["error"], done["progress"]["done"]) == ("completed", None, 3)


async def test_what_is_away_for_a_day_is_given_up_with_the_reason(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    tenant, database = client.headers["x-test-tenant"], service.ground.database

    async def ask(_database: Database) -> None:
        raise Unavailable("The other side is away.")

    one = runner(service, Kind(ask))
    await one.run(database, 1)
    await database.rows(LONG_AGO, t=tenant, seconds=PATIENCE_SECONDS + 1)
    await database.rows(DUE, t=tenant)
    await one.run(database, 1)
    failed = await job(client, path)
    assert (failed["state"], failed["error"]["code"], failed["error"]["tries"]) == ("failed", "unavailable", 2)
    assert failed["ended_at"] is not None


async def test_a_job_that_waits_is_cancelled_without_waiting(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    async def ask(_database: Database) -> None:
        raise Unavailable("The other side is away.")

    one = runner(service, Kind(ask))
    await one.run(service.ground.database, 1)
    await client.post(f"{path}/cancel")
    await drain(one.run, service.ground.database)
    assert (await job(client, path))["state"] == "cancelled"


async def test_attempts_are_counted_from_the_last_progress(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    tenant, database = client.headers["x-test-tenant"], service.ground.database

    class Killed(BaseException):
        """Stands for SIGKILL."""

    async def die(_database: Database) -> None:
        raise Killed

    async def died(times: int) -> None:
        for _ in range(times):
            with pytest.raises(Killed):
                await runner(service, Kind(die)).run(database, 1)
            await database.rows(DUE, t=tenant)

    await died(ATTEMPTS_MAX - 1)
    assert await runner(service, Kind()).run(database, 1) == 1
    assert (await job(client, path))["progress"]["done"] == 1
    await died(ATTEMPTS_MAX)
    await runner(service, Kind()).run(database, 1)
    failed = await job(client, path)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "persistence_error")


async def test_a_run_that_is_cut_off_counts_as_an_attempt_whatever_its_runner_does_next(
    service: Service, client: httpx.AsyncClient, path: str
) -> None:
    tenant, database = client.headers["x-test-tenant"], service.ground.database
    gate = asyncio.Event()
    hanging = Kind(lambda _database: gate.wait())
    one = JobRunner({KIND: hanging, "test.other": Kind()}, 30, service.ground.hints)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await one.run(database, 1)
    assert hanging.cut_off == 1
    await store.create(database.once(""), tenant, "test.other", {})
    await drain(one.run, database)
    await database.rows(DUE, t=tenant)
    gate.set()
    claimed = await store.claim(database, "another", 30)
    assert claimed is not None
    assert (claimed.kind, claimed.attempt_count) == (KIND, 2)
