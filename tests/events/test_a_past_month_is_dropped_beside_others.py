"""A partition of events that is made or dropped holds up nobody, and takes no event with it that comes just then."""

from __future__ import annotations

import time
from asyncio import create_task

import pytest

from app.db.database import Database
from app.db.sql import Statement
from app.errors import Unavailable
from app.events.jobs import drop_empty_months, keep_partitions_ahead
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
        dropping = create_task(drop_empty_months(database, 10))
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
