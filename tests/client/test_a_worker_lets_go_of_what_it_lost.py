"""What a worker does when the service says that a lease is gone, says nothing, or has nothing to do."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from app.client import AsyncCairn, ForbiddenError, HeldSubmission, Requeue, StaleAttemptError
from app.client.work import WorkFields
from tests.client.conftest import QUICK, Asked, ScriptedServer
from tests.waiting import until

Answer = tuple[int, dict[str, str], bytes] | None
OPTIONS: WorkFields = {"owner_id": "w1", "lease_seconds": 1, "wait_seconds": 1, "signals": ()}


class Queue:
    """Answers as a service with one submission would, but for what a test sets."""

    def __init__(self, server: ScriptedServer) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.claims = [["sub_1"]]
        self.renew: Callable[[list[str]], Answer] = lambda ids: answered(renewed=ids, skipped=[])
        self.settle: Callable[[str], Answer] = lambda _verb: answered(id="sub_1", status="settled")
        server.otherwise = self.answer

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked if verb not in ("claim-next", "renew-leases")]

    def answer(self, asked: Asked) -> Answer:
        verb = asked.target.rsplit("/", 1)[1]
        body = json.loads(asked.body or b"{}")
        self.asked.append((verb, {**asked.headers, **body}))
        if verb == "claim-next":
            ids = self.claims.pop(0) if self.claims else []
            return answered(items=[submission(one) for one in ids])
        if verb == "renew-leases":
            return self.renew(body["submission_ids"])
        return self.settle(verb)


def answered(_code: int = 200, **body: Any) -> Answer:
    return _code, {"Content-Type": "application/json"}, json.dumps(body).encode()


def submission(submission_id: str) -> dict[str, Any]:
    return {"id": submission_id, "attempt_id": "att_1", "attempt_count": 1, "max_attempts": 10, "input": {"n": 1}}


@pytest.fixture
def queue(server: ScriptedServer) -> Queue:
    return Queue(server)


async def one_block(
    server: ScriptedServer, body: Callable[[HeldSubmission], Any], **options: Any
) -> tuple[HeldSubmission, bool]:
    """Work on one submission; whether its block ended as it meant to."""
    ended = False
    async with AsyncCairn(server.url, retry=QUICK) as cairn, aclosing(cairn.work(**{**OPTIONS, **options})) as work:
        async for held in work:
            async with held:
                await body(held)
                ended = True
            break
    return held, ended


async def forever(_held: HeldSubmission) -> None:
    await asyncio.Event().wait()


async def test_a_lease_that_is_skipped_ends_the_block_and_nothing_is_settled(
    server: ScriptedServer, queue: Queue
) -> None:
    queue.renew = lambda ids: answered(renewed=[], skipped=ids)
    held, ended = await one_block(server, forever)
    assert (held.end, ended, queue.verbs()) == ("lost", False, [])


async def test_a_service_that_is_silent_for_as_long_as_the_lease_ends_the_block(
    server: ScriptedServer, queue: Queue
) -> None:
    queue.renew = lambda _ids: None
    began = time.monotonic()
    held, ended = await one_block(server, forever)
    assert (held.end, ended, queue.verbs()) == ("lost", False, [])
    assert 0.9 < time.monotonic() - began < 2


async def test_a_claim_that_is_a_replay_is_asked_after_at_once(server: ScriptedServer, queue: Queue) -> None:
    scripted = queue.answer
    renewed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(asked: Asked) -> Answer:
        found = scripted(asked)
        if asked.target.endswith("renew-leases"):
            loop.call_soon_threadsafe(renewed.set)
        assert found is not None
        return found[0], {**found[1], "Idempotency-Replayed": "true"}, found[2]

    async def work(_held: HeldSubmission) -> None:
        # Long before a third of the lease has passed.
        await asyncio.wait_for(renewed.wait(), 5)

    server.otherwise = answer
    held, ended = await one_block(server, work, lease_seconds=60)
    assert (held.end, ended) == ("completed", True)


async def test_a_renewal_that_hangs_does_not_hold_the_worker_back(server: ScriptedServer, queue: Queue) -> None:
    over = threading.Event()

    def hang(_ids: list[str]) -> Answer:
        over.wait(5)
        return answered(renewed=[], skipped=[])

    queue.renew = hang
    held, _ = await one_block(server, forever)
    over.set()
    assert held.end == "lost"


async def test_nothing_is_sent_under_a_lost_lease_by_a_block_that_does_not_listen(
    server: ScriptedServer, queue: Queue
) -> None:
    queue.renew = lambda ids: answered(renewed=[], skipped=ids)

    async def deaf(held: HeldSubmission) -> None:
        with pytest.raises(asyncio.CancelledError):
            await forever(held)
        with pytest.raises(StaleAttemptError):
            await held.cairn.invocations.heartbeat("inv_1")
        with pytest.raises(StaleAttemptError):
            await held.cairn.using(if_match='"1"').invocations.heartbeat("inv_1")
        with pytest.raises(StaleAttemptError):
            await held.complete()

    held, ended = await one_block(server, deaf)
    assert (held.end, ended, queue.verbs()) == ("lost", True, [])


async def test_every_write_carries_the_attempt_and_what_is_left_settles(server: ScriptedServer, queue: Queue) -> None:
    async def work(held: HeldSubmission) -> None:
        assert held.input is not None
        assert held.input.text == '{"n": 1}'
        await held.cairn.invocations.heartbeat("inv_1")

    held, _ = await one_block(server, work, lease_seconds=20)
    assert (held.end, queue.verbs()) == ("completed", ["heartbeat", "complete"])
    sent = [headers.get("submission-attempt") for verb, headers in queue.asked if verb == "heartbeat"]
    assert sent == ["sub_1;att_1"]


@pytest.mark.parametrize(
    ("error", "verb", "said"),
    [
        (ValueError("no\0"), "fail", {"error": "ValueError: no\ufffd"}),
        (Requeue("too busy", delay_seconds=5), "requeue", {"delay_seconds": 5, "error": "too busy"}),
        (StaleAttemptError("stale_attempt", 409, facts={"submission_id": "sub_1"}), None, {}),
        (StaleAttemptError("stale_attempt", 409, facts={"submission_id": "sub_2"}), "fail", {}),
    ],
)
async def test_what_a_block_raises_says_what_is_settled(
    server: ScriptedServer, queue: Queue, error: Exception, verb: str | None, said: dict[str, Any]
) -> None:
    async def work(_held: HeldSubmission) -> None:
        raise error

    queue.settle = lambda verb: answered(id="sub_1", status="queued" if verb == "requeue" else "settled")
    held, _ = await one_block(server, work, lease_seconds=20)
    assert queue.verbs() == ([verb] if verb else [])
    assert held.end == {"fail": "failed", "requeue": "requeued", None: "lost"}[verb]
    if verb:
        assert queue.asked[-1][1].items() >= {"attempt_id": "att_1", **said}.items()


async def test_an_error_that_no_text_can_hold_is_told_as_near_as_can_be(server: ScriptedServer, queue: Queue) -> None:
    async def work(held: HeldSubmission) -> None:
        # Not raised: where a traceback with it is written, a log that is UTF-8 fails.
        await held.fail("no \ud83d")

    held, _ = await one_block(server, work, lease_seconds=20)
    assert (held.end, queue.asked[-1][1]["error"]) == ("failed", "no ?")


async def test_a_block_settles_in_one_transaction_with_what_it_did(server: ScriptedServer, queue: Queue) -> None:
    result = {"status": 200, "headers": {}, "body": {}}
    queue.settle = lambda _verb: answered(results=[result, result])

    async def work(held: HeldSubmission) -> None:
        batch = held.cairn.batch()
        batch.invocations.heartbeat("inv_1")
        await held.complete(batch)

    held, _ = await one_block(server, work, lease_seconds=20)
    assert (held.end, queue.verbs()) == ("completed", ["batch"])
    paths = [operation["path"] for operation in queue.asked[-1][1]["operations"]]
    assert paths == ["/v1/invocations/inv_1/heartbeat", "/v1/submissions/sub_1/complete"]


async def test_a_settlement_is_tried_until_it_is_answered_under_one_key(server: ScriptedServer, queue: Queue) -> None:
    answers: list[Answer] = [None, answered(503), answered(id="sub_1", status="settled")]
    queue.settle = lambda _verb: answers.pop(0)

    async def nothing(_held: HeldSubmission) -> None:
        """There is nothing to do."""

    held, _ = await one_block(server, nothing, lease_seconds=20)
    assert (held.end, queue.verbs()) == ("completed", ["complete"] * 3)
    assert len({headers["idempotency-key"] for verb, headers in queue.asked if verb == "complete"}) == 1


async def test_a_cancellation_from_elsewhere_gives_the_submission_back(server: ScriptedServer, queue: Queue) -> None:
    entered = asyncio.Event()

    async def work(held: HeldSubmission) -> None:
        entered.set()
        await forever(held)

    task = asyncio.create_task(one_block(server, work))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert queue.verbs() == ["requeue"]


async def test_what_nobody_entered_is_given_back_when_the_loop_is_left(server: ScriptedServer, queue: Queue) -> None:
    queue.claims = [["sub_1", "sub_2"]]
    async with AsyncCairn(server.url) as cairn, aclosing(cairn.work(**OPTIONS, concurrency=2)) as work:
        async for _ in work:
            break
    assert sorted(queue.verbs()) == ["requeue", "requeue"]


async def test_a_loop_that_enters_nothing_is_told_so(server: ScriptedServer, queue: Queue) -> None:
    async with AsyncCairn(server.url) as cairn, aclosing(cairn.work(**OPTIONS)) as work:
        await anext(work)
        with pytest.raises(RuntimeError, match="async with submission"):
            await anext(work)
    assert queue.verbs() == ["requeue"]


@pytest.mark.parametrize("answers_at_once", [answered(items=[]), answered(500)])
async def test_a_service_that_gives_nothing_at_once_is_not_asked_in_a_busy_loop(
    server: ScriptedServer, answers_at_once: Answer
) -> None:
    server.otherwise = lambda _asked: answers_at_once
    began = time.monotonic()
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        worker = asyncio.create_task(cairn.run_worker(forever, **OPTIONS))
        await asyncio.to_thread(until, lambda: len(server.asked) >= 4, "the fourth claim")
        assert time.monotonic() - began >= 3 * 0.25
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_within_the_grace(server: ScriptedServer, queue: Queue, number: signal.Signals) -> None:
    queue.claims = [["sub_1"], ["sub_2"]]
    before = signal.getsignal(number)
    ends: dict[str, str | None] = {}
    working = asyncio.Event()

    async def handler(held: HeldSubmission) -> None:
        if held.id == "sub_2":
            working.set()
            await forever(held)
        await working.wait()

    async def watched(held: HeldSubmission) -> None:
        try:
            await handler(held)
        finally:
            ends[held.id] = held.end

    options: WorkFields = {**OPTIONS, "signals": [number], "concurrency": 2, "grace_seconds": 0.2}
    async with AsyncCairn(server.url) as cairn:
        worker = asyncio.create_task(cairn.run_worker(watched, **options))
        await working.wait()
        signal.raise_signal(number)
        await asyncio.wait_for(worker, 5)
    assert sorted(queue.verbs()) == ["complete", "requeue"]
    assert signal.getsignal(number) == before


async def test_a_worker_that_may_not_claim_ends_with_the_refusal_once_its_work_has(
    server: ScriptedServer, queue: Queue
) -> None:
    forbidden = asyncio.Event()
    loop = asyncio.get_running_loop()
    scripted = queue.answer

    def answer(asked: Asked) -> Answer:
        if asked.target.endswith("claim-next") and not queue.claims:
            loop.call_soon_threadsafe(forbidden.set)
            return answered(403, code="forbidden")
        return scripted(asked)

    async def handler(_held: HeldSubmission) -> None:
        await forbidden.wait()

    server.otherwise = answer
    async with AsyncCairn(server.url) as cairn:
        with pytest.raises(ForbiddenError):
            await cairn.run_worker(handler, **OPTIONS, concurrency=2)
    assert queue.verbs() == ["complete"]
