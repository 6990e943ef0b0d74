"""The service's own singletons: one process has the lease, another takes over when it is gone, and only one writes."""

from __future__ import annotations

import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.background.housekeeping import purge_kept_answers
from app.background.runner import Entry
from app.background.singletons import OURS, ServiceLease
from app.db.database import Database
from app.db.fences import LeaseFence
from app.db.leased import Leased
from app.db.sql import Statement
from app.errors import StaleLease
from app.http.service import Service
from tests.api_process import Command
from tests.conftest import ADMIN_KEY, http, new_tenant
from tests.waiting import eventually

KEPT = """
INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, created_at)
VALUES ('', 'old', '', 204, clock_timestamp() - interval '25 hours')
"""
LEASE = "SELECT holder, fencing_token FROM leases WHERE tenant_id = '' AND name = 'housekeeping'"


async def lapsed(database: Database) -> None:
    """Let the time of the lease be over."""
    await database.rows(Statement("UPDATE leases SET expires_at = clock_timestamp() WHERE tenant_id = ''"))


async def kept(database: Database) -> int:
    """How many kept answers are old enough to leave."""
    return len(await database.rows(Statement("SELECT FROM idempotency_keys WHERE key = 'old'")))


async def test_one_has_the_lease_and_the_others_do_nothing_until_it_lapses(fresh: Service) -> None:
    database, first, second = fresh.ground.database, ServiceLease("housekeeping", 30), ServiceLease("housekeeping", 30)
    purges = [lease.only(Entry("purge", purge_kept_answers, 60)) for lease in (first, second)]
    assert [await lease.keep(database, 1) for lease in (first, second, first)] == [1, 0, 0]
    await database.execute(KEPT)
    assert [await entry.job(database, 10) for entry in reversed(purges)] == [0, 1]
    await lapsed(database)
    # Nobody took it: the first goes on.
    assert [await lease.keep(database, 1) for lease in (first, second)] == [0, 0]
    await lapsed(database)
    assert [await lease.keep(database, 1) for lease in (second, first)] == [1, 0]
    assert second.fence == LeaseFence("housekeeping", 2)
    assert first.fence is None
    # Who ends lets the next one begin.
    await second.release(database)
    assert await first.keep(database, 1) == 1
    assert first.fence == LeaseFence("housekeeping", 3)


async def test_who_does_not_know_that_it_was_replaced_writes_nothing(fresh: Service) -> None:
    database, first, second = fresh.ground.database, ServiceLease("housekeeping", 30), ServiceLease("housekeeping", 30)
    purge = first.only(Entry("purge", purge_kept_answers, 60))
    await first.keep(database, 1)
    fence = first.fence
    assert fence is not None
    await lapsed(database)
    await second.keep(database, 1)
    await database.execute(KEPT)
    assert first.fence == fence
    assert await purge.job(database, 10) == 0
    assert first.fence is None
    leased = Leased(database, OURS, fence)
    with pytest.raises(StaleLease):
        await purge_kept_answers(leased, 10)
    with pytest.raises(StaleLease):
        async with leased.writing() as transaction:
            await transaction.rows(Statement("DELETE FROM idempotency_keys"))
    assert await kept(database) == 1


async def test_a_takeover_rings_for_what_it_is_about(fresh: Service) -> None:
    lease = ServiceLease("housekeeping", 30)
    entry = lease.only(Entry("purge", purge_kept_answers, 3600))
    assert entry.bell is not None
    assert not await entry.bell.wait(0.001)
    await lease.keep(fresh.ground.database, 1)
    assert await entry.bell.wait(10)


async def test_the_service_s_leases_are_nobody_s_over_the_api(fresh: Service) -> None:
    await ServiceLease("housekeeping", 30).keep(fresh.ground.database, 1)
    async with await new_tenant(fresh) as client, http(fresh, authorization=f"Bearer {ADMIN_KEY}") as operator:
        for caller, refused in ((client, "lease_not_found"), (operator, "tenant_required")):
            assert (await caller.get("/v1/leases/housekeeping")).json()["code"] == refused
        assert (await client.get("/v1/leases")).json()["items"] == []
        assert (await operator.get("/v1/leases")).json()["code"] == "tenant_required"
        fenced = await operator.put("/v1/tenants/t", json={}, headers={"lease": "housekeeping;1"})
        assert fenced.json()["code"] == "tenant_required"
        listed = await operator.get("/v1/leases", headers={"x-tenant-id": ""})
        assert listed.status_code >= 400, listed.text


def worker(url: str) -> Command:
    """`cairn worker`, which is replaced a second after it is gone."""
    return Command(
        "worker", url=url, background__enabled=True, background__housekeeping_lease_seconds=1,
        webhooks__look_seconds=5,
    )  # fmt: skip


async def test_a_process_that_is_killed_is_replaced_by_another_which_does_its_work(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    connection = await asyncpg.connect(url)
    workers = [worker(url), worker(url)]
    try:

        async def held(but: int | None = None) -> Any:
            row = await connection.fetchrow(LEASE)
            return row if row and row["holder"] and process_of(row) != but else None

        before = await eventually(held, "a process that keeps house")
        killed = process_of(before)
        for one in workers:
            if one.process.pid == killed:
                one.send(signal.SIGKILL)
        await connection.execute(KEPT)
        after = await eventually(lambda: held(killed), "the other process", seconds=10)
        assert process_of(after) in {one.process.pid for one in workers} - {killed}
        assert after["fencing_token"] == before["fencing_token"] + 1

        async def purged() -> bool:
            return not await connection.fetchval("SELECT count(*) FROM idempotency_keys")

        await eventually(purged, "the work of the one", seconds=10)
    finally:
        for one in workers:
            one.close()
        await connection.close()


def process_of(row: Any) -> int:
    """The process that holds a lease of the service."""
    found = re.match(r"process (\d+) ", row["holder"])
    assert found is not None
    return int(found[1])
