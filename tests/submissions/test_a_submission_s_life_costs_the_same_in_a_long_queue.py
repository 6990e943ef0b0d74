"""What is read for a submission is its own rows, also by plans that were made while little was there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.db.sql import Statement
from app.http.service import Service
from tests.statements import one_connection
from tests.submissions.calls import Calls, record

MANY = 3000
# Each is enough for every plan of the connection to be kept.
TURNS = 7
READS = Statement(
    "SELECT COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0) AS rows FROM pg_stat_user_tables"
    " WHERE relname = 'submissions'"
)
SEED = Statement("""
WITH sessions AS (
  INSERT INTO submission_sessions (tenant_id, session_key, open_count)
  SELECT :tenant_id, 'other ' || :first || n, 1 FROM generate_series(1, CAST(:many AS integer)) AS n RETURNING number
)
INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head,
  canonical_ready_at, status, attempt_id, started_at, owner_id, settlement_record_id, settlement_record,
  settlement_outcome)
SELECT :tenant_id, 'other ' || k.number, k.number, 'direct', 'a', 'i', '1', '', true, clock_timestamp(), w.status,
  CASE WHEN w.status <> 'queued' THEN 'at' END, CASE WHEN w.status <> 'queued' THEN clock_timestamp() END, NULL,
  CASE WHEN w.status = 'terminalizing' THEN 'r' END, CASE WHEN w.status = 'terminalizing' THEN CAST('1' AS json) END,
  CASE WHEN w.status = 'terminalizing' THEN 'failed' END
FROM (
  SELECT number, (CAST(:statuses AS text[]))[1 + row_number() OVER () % cardinality(CAST(:statuses AS text[]))]
    AS status FROM sessions
) AS w JOIN sessions AS k USING (number)
""")
QUEUED_BEHIND = Statement("""
INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest, canonical_ready_at)
SELECT :tenant_id, 'behind ' || n, k.number, 'direct', 'another', 'i', '1', '', clock_timestamp()
FROM submission_sessions AS k, generate_series(1, CAST(:many AS integer)) AS n
WHERE k.tenant_id = :tenant_id AND k.session_key = 'long'
""")
OPENED = Statement("""
UPDATE submission_sessions SET open_count = open_count + CAST(:many AS integer)
WHERE tenant_id = :tenant_id AND session_key = 'long'
""")


async def lived(calls: Calls, turn: int) -> None:
    """Two lives with everything in them, in a session of their own each."""
    h, b, c = (f"{name}{turn}" for name in "hbc")
    owned, reserved = {"attempt_id": "at"}, {"attempt_id": "at", "record_id": "r"}
    await calls.running(h, session=f"s{turn}")
    await calls.done(f"{h}/input-applied", **owned)
    await calls.done(f"{h}/recovery-request", **owned)
    await calls.done(f"{h}/requeue", **owned)
    await calls.claim(h)
    await calls.done(f"{h}/replace-attempt", attempt_id="at", next_attempt_id="at2")
    await calls.done(f"{h}/replace-attempt", attempt_id="at2", next_attempt_id="at")
    for name in (b, c):
        await calls.admit(name, session=f"s{turn}")
    await calls.done(f"{h}/joins/claim", **owned, agent="a")
    await calls.done(f"{h}/joins/{b}/finalize", **owned)
    await calls.done(f"{h}/joins/{c}/revert", **owned)
    await calls.done(f"{b}/settlement/reserve", **reserved, record=record())
    await calls.done(f"{b}/settlement/finalize", **reserved)
    await calls.done("abort-session", session_key=f"s{turn}")
    await calls.done(f"{h}/complete", **owned)
    await calls.done(f"{c}/settle-queued", outcome="failed", error="x")
    assert await calls.refused(f"{c}/complete", **owned) == (409, "already_settled", "settled")


async def joins_in_the_long_session(calls: Calls) -> None:
    """What a host finds behind it, again and again: another agent's, so nothing joins."""
    await calls.claim("long")
    await calls.done("long/joins/claim", attempt_id="at", agent="a")
    await calls.done("long/requeue", attempt_id="at")


async def reads(service: Service) -> int:
    """How many rows of submissions were read so far."""
    await service.ground.database.row(Statement("SELECT pg_stat_force_next_flush()"))
    row = await service.ground.database.row(READS)
    assert row is not None
    return int(row["rows"])


async def test_no_plan_reads_what_is_not_its_own(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        calls = Calls(client)
        tenant_id = client.headers["x-test-tenant"]
        # Some thousands wait and nothing runs: so it was when plans were made.
        await service.ground.database.row(SEED, tenant_id=tenant_id, many=MANY, first="a", statuses=["queued"])
        await service.ground.database.execute("ANALYZE")
        await calls.admit("long", session="long", max_attempts=100)
        for turn in range(TURNS):
            await lived(calls, turn)
            await joins_in_the_long_session(calls)
        before = await reads(service)
        await lived(calls, TURNS)
        await joins_in_the_long_session(calls)
        small = await reads(service) - before
        statuses = ["queued", "running", "terminalizing"]
        await service.ground.database.row(SEED, tenant_id=tenant_id, many=MANY, first="b", statuses=statuses)
        for seed in (QUEUED_BEHIND, OPENED):
            await service.ground.database.row(seed, tenant_id=tenant_id, many=MANY)
        before = await reads(service)
        await lived(calls, TURNS + 1)
        await joins_in_the_long_session(calls)
        large = await reads(service) - before
    # What queues behind a host is walked, up to the 1,000 that could join.
    assert large <= small + 1000 + 200
