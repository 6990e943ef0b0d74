"""B12: a submission that kills its worker is retried for ever."""

from __future__ import annotations

import asyncio
import signal

from app.client import HeldSubmission, Requeue
from app.client.submission_models import DeadLetter, Submission
from app.client.work import WorkFields
from tests.faults.conftest import INVOCATION, Workplace
from tests.faults.worker_process import WorkerProcess
from tests.waiting import eventually

ATTEMPTS = 3
OPTIONS: WorkFields = {"agent": "a", "wait_seconds": 20, "signals": ()}


async def letters(workplace: Workplace) -> list[DeadLetter]:
    return [one async for one in workplace.cairn.dead_letters.list(source="submission")]


async def test_b12_after_its_last_attempt_a_killed_workers_submission_is_a_dead_letter_and_the_next_runs(
    workplace: Workplace,
) -> None:
    await workplace.admit("killer", max_attempts=ATTEMPTS)
    await workplace.admit("next")
    attempts = set()
    for number in range(1, ATTEMPTS + 1):
        worker = WorkerProcess(workplace.url, workplace.key, "a", INVOCATION)
        try:
            claimed = await worker.claimed()
            worker.send(signal.SIGKILL)
        finally:
            worker.close()
        attempts.add(claimed["attempt_id"])
        found = await workplace.cairn.submissions.get("killer")
        assert (claimed["id"], found.attempt_count) == ("killer", number)
    assert len(attempts) == ATTEMPTS

    async def settled() -> Submission | None:
        found = await workplace.cairn.submissions.get("killer")
        return found if found.status == "settled" else None

    dead = await eventually(settled, "the end of the last lease")
    assert (dead.outcome, dead.attempt_count) == ("failed", ATTEMPTS)
    [letter] = await letters(workplace)
    assert (letter.subject, letter.reason, letter.attempts) == ("killer", "attempts_exhausted", ATTEMPTS)
    assert letter.last_error == dead.error
    assert await workplace.cairn.dead_letters.get(letter.id) == letter
    [following] = await workplace.cairn.submissions.claim_next("w2", agent="a", wait_seconds=20)
    assert (following.id, following.attempt_count) == ("next", 1)


async def test_b12_a_payload_that_always_fails_holds_up_nobody_behind_it(workplace: Workplace) -> None:
    await workplace.admit("broken", "behind_1")
    await workplace.admit("again_and_again", max_attempts=ATTEMPTS)
    await workplace.admit("behind_2")
    done: list[str] = []
    last = asyncio.Event()

    async def work(held: HeldSubmission) -> None:
        done.append(held.id)
        if held.id == "broken":
            raise ValueError("cannot be read")
        if held.id == "again_and_again":
            raise Requeue("not now")
        if held.id == "behind_2":
            last.set()

    worker = asyncio.create_task(workplace.cairn.run_worker(work, **OPTIONS))
    await asyncio.wait_for(last.wait(), 20)

    async def all_settled() -> bool:
        return not await workplace.cairn.submissions.any_unsettled()

    await eventually(all_settled, "the end of the last one")
    worker.cancel()
    await asyncio.wait({worker})
    assert done == ["broken", "behind_1", *["again_and_again"] * ATTEMPTS, "behind_2"]
    ends = {one.id: (one.outcome, one.error) async for one in workplace.cairn.submissions.list()}
    assert ends["broken"] == ("failed", "ValueError: cannot be read")
    assert ends["behind_1"] == ends["behind_2"] == ("completed", None)
    [letter] = await letters(workplace)
    assert (letter.subject, letter.reason, letter.attempts) == ("again_and_again", "attempts_exhausted", ATTEMPTS)
    assert ends["again_and_again"] == ("failed", letter.last_error)
    assert letter.last_error is not None
    assert letter.last_error.startswith("not now")
