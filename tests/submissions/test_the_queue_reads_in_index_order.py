"""With 100,000 queued in 10,000 sessions a claim reads as many rows as it gives, and each view reads its page.

Judged by the plans of the very statements that the service sends, custom and generic.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import httpx
import pytest

from app.db.database import set_codecs
from app.http.service import Service
from tests.plans import kept_plan
from tests.statements import one_connection, sent_by
from tests.submissions.queue import NEXT, PATH

# Both find a row by its id.
BY_ID = {"pk_submissions", "uq_submissions_open_attempt_id"}
QUEUED, SESSIONS = 100_000, 10_000
# Of every session the first is the head; a few of the heads run, a few are not ready; most of what was is settled.
SEED = (
    "INSERT INTO submission_sessions (tenant_id, session_key, open_count)"
    f" SELECT $1, 'k' || n, {QUEUED // SESSIONS} FROM generate_series(1, {SESSIONS}) AS n",
    "INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head, status,"
    " canonical_ready_at, attempt_id, owner_id, started_at, attempt_count, lease_expires_at, lease_lapses_at, priority)"
    " SELECT $1, 's' || n, (SELECT min(number) FROM submission_sessions WHERE tenant_id = $1) + n / 10, 'direct',"
    " 'a' || n % 7, 'i', '{}', sha256('x'), head, CASE WHEN runs THEN 'running' ELSE 'queued' END,"
    " CASE WHEN n % 500 <> 20 THEN now() END, CASE WHEN runs THEN 't' END, CASE WHEN runs THEN 'w' END,"
    " CASE WHEN runs THEN now() END, runs::int, CASE WHEN runs THEN now() END,"
    " CASE WHEN runs THEN now() - (n - 5000) * interval '1 minute' END, n % 3"
    " FROM (SELECT n, n % 10 = 0 AS head, n % 1000 = 10 AS runs"
    f" FROM generate_series(0, {QUEUED - 1}) AS n) AS rows",
    "INSERT INTO submissions (tenant_id, id, session_number, kind, agent, instance_id, input, digest, status,"
    " canonical_ready_at, settled_at, outcome)"
    " SELECT $1, 'old' || n, (SELECT min(number) FROM submission_sessions WHERE tenant_id = $1), 'direct', 'a', 'i',"
    " '{}', sha256('x'), 'settled', now(), now(), 'completed' FROM generate_series(1, 20000) AS n",
)


@pytest.fixture(scope="module")
async def long_queue(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with a client whose tenant has a long queue."""
    async with one_connection(kept_clone) as (service, client):
        connection = await asyncpg.connect(service.ground.database.url)
        for statement in SEED:
            await connection.execute(statement.replace("$1", "$1::text"), client.headers["x-test-tenant"])
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        yield service, client


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Where submissions are read."""
    return [
        node
        for node in nodes(plan)
        if node.get("Relation Name") == "submissions" and node["Node Type"].endswith("Scan")
    ]


async def plans(service: Service, sent: Any) -> list[dict[str, Any]]:
    """The custom plan of a statement as it runs, rolled back; and the one that is kept."""
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("DELETE FROM idempotency_keys")
    custom = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sent.query}", *sent.args)
    await transaction.rollback()
    generic = await kept_plan(connection, sent.query, len(sent.args))
    await connection.close()
    return [json.loads(plan)[0]["Plan"] for plan in (custom, generic)]


@pytest.mark.parametrize("key", [{}, {"idempotency-key": "k"}], ids=["plain", "under a key"])
@pytest.mark.parametrize(
    ("agent", "index"), [(None, "ix_submissions_runnable"), ("a3", "ix_submissions_runnable_agent")]
)
async def test_a_claim_reads_what_it_gives(
    long_queue: tuple[Service, httpx.AsyncClient], agent: str | None, index: str, key: dict[str, str]
) -> None:
    service, client = long_queue
    async with sent_by(service) as sent:
        answer = await client.post(
            NEXT,
            json={"owner_id": "w", "limit": 5, "agent": agent},
            headers={name: f"{value} {agent}".replace(" ", "-") for name, value in key.items()},
        )
    assert len(answer.json()["items"]) == 5
    (claim,) = [each for each in sent if "FOR UPDATE SKIP LOCKED" in each.query]
    for plan in await plans(service, claim):
        found = scans(plan)
        assert {scan["Node Type"] for scan in found} == {"Index Scan"}, json.dumps(plan, indent=1)
        used = {scan["Index Name"] for scan in found}
        assert used - BY_ID == {index}
        assert len(found) == 2
        assert not any(node["Node Type"] in ("Hash Join", "Merge Join") for node in nodes(plan))
        for scan in found:
            assert "due_at" in scan["Index Cond"] or scan["Index Name"] in BY_ID
            assert scan.get("Actual Rows", 0) * scan.get("Actual Loops", 1) <= 5


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("view=runnable", "ix_submissions_heads"),
        ("view=unready", "ix_submissions_unready"),
        ("view=running", "ix_submissions_status"),
        ("view=expired", "ix_submissions_status"),
        ("view=unsettled", "ix_submissions_open"),
        # Nearly all that is open.
        ("status=queued", "ix_submissions_open"),
        ("status=settled", "uq_submissions_tenant_id_sequence"),
        ("agent=a3", "ix_submissions_agent"),
        ("session_key=k7", "ix_submissions_session"),
        ("session_key=k7&view=unsettled", "ix_submissions_unsettled"),
        ("", "uq_submissions_tenant_id_sequence"),
    ],
)
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_of_each_view_is_read_in_order(
    long_queue: tuple[Service, httpx.AsyncClient], query: str, index: str, order: str
) -> None:
    service, client = long_queue
    cursor = ""
    for _ in range(2):
        async with sent_by(service) as sent:
            answer = await client.get(f"{PATH}?limit=5&order={order}&{query}{cursor}")
        assert answer.status_code == 200, answer.text
        assert len(sent) == 1
        for plan in await plans(service, sent[0]):
            assert not any("Sort" in node["Node Type"] for node in nodes(plan)), json.dumps(plan, indent=1)
            assert [scan.get("Index Name") for scan in scans(plan)] == [index], json.dumps(plan, indent=1)
        cursor = f"&cursor={answer.json()['next_cursor']}"


async def test_the_heads_of_three_hundred_sessions_are_one_statement(
    long_queue: tuple[Service, httpx.AsyncClient],
) -> None:
    service, client = long_queue
    async with sent_by(service) as sent:
        answer = await client.get(f"{PATH}?view=runnable&limit=300&include=input")
    assert len(answer.json()["items"]) == 300
    assert all(item["input"] == {} for item in answer.json()["items"])
    assert len(sent) == 1


async def test_a_page_that_shows_large_inputs_ends_at_16_mebibytes(client: httpx.AsyncClient) -> None:
    for number in range(5):
        large = {"id": f"s{number}", "session_key": f"k{number}", "kind": "direct", "agent": "a", "instance_id": "i"}
        assert (await client.post(PATH, json={**large, "input": "x" * (6 * 1024 * 1024)})).status_code == 201
    pages, cursor = [], ""
    while not pages or cursor:
        answer = await client.get(f"{PATH}?view=runnable&include=input&limit=50{cursor}")
        assert answer.status_code == 200, answer.text
        pages.append([item["id"] for item in answer.json()["items"]])
        assert all(len(item["input"]) == 6 * 1024 * 1024 for item in answer.json()["items"])
        cursor = answer.json()["next_cursor"] and f"&cursor={answer.json()['next_cursor']}"
    assert pages == [["s0", "s1", "s2"], ["s3", "s4"]]
    without = await client.get(f"{PATH}?view=runnable&limit=50")
    assert (len(without.json()["items"]), without.json()["next_cursor"]) == (5, None)
    one = await client.get(f"{PATH}?view=runnable&include=input&limit=1")
    assert [item["id"] for item in one.json()["items"]] == ["s0"]
