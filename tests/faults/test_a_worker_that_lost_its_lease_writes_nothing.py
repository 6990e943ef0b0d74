"""B11: a worker that lost its lease still writes."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from app.client import AsyncCairn, ConflictError, HeldSubmission, StaleAttemptError
from app.client.work import WorkFields
from tests.faults.conftest import INVOCATION, Workplace
from tests.faults.holding import holding, prepare, until_held
from tests.faults.worker_process import STREAM, WorkerProcess
from tests.waiting import eventually

STALE = {"stale_attempt", "already_settled"}
# What an append says where its attempt owns nothing.
APPEND = {"append": "append_unauthorized"}


@pytest.fixture
def worker(workplace: Workplace) -> Iterator[WorkerProcess]:
    process = WorkerProcess(workplace.url, workplace.key, "a", INVOCATION)
    yield process
    process.close()


async def taken_over(workplace: Workplace) -> tuple[str, str]:
    """The attempt of the second worker, which waits until the first one's lease has lapsed."""
    [held] = await workplace.cairn.submissions.claim_next("w2", agent="a", lease_seconds=60, wait_seconds=20)
    assert (held.attempt_count, held.owner_id) == (2, "w2")
    assert held.attempt_id is not None
    return held.id, held.attempt_id


async def untouched(workplace: Workplace) -> bool:
    """Whether nothing of what the first worker wrote is there."""
    messages = [one async for one in workplace.cairn.messages.list(INVOCATION)]
    invocation = await workplace.cairn.invocations.get(INVOCATION)
    page = await workplace.cairn.conversations.read(STREAM)
    return not messages and not page.batches and invocation.heartbeat_at is None and invocation.feedback is None


async def test_b11_stopped_past_its_lease_it_gets_a_conflict_for_everything(
    workplace: Workplace, worker: WorkerProcess
) -> None:
    await workplace.admit("sub_1")
    claimed = await worker.claimed()
    worker.send(signal.SIGSTOP)
    attempt = await taken_over(workplace)
    assert attempt[1] != claimed["attempt_id"]
    settled = await workplace.cairn.submissions.complete(*attempt)
    worker.send(signal.SIGCONT)
    said = await worker.go_on()
    assert said.pop("renewed") == ""
    assert said.items() >= APPEND.items()
    assert {code for name, code in said.items() if name not in APPEND} <= STALE
    found = await workplace.cairn.submissions.get("sub_1")
    assert (found.outcome, found.error, found.attempt_id, found.settled_at, found.attempt_count) == (
        "completed", None, attempt[1], settled.settled_at, 2,
    )  # fmt: skip
    assert await untouched(workplace)


async def test_b11_an_api_that_starts_while_the_second_works_gives_the_lease_to_nobody(
    workplace: Workplace, worker: WorkerProcess
) -> None:
    await workplace.admit("sub_1")
    await worker.claimed()
    worker.send(signal.SIGSTOP)
    attempt = await taken_over(workplace)
    before = await workplace.cairn.submissions.get("sub_1")
    workplace.api.process.send(signal.SIGKILL)
    await workplace.api.restart()
    assert await workplace.cairn.submissions.claim_next("w3", agent="a", lease_seconds=1, wait_seconds=1) == []
    worker.send(signal.SIGCONT)
    said = await worker.go_on()
    assert said.pop("renewed") == ""
    assert said == dict.fromkeys(said, "stale_attempt") | APPEND
    after = await workplace.cairn.submissions.get("sub_1")
    assert after.json_bytes == before.json_bytes
    assert await untouched(workplace)
    assert (await workplace.cairn.submissions.complete(*attempt)).outcome == "completed"


async def test_b11_blocked_inside_the_renewal_while_another_takes_over_it_renews_nothing(
    workplace: Workplace,
) -> None:
    await workplace.admit("sub_1")
    cairn, connection = workplace.cairn, await asyncpg.connect(workplace.api.database_url)
    await prepare(connection)
    [held] = await cairn.submissions.claim_next("w1", agent="a", lease_seconds=1)
    assert held.attempt_id is not None
    async with holding(connection, 1):
        over = asyncio.ensure_future(
            cairn.submissions.replace_attempt(held.id, held.attempt_id, "att_2", owner_id="w2", lease_seconds=60)
        )
        assert await until_held(connection, over)
        renewal = asyncio.ensure_future(cairn.submissions.renew_leases("w1", [held.id], lease_seconds=60))

        async def blocked() -> bool:
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
            return bool(await connection.fetchval(waits))

        await eventually(blocked, "the renewal at the row")
    await connection.close()
    assert (await over).owner_id == "w2"
    answer = await renewal
    assert (answer.renewed, answer.skipped) == ([], [held.id])
    with pytest.raises(StaleAttemptError):
        await cairn.submissions.complete(held.id, held.attempt_id)
    assert (await cairn.submissions.get(held.id)).lease_expires_at == (await over).lease_expires_at


@pytest.mark.parametrize("minutes", [5, -5])
async def test_b11_a_clock_that_is_wrong_moves_no_lease(workplace: Workplace, minutes: int) -> None:
    await workplace.admit("sub_1")
    cairn = workplace.cairn
    off = timedelta(minutes=minutes)
    shown = datetime.now(UTC) + off
    lease = shown + timedelta(seconds=2)
    held = await cairn.submissions.claim("sub_1", "att_1", "w1", lease_expires_at=lease, client_time=shown)
    began = time.monotonic()
    assert held.lease_expires_at == lease
    assert await cairn.submissions.claim_next("w2", agent="a") == []
    assert [one async for one in cairn.submissions.list(view="expired")] == []
    attempt = await taken_over(workplace)
    assert 1 < time.monotonic() - began < 15
    with pytest.raises(ConflictError):
        await cairn.submissions.fail("sub_1", "att_1", "late")
    assert (await cairn.submissions.complete(*attempt)).outcome == "completed"


async def test_b11_the_loop_of_a_worker_that_was_stopped_drops_its_work_and_goes_on(workplace: Workplace) -> None:
    """The renewals of a worker whose process stood still are late; here its event loop stands still instead."""
    await workplace.admit("sub_1")
    options: WorkFields = {"agent": "a", "lease_seconds": 1, "wait_seconds": 20, "signals": ()}
    ends: list[tuple[str, str | None, int]] = []

    def stand_still() -> None:
        """Keep the loop busy until another worker has what this one holds."""
        with asyncio.Runner() as runner:
            runner.run(take_and_return())

    async def take_and_return() -> None:
        async with AsyncCairn(workplace.url, key=workplace.key) as other:
            [held] = await other.submissions.claim_next("w2", agent="a", lease_seconds=60, wait_seconds=20)
            assert held.attempt_id is not None
            await other.submissions.requeue(held.id, held.attempt_id)

    async def work(held: HeldSubmission) -> None:
        if held.attempt_count == 1:
            thread = threading.Thread(target=stand_still)
            thread.start()
            thread.join()
            await held.cairn.messages.record(INVOCATION, id="late", role="result", payload=1)

    async with aclosing(workplace.cairn.work(**options)) as submissions:
        async for held in submissions:
            async with held:
                await work(held)
            ends.append((held.id, held.end, held.attempt_count))
            if len(ends) == 2:
                break
    assert ends == [("sub_1", "lost", 1), ("sub_1", "completed", 3)]
    assert await untouched(workplace)
