"""Partitions of events are made ahead, and dropped once they are empty: nobody is held up, and no event is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.background.runner import drain
from app.db.database import Database
from app.db.sql import Statement
from app.errors import Unavailable
from app.events import reads
from app.events.jobs import drop_empty_months, keep_partitions_ahead, sequencer
from app.events.reads import Wanted
from app.events.store import SEQUENCER_LOCK
from app.http.service import Service
from tests.waiting import held_up

LOCK = Statement("SELECT pg_advisory_xact_lock(:lock)")
ADD = Statement(
    "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at, data)"
    " VALUES ('t', 1, '2024-01-05Z', 'e', 't', 's', 'i', now(), '{}')"
)
# The locks of whoever keeps house wait for a fifth of a second at most; those of a request for several.
PATIENCE_SECONDS = 2.0


async def month(database: Database, number: str = "01") -> None:
    """The partition of a month of long ago."""
    bounds = f"FROM ('2024-{number}-01Z') TO ('2024-{number}-28Z')"
    await database.rows(Statement(f"CREATE TABLE events_p_2024_{number} PARTITION OF events FOR VALUES {bounds}"))


async def dropped_in_time(database: Database) -> int:
    """How many are dropped, without waiting for others."""
    started = time.monotonic()
    dropped = await drop_empty_months(database, 10)
    assert time.monotonic() - started < PATIENCE_SECONDS
    return dropped


async def test_partitions_are_made_ahead_and_take_over_what_the_default_one_holds(fresh: Service) -> None:
    database = fresh.ground.database
    await add_events(database, 5)
    await drain(sequencer(lambda _waited: None), database)
    assert await partitions(database) == {"events_p_default": 5}
    made = await asyncio.gather(keep_partitions_ahead(database, 12), keep_partitions_ahead(database, 12))
    assert sum(made) == 3
    found = await partitions(database)
    assert len(found) == 4
    assert found.pop("events_p_default") == 0
    assert sorted(found.values()) == [0, 0, 5]
    assert await keep_partitions_ahead(database, 12) == 0
    read = await reads.read(database, "default", reads.EARLIEST, Wanted(), 100)
    assert len(read.found) == 5


async def test_a_past_month_is_dropped_once_no_tenant_has_an_event_in_it(fresh: Service) -> None:
    database = fresh.ground.database
    await keep_partitions_ahead(database, 12)
    ahead = await partitions(database)
    for number in ("01", "02", "03"):
        await month(database, number)
    for tenant, number in (("a", "01"), ("b", "02"), ("c", "02")):
        await database.rows(
            Statement(
                "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id,"
                " occurred_at, data) VALUES (:tenant, 1, CAST(CAST(:at AS text) AS timestamptz), 'e', 't', 's', 'i',"
                " now(), '{}')"
            ),
            tenant=tenant,
            at=f"2024-{number}-05Z",
        )
    assert await drop_empty_months(database, 100) == 1
    assert await partitions(database) == ahead | {"events_p_2024_01": 1, "events_p_2024_02": 2}
    leave = Statement("DELETE FROM events WHERE tenant_id = ANY (CAST(:tenants AS text[]))")
    await database.rows(leave, tenants=["a", "b"])
    async with database.writing() as reader:
        await reader.rows(Statement("SELECT FROM events_p_2024_01"))
        assert await drop_empty_months(database, 100) == 0
    assert await drop_empty_months(database, 100) == 1
    await database.rows(leave, tenants=["c"])
    assert sum(await asyncio.gather(*(drop_empty_months(database, 100) for _ in range(3)))) == 1
    assert await partitions(database) == ahead


@pytest.mark.parametrize("held", ["events_p_2024_01", "ONLY events"])
async def test_nobody_waits_behind_a_drop_that_waits(fresh: Service, held: str) -> None:
    database = fresh.ground.database
    await month(database)
    async with database.writing() as somebody:
        await somebody.rows(Statement(f"LOCK TABLE {held} IN ACCESS SHARE MODE"))
        assert await dropped_in_time(database) == 0
    assert await dropped_in_time(database) == 1


async def test_nobody_waits_behind_a_month_that_waits_to_be_made(fresh: Service) -> None:
    database = fresh.ground.database
    async with database.writing() as somebody:
        await somebody.rows(Statement("LOCK TABLE events IN ACCESS SHARE MODE"))
        started = time.monotonic()
        with pytest.raises(Unavailable):
            await keep_partitions_ahead(database, 12)
        assert time.monotonic() - started < PATIENCE_SECONDS
    assert await keep_partitions_ahead(database, 12) == 3


async def test_the_sequencer_adds_no_event_to_what_is_dropped(fresh: Service) -> None:
    database = fresh.ground.database
    await month(database)
    async with database.writing() as sequencer:
        await sequencer.row(LOCK, lock=SEQUENCER_LOCK)
        assert await dropped_in_time(database) == 0
        dropping = asyncio.create_task(drop_empty_months(database, 10))
        await held_up(fresh)
        await sequencer.rows(ADD)
    assert await dropping == 0
    assert await database.rows(Statement("SELECT FROM events_p_2024_01")) != []


async def test_a_month_that_is_empty_and_large_waits_for_vacuum(
    fresh: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.jobs.EMPTY_BYTES_MAX", 0)
    database = fresh.ground.database
    await month(database, "01")
    await month(database, "02")
    await database.rows(ADD)
    await database.rows(Statement("DELETE FROM events WHERE tenant_id = 't'"))
    # Nothing was ever in the second.
    assert await drop_empty_months(database, 10) == 1
    await database.rows(Statement("VACUUM events_p_2024_01"))
    assert await drop_empty_months(database, 10) == 1


async def test_dropping_a_month_and_reading_never_wait_for_each_other(fresh: Service) -> None:
    database = fresh.ground.database
    await keep_partitions_ahead(database, 12)
    await month(database)
    async with database.writing() as reader:
        # As every query does: the parent, and then its partitions.
        await reader.rows(Statement("LOCK TABLE ONLY events IN ACCESS SHARE MODE"))
        seen = asyncio.Event()

        async def drop() -> int:
            dropped = 0
            while not seen.is_set():
                dropped += await drop_empty_months(database, 100)
            return dropped

        dropping = asyncio.create_task(drop())
        await held_up(fresh)
        await reader.rows(Statement("LOCK TABLE events_p_2024_01 IN ACCESS SHARE MODE NOWAIT"))
        seen.set()
        assert await dropping == 0
    assert await drop_empty_months(database, 100) == 1


async def add_events(database: Database, count: int) -> None:
    await database.rows(Statement("INSERT INTO tenants (tenant_id) VALUES ('default') ON CONFLICT DO NOTHING"))
    await database.rows(
        Statement(
            "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
            " SELECT 'default', 'workflow.created', 'workflow', 'w' || n, '{}'"
            " FROM generate_series(1, CAST(:count AS bigint)) AS n"
        ),
        count=count,
    )


async def partitions(database: Database) -> dict[str, int]:
    rows = await database.rows(
        Statement(
            "SELECT p.inhrelid::regclass::text AS name,"
            " (SELECT count(*) FROM events AS e WHERE e.tableoid = p.inhrelid) AS events FROM pg_inherits AS p"
            " WHERE p.inhparent = 'events'::regclass ORDER BY 1 LIMIT 100"
        )
    )
    return {row["name"]: row["events"] for row in rows}
