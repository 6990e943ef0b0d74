"""The runner: bounded runs, failures that are counted and do not end it, and a prompt end."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from app.background import runner as runners
from app.background.delivering import Delivering
from app.background.housekeeping import purge_kept_answers
from app.background.runner import Entry, Runner, drain
from app.background.singletons import ServiceLease
from app.background.work import JobRunner
from app.bus.bell import Bell
from app.bus.hints import EmbeddedHints
from app.bus.work import EmbeddedStreams
from app.db.database import Database
from app.db.sql import Statement
from app.errors import Unavailable
from app.http.metrics import Metrics
from app.http.service import Service
from app.memory.indexing import IndexBuilder
from app.offboarding.jobs import Offboarder
from app.surface import KINDS
from app.tenants.keys import Keys
from app.timetable import Workers, background, timetable
from tests.conftest import settings_for
from tests.waiting import eventually


def counted(metrics: Metrics, job: str, outcome: str) -> float:
    return metrics.registry.get_sample_value("cairn_background_runs_total", {"job": job, "outcome": outcome}) or 0


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def test_a_job_that_fails_is_counted_and_tried_again_while_the_others_go_on(
    service: Service, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "BACKOFF_SECONDS_MAX", 0.01)
    runs = {"ill": 0, "well": 0}

    async def ill(_database: Database, _limit: int) -> int:
        runs["ill"] += 1
        raise (Unavailable("The database is away.") if runs["ill"] % 2 else ZeroDivisionError("a defect"))

    async def well(_database: Database, _limit: int) -> int:
        runs["well"] += 1
        return 0

    running = Runner([Entry("ill", ill, 0.01), Entry("well", well, 0.01)], service.ground.database, metrics)
    running.start()

    async def both_ran() -> bool:
        return runs["ill"] > 5 and runs["well"] > 5

    await eventually(both_ran, "both jobs")
    await running.stop()
    assert counted(metrics, "ill", "failed") == runs["ill"]
    assert counted(metrics, "well", "idle") == runs["well"]


def test_what_has_failed_for_long_goes_on_soon_after_the_cause_is_gone() -> None:
    pauses = [runners.pause_after(failures, 0.025) for failures in range(1, 1000)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.4, 5)
    # What is to be done once an hour is not put off for that long, and not tried all the time either.
    assert runners.pause_after(1, 3600) == runners.pause_after(1000, 3600) == 30


async def test_a_bell_ends_a_pause_and_is_not_lost_while_the_job_works(service: Service, metrics: Metrics) -> None:
    bell, working, go_on, runs = Bell(), asyncio.Event(), asyncio.Event(), 0

    async def job(_database: Database, _limit: int) -> int:
        nonlocal runs
        runs += 1
        working.set()
        await go_on.wait()
        return 0

    async def ran(times: int) -> None:
        async def so_often() -> bool:
            return runs == times

        await eventually(so_often, f"run {times}")

    running = Runner([Entry("rung", job, 3600, bell=bell)], service.ground.database, metrics)
    running.start()
    await working.wait()
    # Rung twice while it works, it works once more; then at each ring.
    bell.ring()
    bell.ring()
    go_on.set()
    await ran(2)
    bell.ring()
    await ran(3)
    began = time.monotonic()
    await running.stop()
    assert time.monotonic() - began < 0.5
    assert runs == 3


async def test_a_run_that_never_ends_is_cut_off_by_its_bound(service: Service, metrics: Metrics) -> None:
    async def hangs(_database: Database, _limit: int) -> int:
        await asyncio.Event().wait()
        return 1

    running = Runner([Entry("hangs", hangs, 0.01, run_seconds=0.02)], service.ground.database, metrics)
    running.start()

    async def failed() -> bool:
        return counted(metrics, "hangs", "failed") > 0

    await eventually(failed, "the bound")
    await running.stop()


async def test_stopping_lets_a_short_run_end_and_cuts_off_a_long_one(
    service: Service, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "STOP_SECONDS", 0.3)
    begun, ended, let_go = asyncio.Event(), [], asyncio.Event()

    async def short(_database: Database, _limit: int) -> int:
        await let_go.wait()
        ended.append("short")
        return 0

    async def long(database: Database, _limit: int) -> int:
        begun.set()
        await database.rows(Statement("SELECT pg_sleep(20)"))
        ended.append("long")
        return 0

    running = Runner([Entry("short", short, 1), Entry("long", long, 1)], service.ground.database, metrics)
    running.start()
    await begun.wait()
    started = time.monotonic()
    asyncio.get_running_loop().call_later(0.05, let_go.set)
    await running.stop()
    assert time.monotonic() - started < 2
    assert ended == ["short"]


async def test_a_job_is_drained_until_it_finds_nothing() -> None:
    left = [3, 2, 0]

    async def job(_database: Database, _limit: int) -> int:
        return left.pop(0)

    assert await drain(job, None) == 5  # type: ignore[arg-type]


async def test_kept_answers_leave_after_a_day_in_batches(service: Service, client: httpx.AsyncClient) -> None:
    database, tenant = service.ground.database, client.headers["x-test-tenant"]
    for n in range(5):
        await client.put(f"/v1/workflows/w{n}", json={}, headers={"idempotency-key": f"k{n}"})
    await database.rows(
        Statement(
            "UPDATE idempotency_keys SET created_at = clock_timestamp() - interval '25 hours'"
            " WHERE tenant_id = :t AND key <> 'k0'"
        ),
        t=tenant,
    )
    assert await purge_kept_answers(database, 3) == 3
    await drain(purge_kept_answers, database)
    left = await database.rows(Statement("SELECT key FROM idempotency_keys WHERE tenant_id = :t"), t=tenant)
    assert [row["key"] for row in left] == ["k0"]


async def test_the_timetable_of_the_service_does_all_its_work_once_through(fresh: Service) -> None:
    database, settings = fresh.ground.database, settings_for("postgresql://unused")
    metrics, streams = Metrics(), EmbeddedStreams(1)
    delivering = Delivering(settings.webhooks, streams, metrics)
    keys, hints = Keys(database, settings.auth), fresh.ground.hints
    jobs, wholes = (JobRunner(KINDS, 30, hints, as_a_whole=whole) for whole in (False, True))
    builder, blobs = IndexBuilder(settings.database, settings.memory, metrics.index_built), fresh.ground.blobs
    housekeeping = ServiceLease("housekeeping", 60)
    offboarder = Offboarder(settings.offboarding, blobs, fresh.ground.cache, streams, hints, None)
    workers = Workers(jobs, wholes, delivering, housekeeping, builder, offboarder)
    entries = timetable(settings, metrics, keys, hints, blobs, workers)
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert await entry.job(database, entry.limit) >= 0, entry.name
        assert await drain(entry.job, database, entry.limit) == 0, entry.name


async def test_what_runs_in_the_background_keeps_events_flowing(fresh: Service) -> None:
    database, metrics = fresh.ground.database, Metrics()
    settings = settings_for("postgresql://unused")
    keys = Keys(database, settings.auth)
    ground, streams = fresh.ground, EmbeddedStreams(1)
    delivering = Delivering(settings.webhooks, streams, metrics)
    async with background(
        settings, database, metrics, keys, EmbeddedHints(), delivering, None, ground.blobs, ground.cache, streams
    ):
        await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES ('acme')"))
        await database.rows(
            Statement(
                "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
                " VALUES ('acme', 'workflow.created', 'workflow', 'w', '{}')"
            )
        )

        async def sequenced() -> bool:
            return bool(await database.rows(Statement("SELECT position FROM events LIMIT 1")))

        await eventually(sequenced, "the event's position")
    assert metrics.registry.get_sample_value("cairn_events_sequenced_total") == 1
