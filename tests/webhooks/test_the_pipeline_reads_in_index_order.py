"""What waits for later, and webhooks for which nothing happens, cost nothing. Judged by the plans of the statements."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from app.db.database import set_codecs
from app.db.sql import Statement
from app.webhooks.pipeline import SQL
from tests.plans import kept_plan

LATER, IDLE, LANES = 100_000, 10_000, 50
SEED = (
    "INSERT INTO tenants (tenant_id) VALUES ('busy'), ('idle')",
    "INSERT INTO webhooks (tenant_id, id, url, event_types, secret, after_position, digest)"
    " SELECT 'idle', 'w' || n, 'http://127.0.0.1', ARRAY['session.ended'], '', 0, ''"
    f" FROM generate_series(1, {IDLE}) AS n",
    "INSERT INTO webhooks (tenant_id, id, url, secret, after_position, digest)"
    f" SELECT 'busy', 'w' || n, 'http://127.0.0.1', '', 0, '' FROM generate_series(1, {LANES}) AS n",
    "INSERT INTO webhook_heads (tenant_id, position) VALUES ('busy', 900), ('idle', 0)",
    "INSERT INTO event_heads (tenant_id, position) VALUES ('busy', 1000), ('idle', 1000)",
    "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at, data)"
    " SELECT tenant, n, now(), tenant || n, 'workflow.created', 'workflow', 'w', now(), '{}'"
    " FROM generate_series(1, 1000) AS n, unnest(ARRAY['busy', 'idle']) AS tenant",
    # In each lane much that is for later; and of some lanes something is due, some of it lost, some of it over.
    "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, event_type, event_position, event_sequenced_at, due_at,"
    " status, lapses_at, ended_at, attempt_count)"
    " SELECT 'busy', 'd' || n, 'w' || (1 + n % 50), 'workflow.created', 1 + n % 1000,"
    " (SELECT min(sequenced_at) FROM events),"
    " CASE WHEN n % 2000 < 100 THEN now() - interval '1 minute' ELSE now() + interval '1 day' END,"
    " CASE WHEN n % 20 <> 7 THEN 'pending' WHEN n % 2000 = 7 THEN 'queued' WHEN n % 2000 = 27 THEN 'sending'"
    " ELSE 'delivered' END,"
    " CASE WHEN n % 2000 IN (7, 27) THEN now() - interval '1 second' END,"
    " CASE WHEN n % 20 = 7 AND n % 2000 NOT IN (7, 27) THEN now() END, 1"
    f" FROM generate_series(1, {LATER}) AS n",
    "INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, announced_at)"
    " SELECT 'busy', 'webhook', 'd' || n, 'r', 1, CASE WHEN n > 10 THEN now() END FROM generate_series(1, 20000) AS n",
)
BUSY = [f"w{n}" for n in range(1, LANES + 1)]
ONE = {"tenant_ids": ["busy"], "ids": ["d7"], "numbers": [1]}
ASKED: dict[str, dict[str, Any]] = {
    "fan_out": {"limit": 2000},
    "lanes": {"after_tenant": "", "after_webhook": "", "concurrency": 10},
    "hand_out": {"tenant_ids": ["busy"] * LANES, "webhook_ids": BUSY, "concurrency": 10, "seconds": 30.0},
    "hand_back": {"tenant_ids": ["busy"], "ids": ["d7"], "dispatches": [0]},
    "give_up": {"tenant_ids": ["busy"], "webhook_ids": ["gone"]},
    "lapse": {},
    "lost_attempts": {"seconds": 30.0},
    "claim": {"tenant_ids": ["busy"], "ids": ["d7"], "dispatches": [0], "seconds": 30.0, "bytes_max": 1},
    "keep_bodies": ONE | {"bodies": [b"{}"]},
    "put_back": ONE,
    "unknown": {"tenant_ids": ["busy", "busy"], "ids": ["d7", "none"]},
    "settle": {
        **ONE, "ids": ["d27"], "statuses": ["dead"], "pauses": [0.0], "reasons": ["r"], "interrupted": [False],
        "gone": [False], "status_codes": [500], "errors": ["e"], "responses": [None], "durations": [1],
        "started_ats": [datetime.now(UTC)], "urls": ["u"], "disable_after_seconds": 60.0,
    },
    "unannounced": {"bytes": 100},
    "announced": {"tenant_ids": ["busy"], "ids": ["none"]},
    "depths": {},
}  # fmt: skip
# How many rows a statement may read of deliveries: what it gives and takes, and what it looks at once for each lane.
MOST = {
    "hand_out": 2 * 10 * LANES + 100,
    "lanes": 3 * LANES,
    "lapse": 150,
    "lost_attempts": 100,
    "depths": LATER + LANES,
}
LARGE = ("webhook_deliveries", "events", "dead_letters", "webhooks")


@pytest.fixture(scope="module")
async def seeded(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with much that waits."""
    connection = await asyncpg.connect(await kept_clone())
    await set_codecs(connection)
    for statement in SEED:
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Where large tables are read."""
    return [
        node
        for node in nodes(plan)
        if str(node.get("Relation Name", "")).startswith(LARGE) and node["Node Type"].endswith("Scan")
    ]


def read(plan: dict[str, Any], table: str) -> float:
    """How many rows of a table a plan has read, those that it threw away included."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
        * node["Actual Loops"]
        for node in scans(plan)
        if str(node["Relation Name"]).startswith(table)
    )


async def carried_out(connection: asyncpg.Connection, name: str) -> dict[str, Any]:
    """The plan of a statement for what is asked, as it ran; it is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        text, arguments = SQL[name].text, SQL[name].bind(ASKED[name])
        found = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *arguments))
    finally:
        await transaction.rollback()
    plan: dict[str, Any] = found[0]["Plan"]
    return plan


def test_every_statement_of_the_pipeline_is_judged() -> None:
    assert set(ASKED) == set(SQL)


@pytest.mark.parametrize("name", sorted(ASKED))
async def test_a_statement_reads_what_it_moves(seeded: asyncpg.Connection, name: str) -> None:
    statement: Statement = SQL[name]
    custom = await carried_out(seeded, name)
    generic = json.loads(await kept_plan(seeded, statement.text, len(statement.parameters)))[0]["Plan"]
    for plan in (custom, generic):
        whole = {node["Relation Name"] for node in scans(plan) if node["Node Type"] == "Seq Scan"}
        # Only fan-out reads all webhooks of a tenant, and only of one whose events moved on; see below.
        assert whole <= {"webhooks"} if name == "fan_out" else not whole, whole
    assert read(custom, "webhook_deliveries") <= MOST.get(name, 30)


async def test_events_that_nobody_wants_pass_by_ten_thousand_webhooks(seeded: asyncpg.Connection) -> None:
    transaction = seeded.transaction()
    await transaction.start()
    await seeded.execute("DELETE FROM webhook_heads WHERE tenant_id = 'busy'")
    began = time.monotonic()
    row = await seeded.fetchrow(SQL["fan_out"].text, 2000)
    seconds = time.monotonic() - began
    await transaction.rollback()
    assert (row["events"], row["deliveries"]) == (1000, 0)
    assert seconds < 1


async def test_idle_webhooks_cost_their_lane_nothing(seeded: asyncpg.Connection) -> None:
    assert read(await carried_out(seeded, "lanes"), "webhooks") <= 2 * LANES
