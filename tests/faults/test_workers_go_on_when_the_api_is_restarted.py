"""Acceptance 5: the API restarted under 50 working workers; none loses or repeats a settled submission."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack

from app.client import AsyncCairn, HeldSubmission
from app.client.work import WorkFields
from tests.faults.conftest import INVOCATION, Workplace
from tests.waiting import eventually

WORKERS = 50
SESSIONS = 150
EACH = 2
# Far longer than the API is away, so nothing is done twice.
OPTIONS: WorkFields = {"agent": "a", "lease_seconds": 60, "wait_seconds": 20, "signals": ()}


async def test_no_settled_submission_is_lost_or_repeated(workplace: Workplace) -> None:
    cairn = workplace.cairn
    batch = cairn.batch()
    for number in range(SESSIONS * EACH):
        batch.submissions.admit(
            id=f"sub_{number}", session_key=f"s{number % SESSIONS}", kind="direct", agent="a", instance_id="i",
            input=number,
        )  # fmt: skip
    await batch.send()
    done: Counter[str] = Counter()

    async def work(held: HeldSubmission) -> None:
        name = f"{held.id} {held.attempt_count}"
        await held.cairn.messages.record(INVOCATION, id=name, role="result", payload=held.input)
        done[held.id] += 1

    async def so_many(count: int) -> None:
        async def reached() -> bool:
            return len(done) >= count

        await eventually(reached, f"{count} submissions")

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(AsyncCairn(workplace.url, key=workplace.key)) for _ in range(WORKERS)
        ]
        workers = [asyncio.create_task(client.run_worker(work, **OPTIONS)) for client in clients]
        for share, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):
            await so_many(SESSIONS * EACH * share // 4)
            workplace.api.process.send(number)
            await workplace.api.restart()
        await so_many(SESSIONS * EACH)

        async def all_settled() -> bool:
            return not await cairn.submissions.any_unsettled()

        await eventually(all_settled, "the last settlement")
        assert not any(worker.done() for worker in workers)
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)

    found = [one async for one in cairn.submissions.list(limit=1000)]
    assert {(one.outcome, one.attempt_count) for one in found} == {("completed", 1)}
    assert len(found) == SESSIONS * EACH
    messages = [one async for one in cairn.messages.list(INVOCATION, limit=1000, include=["payload"])]
    assert sorted(one.payload.text for one in messages if one.payload) == sorted(str(n) for n in range(len(found)))
    settled = Counter([event.subject_id async for event in cairn.events.list(type=["submission.settled"], limit=1000)])
    assert settled == Counter(one.id for one in found)
    # Within a session, one after the other.
    ends: dict[str, list[object]] = {}
    for one in found:
        ends.setdefault(one.session_key, []).append(one.settled_at)
    assert all(times == sorted(times, key=str) for times in ends.values())
