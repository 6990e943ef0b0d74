"""Rows that somebody works on, things too large for one transaction, and kinds that PostgreSQL refuses to let go."""

from __future__ import annotations

from asyncio import create_task
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.http.service import Service
from app.retention.jobs import Retention
from app.retention.kind import Rule
from app.retention.kinds import INVOCATIONS
from app.retention.removal import remove_batch
from app.retention.store import RUN_KIND
from tests.conftest import Make, new_tenant
from tests.payloads import problem
from tests.retention.aging import Run, age, ended, left, sql
from tests.waiting import held_up

OLD = {"max_age_days": 30}
RAISED, QUERY_CANCELED, DISK_FULL = "P0001", "57014", "53100"


async def test_a_row_that_somebody_holds_is_passed_over(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    for name in ("free", "held"):
        await ended(make, version, name)
    await age(service, client, "invocations", "ended_at")
    async with service.ground.database.writing() as somebody:
        await somebody.rows(
            Statement("SELECT FROM invocations WHERE tenant_id = :tenant AND id = 'held' FOR UPDATE"),
            tenant=client.headers["x-test-tenant"],
        )
        await run({"invocations": OLD})
        assert await left(client) == ["held"]


async def test_what_leaves_at_that_moment_cannot_be_pinned(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    await ended(make, (await make.version())["id"], "i")
    await age(service, client, "invocations", "ended_at")
    async with service.ground.database.writing() as transaction:
        tenant_id = client.headers["x-test-tenant"]
        assert (await remove_batch(transaction, tenant_id, INVOCATIONS, Rule(30))).counts["invocations"] == 1
        pinning = create_task(client.put("/v1/pins/invocation/i"))
        await held_up(service)
    assert problem(await pinning) == (404, "nothing_to_pin")


async def test_the_best_of_a_generation_that_somebody_changes_stays(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    await make.created("/v1/evolution-runs", id="run", generation={"id": "g"})
    version = (await make.version())["id"]
    done = await client.post("/v1/generations/g/complete", json={"best_version_id": version})
    assert done.status_code == 200, done.text
    await age(service, client, "versions", "created_at")
    rule = {"versions": {**OLD, "keep_best": False}}
    async with service.ground.database.writing() as somebody:
        await somebody.rows(
            Statement("SELECT FROM generations WHERE tenant_id = :tenant FOR UPDATE"),
            tenant=client.headers["x-test-tenant"],
        )
        assert "versions" not in (await run(rule))["counts"]
    assert (await run(rule))["counts"]["versions"] == 1
    assert (await client.get("/v1/generations/g")).json()["best_version_id"] is None


async def test_a_run_of_evolution_stays_for_what_is_made_in_it_at_that_moment(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    await make.created("/v1/evolution-runs", id="run", generation={"id": "g"})
    version = (await make.version())["id"]
    assert (await client.post("/v1/evolution-runs/run/complete", json={"status": "completed"})).status_code == 200
    for column in ("started_at", "ended_at"):
        await age(service, client, "evolution_runs", column)
    async with service.ground.database.writing() as somebody:
        await somebody.rows(
            Statement("UPDATE versions SET generation_id = 'g' WHERE tenant_id = :tenant AND id = :id"),
            tenant=client.headers["x-test-tenant"], id=version,
        )  # fmt: skip
        following = create_task(run({"evolution_runs": OLD}))
        await held_up(service)
    assert (await following)["counts"] == {}
    assert await left(client, "/v1/evolution-runs") == ["run"]


async def test_what_is_locked_is_judged_again_by_its_children(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    version = (await make.version())["id"]
    await ended(make, version, "parent")
    await ended(make, version, "child", parent_invocation_id="parent")
    await age(service, client, "invocations", "ended_at")
    async with service.ground.database.writing() as transaction:
        found = await transaction.rows(
            INVOCATIONS.check, tenant_id=client.headers["x-test-tenant"], keys=["parent", "child"],
            **Rule(30).arguments(),
        )  # fmt: skip
    assert [row["key"] for row in found] == ["child"]


async def test_what_is_too_large_for_one_transaction_leaves_in_several(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.retention.removal.WHOLE_MAX", 4)
    version = (await make.version())["id"]
    for name in ("large", "small"):
        await ended(make, version, name)
    items = [{"id": f"m{n}", "role": "user", "payload": n} for n in range(9, 20)]
    assert (await client.post("/v1/invocations/large/messages", json={"items": items})).status_code in (200, 201)
    await age(service, client, "invocations", "ended_at")
    assert (await run({"invocations": OLD}, rows_max=2))["counts"] == {"invocations": 2, "messages": 13}
    assert await left(client) == []


async def test_rows_are_told_once_for_what_a_run_counts(
    client: httpx.AsyncClient, make: Make, service: Service
) -> None:
    version = (await make.version())["id"]
    for n in range(5):
        await ended(make, version, f"i{n}")
    await age(service, client, "invocations", "ended_at")
    assert (await client.put("/v1/retention", json={"kinds": {"invocations": OLD}})).status_code == 200
    asked = await client.post("/v1/retention/runs", json={})
    told = Counter[str]()
    retention = Retention(3, lambda table, rows: told.update({table: rows}))
    await drain(JobRunner({RUN_KIND: retention}, 30, service.ground.hints).run, service.ground.database)
    job = (await client.get(asked.headers["location"])).json()
    standing = (await client.get("/v1/retention")).json()["kinds"]["invocations"]
    assert job["counts"] == +told == +Counter(standing["last_counts"]) == {"invocations": 5, "messages": 5}
    assert job["progress"]["done"] == 5


@asynccontextmanager
async def refusing(
    service: Service, condition: str, rows_max: int = 0
) -> AsyncIterator[tuple[httpx.AsyncClient, JobRunner, str]]:
    """A run for three old sessions and a job of a client, and who has carried it out as far as it goes.

    PostgreSQL refuses, with this condition, to delete more sessions than so many at a time.
    """
    connection = await asyncpg.connect(service.ground.database.url)
    async with await new_tenant(service) as client:
        try:
            for n in range(3):
                await Make(client).created("/v1/sessions", id=f"s{n}", status="completed")
            await sql(
                service, client,
                "INSERT INTO jobs (tenant_id, id, kind, state, ended_at)"
                " VALUES (:tenant, 'old', 'x', 'completed', now())",
            )  # fmt: skip
            for table, column in (("sessions", "updated_at"), ("jobs", "ended_at")):
                await age(service, client, table, "created_at")
                await age(service, client, table, column)
            await connection.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
                f" IF (SELECT count(*) FROM gone) > {rows_max} THEN"
                f" RAISE EXCEPTION 'no' USING ERRCODE = '{condition}'; END IF; RETURN NULL; END$$;"
                "CREATE TRIGGER refuse AFTER DELETE ON sessions REFERENCING OLD TABLE AS gone"
                " FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
            )
            await client.put("/v1/retention", json={"kinds": {"sessions": OLD, "jobs": OLD}})
            job: str = (await client.post("/v1/retention/runs", json={})).headers["location"]
            runner = JobRunner({RUN_KIND: Retention(3)}, 30, service.ground.hints)
            await drain(runner.run, service.ground.database)
            yield client, runner, job
        finally:
            await connection.close()


async def test_a_batch_that_takes_too_long_is_tried_with_fewer_rows(fresh: Service) -> None:
    async with refusing(fresh, QUERY_CANCELED, rows_max=1) as (client, _, path):
        job = (await client.get(path)).json()
        assert (job["state"], job["counts"]) == ("completed", {"sessions": 3, "jobs": 1})


@pytest.mark.parametrize("condition", [RAISED, QUERY_CANCELED])
async def test_a_kind_that_cannot_be_followed_is_named_and_the_others_are(fresh: Service, condition: str) -> None:
    async with refusing(fresh, condition) as (client, runner, path):
        job = (await client.get(path)).json()
        assert (job["state"], job["counts"]) == ("failed", {"jobs": 1})
        assert (job["error"]["code"], job["error"]["kinds"]) == ("retention_failed", ["sessions"])
        kinds = (await client.get("/v1/retention")).json()["kinds"]
        assert kinds["sessions"]["last_error"] is not None
        assert kinds["sessions"]["last_success_at"] is None
        assert (kinds["jobs"]["last_error"], kinds["jobs"]["last_counts"]) == (None, {"jobs": 1})
        await sql(fresh, client, "DROP TRIGGER refuse ON sessions")
        again = (await client.post("/v1/retention/runs", json={})).headers["location"]
        await drain(runner.run, fresh.ground.database)
        assert (await client.get(again)).json()["counts"] == {"sessions": 3}
        assert (await client.get("/v1/retention")).json()["kinds"]["sessions"]["last_error"] is None


async def test_a_run_waits_while_the_database_cannot_do_it(fresh: Service) -> None:
    async with refusing(fresh, DISK_FULL) as (client, runner, path):
        job = (await client.get(path)).json()
        assert (job["state"], job["counts"], job["error"]["code"]) == ("running", {}, "unavailable")
        assert (await client.get("/v1/retention")).json()["kinds"]["sessions"]["last_error"] is None
        await sql(fresh, client, "DROP TRIGGER refuse ON sessions")
        await sql(fresh, client, "UPDATE jobs SET lease_expires_at = now() WHERE tenant_id = :tenant")
        await drain(runner.run, fresh.ground.database)
        job = (await client.get(path)).json()
        assert (job["state"], job["counts"]) == ("completed", {"sessions": 3, "jobs": 1})
