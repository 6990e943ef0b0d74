"""Runs that the timetable begins: for whom, how often, in which order, and what tells that they came to their end."""

from __future__ import annotations

import time
from typing import Any

import httpx

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.http.service import Service
from app.retention.jobs import Retention, followed, follower
from app.retention.store import RUN_KIND
from tests.conftest import Make, http, new_tenant
from tests.http.test_metrics_tell_what_happened import figures
from tests.retention.aging import age, ended, left, sql

LOOK_SECONDS = 3600.0
follow = follower(LOOK_SECONDS)


async def work(service: Service) -> None:
    """Carry out every run that was begun."""
    runner = JobRunner({RUN_KIND: Retention(3)}, 30, service.ground.hints)
    await drain(runner.run, service.ground.database)


async def runs(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """The tenant's runs, the newest first."""
    items: list[dict[str, Any]] = (await client.get(f"/v1/jobs?kind={RUN_KIND}")).json()["items"]
    return items


async def ruled(client: httpx.AsyncClient, **kinds: Any) -> None:
    """Set rules."""
    assert (await client.put("/v1/retention", json={"kinds": kinds})).status_code == 200


async def test_what_names_something_leaves_before_it_in_the_same_run(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        make = Make(client)
        await make.created("/v1/evolution-runs", id="run", generation={"id": "g"})
        version = (await make.version(generation_id="g"))["id"]
        await ended(make, version, "i", generation_id="g")
        assert (await client.post("/v1/evolution-runs/run/complete", json={"status": "completed"})).status_code == 200
        for table, column in (
            ("evolution_runs", "started_at"), ("evolution_runs", "ended_at"), ("versions", "created_at"),
            ("invocations", "ended_at"),
        ):  # fmt: skip
            await age(fresh, client, table, column)
        every = {"max_age_days": 30, "keep_best": False}
        await ruled(client, invocations=every, versions=every, evolution_runs={"max_age_days": 30})
        assert await follow(fresh.ground.database, 10) == 1
        await work(fresh)
        [run] = await runs(client)
        assert (run["state"], run["arguments"]["scheduled"], run["arguments"]["dry_run"]) == ("completed", True, False)
        assert {name: run["counts"].get(name) for name in ("invocations", "versions", "evolution_runs")} == {
            "invocations": 1, "versions": 1, "evolution_runs": 1,
        }  # fmt: skip
        assert await left(client, "/v1/evolution-runs") == []


async def test_a_tenant_has_one_run_at_a_time_and_none_too_soon_after_it(fresh: Service) -> None:
    database = fresh.ground.database
    async with (
        await new_tenant(fresh) as client, await new_tenant(fresh) as ageless, await new_tenant(fresh) as leaving,
    ):  # fmt: skip
        await ruled(client, jobs={"max_age_days": 30})
        await ruled(ageless, jobs={"keep_latest": 1})
        await ruled(leaving, jobs={"max_age_days": 30})
        tenants = "UPDATE tenants SET closed_at = now() WHERE tenant_id = :tenant"
        await sql(fresh, leaving, tenants)
        await sql(
            fresh, client,
            "INSERT INTO jobs (tenant_id, id, kind, state, arguments, created_at, ended_at) VALUES (:tenant, 'failed',"
            " 'retention.run', 'failed', '{\"scheduled\": true, \"dry_run\": false}', now() - interval '1 day', now())",
        )  # fmt: skip
        # To try rules out is not to follow them.
        assert (await client.post("/v1/retention/runs", json={"dry_run": True})).status_code == 202
        assert await follow(database, 10) == 1
        assert await follow(database, 10) == 0
        await work(fresh)
        assert await follow(database, 10) == 0
        earlier = "UPDATE jobs SET created_at = created_at - interval '31 minutes' WHERE tenant_id = :tenant"
        await sql(fresh, client, earlier)
        assert await follow(database, 10) == 1
        assert await follow(database, 10) == 0
        await work(fresh)
        # Of what began by itself the last one is shown, and what failed; and what was asked for.
        shown = [(run["state"], run["arguments"].get("scheduled")) for run in await runs(client)]
        assert shown == [("completed", True), ("completed", None), ("failed", True)]
        assert await runs(ageless) == []
        assert await database.rows(Statement("SELECT FROM jobs WHERE state IN ('queued', 'running')")) == []


async def test_a_run_asked_for_just_now_is_enough(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        await ruled(client, jobs={"max_age_days": 30})
        assert (await client.post("/v1/retention/runs", json={})).status_code == 202
        assert await follow(fresh.ground.database, 10) == 0


async def test_the_oldest_success_of_all_tenants_is_told(fresh: Service) -> None:
    name = "cairn_retention_timestamp_seconds"
    async with await new_tenant(fresh) as client, await new_tenant(fresh) as other, http(fresh) as stranger:
        assert (await figures(stranger))[name] == 0
        started = time.time()
        for one in (client, other):
            await ruled(one, jobs={"max_age_days": 30}, sessions={"keep_latest": 1})
        await sql(fresh, client, "UPDATE retention_rules SET created_at = to_timestamp(5) WHERE tenant_id = :tenant")
        await sql(fresh, other, "UPDATE retention_rules SET created_at = to_timestamp(9) WHERE tenant_id = :tenant")
        assert await told(fresh) == 5
        assert (await client.post("/v1/retention/runs", json={})).status_code == 202
        await work(fresh)
        assert await told(fresh) == 9
        assert (await other.post("/v1/retention/runs", json={})).status_code == 202
        await work(fresh)
        assert await told(fresh) >= started - 1


async def told(service: Service) -> float:
    """What the metric is set to."""
    values: list[float] = []
    await followed(service.ground.database, values.append)
    [value] = values
    return value
