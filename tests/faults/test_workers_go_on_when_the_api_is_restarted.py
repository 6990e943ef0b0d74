"""Acceptance 5: the API restarted under 50 working workers; none loses or repeats a settled submission."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from app.client import AsyncCairn, HeldSubmission
from app.client.submission_models import Submission
from tests.faults.conftest import INVOCATION, Workplace
from tests.waiting import eventually

WORKERS = 50
SESSIONS = 100
EACH = 2
COUNT = SESSIONS * EACH
# Fifty workers beside other tests, on two cores, are slow; one that is lost never comes.
BOUND_SECONDS = 100.0


class Crowd:
    """Fifty workers, each with connections and leases of its own; `done` counts what they did for each submission."""

    def __init__(self, workplace: Workplace, lease_seconds: int) -> None:
        self.workplace, self.lease_seconds = workplace, lease_seconds
        self.done: Counter[str] = Counter()

    async def admit(self) -> None:
        """Fill the queue."""
        batch = self.workplace.cairn.batch()
        for number in range(COUNT):
            batch.submissions.admit(
                id=f"sub_{number}", session_key=f"s{number % SESSIONS}", kind="direct", agent="a", instance_id="i",
                input=number, max_attempts=1000,
            )  # fmt: skip
        await batch.send()

    async def work(self, held: HeldSubmission) -> None:
        """Leave a message of the attempt, under the fence."""
        name = f"{held.id} {held.attempt_count}"
        await held.cairn.messages.record(INVOCATION, id=name, role="result", payload=held.input)
        self.done[held.id] += 1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let them work; none of them ends by itself."""
        place = self.workplace
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncCairn(place.url, key=place.key)) for _ in range(WORKERS)]
            workers = [
                asyncio.create_task(
                    client.run_worker(self.work, agent="a", lease_seconds=self.lease_seconds, signals=())
                )
                for client in clients
            ]
            try:
                yield
                assert not any(worker.done() for worker in workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)

    async def has_done(self, count: int) -> None:
        """Until they have worked on so many submissions."""

        async def reached() -> bool:
            return len(self.done) >= count

        await eventually(reached, f"{count} submissions", BOUND_SECONDS)

    async def has_settled(self) -> list[Submission]:
        """Until nothing is left to do, and every event of it can be read; the submissions then."""
        cairn = self.workplace.cairn

        async def all_settled() -> bool:
            return not await cairn.submissions.any_unsettled()

        await eventually(all_settled, "the last settlement", BOUND_SECONDS)
        return [one async for one in cairn.submissions.list(limit=1000)]

    async def events(self) -> Counter[str]:
        """How often each submission was settled, as the events tell once there are as many as submissions."""

        async def told() -> list[str] | None:
            listed = self.workplace.cairn.events.list(type=["submission.settled"], limit=1000)
            found = [event.subject_id async for event in listed]
            return found if len(found) >= COUNT else None

        return Counter(await eventually(told, "the event of each settlement", BOUND_SECONDS))

    async def messages(self) -> dict[str, str]:
        """What the attempts have left: payloads by the names of submission and attempt."""
        listed = self.workplace.cairn.messages.list(INVOCATION, limit=1000, include=["payload"])
        return {one.id: one.payload.text async for one in listed if one.payload is not None}


# A minute is far longer than the API is away, so nothing is done twice. Two seconds are shorter: what is in hand then
# is lost and done again, and still settles once.
@pytest.mark.parametrize("lease_seconds", [60, 2])
async def test_no_settled_submission_is_lost_or_repeated(workplace: Workplace, lease_seconds: int) -> None:
    crowd = Crowd(workplace, lease_seconds)
    await crowd.admit()
    async with crowd.working():
        for share, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):
            await crowd.has_done(COUNT * share // 4)
            workplace.api.process.send(number)
            await workplace.api.restart()
        await crowd.has_done(COUNT)
        found = await crowd.has_settled()
    assert {one.id: one.outcome for one in found} == {f"sub_{number}": "completed" for number in range(COUNT)}
    assert await crowd.events() == Counter(one.id for one in found)
    messages = await crowd.messages()
    last = {f"{one.id} {one.attempt_count}": one.id.removeprefix("sub_") for one in found}
    assert messages.items() >= last.items()
    if lease_seconds == 60:
        assert {one.attempt_count for one in found} == {1}
        assert messages == last
