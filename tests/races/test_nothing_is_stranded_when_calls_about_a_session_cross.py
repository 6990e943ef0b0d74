"""Two calls about one session meet at every lock on their way, in both orders: nothing is stranded.

A host that is settled while something joins it could leave that joined for ever, were the rows looked at before they
are locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import permutations

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for
from tests.submissions.calls import Calls
from tests.submissions.invariants import broken
from tests.waiting import eventually

GATES = {
    "session": "SELECT FROM submission_sessions WHERE session_key = 's' FOR UPDATE",
    "host": "SELECT FROM submissions WHERE id = 'h' FOR UPDATE",
    "child": "SELECT FROM submissions WHERE id = 'b' FOR UPDATE",
    "next": "SELECT FROM submissions WHERE id = 'c' FOR UPDATE",
}
RECORD = {"id": "r", "outcome": "completed"}
OWNED = {"attempt_id": "at"}
RESERVED = {**OWNED, "record_id": "r"}
CALLS = {
    "complete": ("h/complete", OWNED),
    "fail": ("h/fail", {**OWNED, "error": "x"}),
    "requeue": ("h/requeue", OWNED),
    "replace": ("h/replace-attempt", {**OWNED, "next_attempt_id": "at2"}),
    "reserve host": ("h/settlement/reserve", {**RESERVED, "record": RECORD}),
    "settle host": ("h/settlement/finalize", RESERVED),
    "claim joins": ("h/joins/claim", {**OWNED, "agent": "a"}),
    "finalize join": ("h/joins/b/finalize", OWNED),
    "revert join": ("h/joins/b/revert", OWNED),
    "reserve joined": ("b/settlement/reserve", {**RESERVED, "record": RECORD}),
    "settle joined": ("b/settlement/finalize", RESERVED),
    "abort": ("abort-session", {"session_key": "s"}),
    "settle queued": ("c/settle-queued", {"outcome": "failed", "error": "x"}),
    "ready": ("d/ready", {}),
}


@pytest.fixture(scope="module")
async def alone(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A service on a database of these tests alone; no call was ended by a deadlock there, and tried again."""
    url = await kept_clone()
    async with running(settings_for(url)) as started:
        yield started
    connection = await asyncpg.connect(url)
    found = await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await connection.close()
    assert found == 0


@pytest.fixture
async def gate(alone: Service) -> AsyncIterator[asyncpg.Connection]:
    """A connection that holds up what the test names; the queue is empty before."""
    connection = await asyncpg.connect(alone.ground.database.url)
    await connection.execute("TRUNCATE submissions, submission_sessions, outbox CASCADE")
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def calls(alone: Service) -> AsyncIterator[Calls]:
    async with await new_tenant(alone) as client:
        yield Calls(client)


async def arrange(calls: Calls, child: str) -> None:
    """A running host, `b` that is queued, joining, joined or terminalizing, `c` that is ready and `d` that is not."""
    await calls.running("h")
    await calls.admit("b")
    await calls.admit("c", agent="a" if child == "queued" else "b")
    await calls.admit("d", ready=False)
    if child == "queued":
        return
    await calls.done("h/joins/claim", attempt_id="at", agent="a")
    if child != "joining":
        await calls.done("h/joins/b/finalize", attempt_id="at")
    if child == "terminalizing":
        await calls.done("b/settlement/reserve", **RESERVED, record=RECORD)


async def crossed(calls: Calls, gate: asyncpg.Connection, closed: str, first: str, second: str) -> list[httpx.Response]:
    """What two calls answer that were sent one after the other, and meet before a closed gate."""
    sent: list[asyncio.Task[httpx.Response]] = []
    async with gate.transaction():
        await gate.execute(GATES[closed])
        for name in (first, second):
            path, body = CALLS[name]
            sent.append(asyncio.create_task(calls.post(path, **body)))
            await eventually(lambda: _settled_down(gate, sent), "an answer or a wait")
    return list(await asyncio.gather(*sent))


async def _settled_down(gate: asyncpg.Connection, sent: list[asyncio.Task[httpx.Response]]) -> bool:
    """Whether each call that was sent has its answer or waits for a lock."""
    # Statistics are those of the transaction's first look, unless told otherwise.
    await gate.execute("SELECT pg_stat_clear_snapshot()")
    waiting: int = await gate.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return waiting + sum(task.done() for task in sent) >= len(sent)


HOST = ("complete", "requeue", "replace", "reserve host")
PAIRS = {
    "joining": [(a, b) for a in ("finalize join", "revert join") for b in (*HOST, "abort")],
    "joined": [("reserve joined", b) for b in (*HOST, "abort")],
    "queued": [("claim joins", b) for b in (*HOST, "abort", "settle queued", "ready")] + [("abort", "complete")],
    "terminalizing": [("settle joined", b) for b in ("complete", "fail", "requeue", "abort", "claim joins")],
}
CROSSINGS = [
    pytest.param(child, *order, id=f"{child}: {order[0]}, {order[1]}")
    for child, pairs in PAIRS.items()
    for pair in pairs
    for order in permutations(pair)
]


@pytest.mark.parametrize("closed", GATES)
@pytest.mark.parametrize(("child", "first", "second"), CROSSINGS)
async def test_calls_that_cross_leave_nothing_stranded(
    calls: Calls, gate: asyncpg.Connection, child: str, first: str, second: str, closed: str
) -> None:
    await arrange(calls, child)
    answers = await crossed(calls, gate, closed, first, second)
    assert {answer.status_code for answer in answers} <= {200, 409}, [answer.text for answer in answers]
    assert 200 in {answer.status_code for answer in answers}
    assert await broken(gate) == {}
    # Whoever comes next can bring everything to its end.
    await drained(calls)
    assert await gate.fetchval("SELECT count(*) FROM submissions WHERE status <> 'settled'") == 0
    assert await broken(gate) == {}


async def drained(calls: Calls) -> None:
    """Settle all there is, by calls that are always possible."""
    for name in "hbcd":
        for _ in range(3):
            shown = await calls.shown(name)
            owned = {"attempt_id": shown["attempt_id"]}
            if shown["status"] == "running":
                await calls.done(f"{name}/complete", **owned)
            elif shown["status"] == "terminalizing":
                await calls.done(f"{name}/settlement/finalize", **owned, record_id="r")
            elif shown["status"] == "queued":
                await calls.done(f"{name}/settle-queued", outcome="aborted", error="x")


@pytest.mark.parametrize("closed", ["child", "host"])
async def test_a_join_that_was_said_to_be_final_is_settled_with_its_host(
    calls: Calls, gate: asyncpg.Connection, closed: str
) -> None:
    await arrange(calls, "joining")
    final, complete = await crossed(calls, gate, closed, "finalize join", "complete")
    assert (final.status_code, complete.status_code) == (200, 200)
    child = await calls.shown("b")
    assert (child["status"], child["outcome"], child["joined_into"]) == ("settled", "completed", "h")


@pytest.mark.parametrize("closed", ["session", "child", "host"])
async def test_a_host_that_was_settled_first_gives_back_what_was_joining(
    calls: Calls, gate: asyncpg.Connection, closed: str
) -> None:
    await arrange(calls, "joining")
    complete, final = await crossed(calls, gate, closed, "complete", "finalize join")
    if closed == "session":
        # It waits for no lock that the other holds, so it was the faster one.
        assert (complete.status_code, final.status_code) == (200, 200)
        assert (await calls.shown("b"))["status"] == "settled"
        return
    assert (complete.status_code, final.json()["code"]) == (200, "not_joining")
    assert (await calls.shown("b"))["status"] == "queued"
    await calls.claim("b", "at3")


@pytest.mark.parametrize("closed", ["session", "host"])
async def test_what_queues_joins_before_its_host_is_settled_or_not_at_all(
    calls: Calls, gate: asyncpg.Connection, closed: str
) -> None:
    await arrange(calls, "queued")
    complete, joins = await crossed(calls, gate, closed, "complete", "claim joins")
    assert (complete.status_code, joins.json()["code"]) == (200, "already_settled")
    assert (await calls.shown("b"))["status"] == "queued"


async def test_an_abort_that_waits_reaches_what_was_admitted_meanwhile(calls: Calls, gate: asyncpg.Connection) -> None:
    await arrange(calls, "queued")
    async with gate.transaction():
        await gate.execute(GATES["session"])
        admitted = asyncio.create_task(calls.admit("late"))
        await eventually(lambda: _settled_down(gate, [admitted]), "a wait")  # type: ignore[list-item]
        asked = asyncio.create_task(calls.done("abort-session", session_key="s"))
        await eventually(lambda: _settled_down(gate, [admitted, asked]), "a wait")  # type: ignore[list-item]
    assert "late" in (await asked)["submission_ids"]
    assert (await calls.shown((await admitted)["id"]))["abort_requested_at"] is not None
