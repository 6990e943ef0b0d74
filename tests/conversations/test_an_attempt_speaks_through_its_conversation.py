"""A submission's life beside its conversation, by the calls of both: what it owns it appends, and nothing after."""

from __future__ import annotations

import json
from asyncio import create_task
from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.conversations.streams import Queue, Stream, connected, offset
from tests.waiting import held_up

FOR = {"agent": "echo", "instance_id": "i1"}
HOST = {"submission_id": "host", "attempt_id": "at"}
SETTLED = {"id": "end", "type": "submission_settled", "submissionId": "host", "attemptId": "at",
           "outcome": "completed"}  # fmt: skip


def records(*owners: str, attempt_id: str = "at") -> bytes:
    """A batch with a record of each of these submissions."""
    return json.dumps([{"submissionId": owner, "attemptId": attempt_id} for owner in owners]).encode()


async def reason(stream: Stream, batch: bytes, **attempt: Any) -> str:
    """Why an append is refused."""
    answer = await stream.append(batch, submission={**HOST, **attempt})
    assert (answer.status_code, answer.json()["code"]) == (409, "append_unauthorized"), answer.text
    return str(answer.json()["reason"])


async def test_what_a_submission_owns_is_appended_until_it_is_settled(stream: Stream, queue: Queue) -> None:
    await queue.admit("host", **FOR)
    assert await reason(stream, records("host")) == "not_owned"
    await queue.claim("host")
    assert (await stream.append(records("host"), submission=HOST)).status_code == 200

    await queue.admit("child", **FOR)
    assert await reason(stream, records("child")) == "not_joined"
    await queue.done("host/joins/claim", attempt_id="at", agent="echo")
    assert (await stream.append(records("host", "child"), submission=HOST)).status_code == 200
    await queue.done("host/joins/child/finalize", attempt_id="at")
    assert (await stream.append(records("child"), submission=HOST)).status_code == 200

    text = json.dumps(SETTLED).encode()
    reserved = await queue.post("host/settlement/reserve", attempt_id="at", record_id="end", record=SETTLED)
    assert reserved.status_code == 200, reserved.text
    assert await reason(stream, records("host")) == "not_the_reserved_record"
    # The text as the client sent it to be reserved, which `json=` writes without spaces.
    assert await reason(stream, b"[%b]" % text) == "not_the_reserved_record"
    exact = b"[%b]" % httpx.Request("POST", "http://x", json=SETTLED).content
    assert (await stream.append(exact, submission=HOST)).json() == {"offset": offset(3)}
    sequence = stream.sequence
    await queue.done("host/settlement/finalize", attempt_id="at", record_id="end")
    assert await reason(stream, records("host")) == "not_owned"
    assert (await stream.append(exact, sequence - 1, submission=HOST)).json() == {"offset": offset(3)}


async def test_an_attempt_that_was_replaced_appends_nothing_more(stream: Stream, queue: Queue) -> None:
    await queue.running("host", **FOR)
    await queue.done("host/replace-attempt", attempt_id="at", next_attempt_id="next")
    assert await reason(stream, records("host")) == "stale_attempt"
    now = {"submission_id": "host", "attempt_id": "next"}
    assert (await stream.append(records("host", attempt_id="next"), submission=now)).status_code == 200


CHANGES = {
    "settled": ("host/complete", {"attempt_id": "at"}),
    "failed": ("host/fail", {"attempt_id": "at", "error": "x"}),
    "sent back": ("host/requeue", {"attempt_id": "at"}),
    "replaced": ("host/replace-attempt", {"attempt_id": "at", "next_attempt_id": "next"}),
    "its child sent back": ("host/joins/child/revert", {"attempt_id": "at"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_no_change_of_ownership_comes_between_an_append_and_its_commit(
    service: Service, client: httpx.AsyncClient, stream: Stream, queue: Queue, change: str
) -> None:
    await queue.running("host", **FOR)
    await queue.admit("child", **FOR)
    await queue.done("host/joins/claim", attempt_id="at", agent="echo")
    other = await connected(service)
    path, body = CHANGES[change]
    try:
        # Somebody holds the conversation, so that the append has its submissions and waits.
        async with other.transaction():
            await other.execute(
                "UPDATE conversation_streams SET updated_at = now() WHERE tenant_id = $1",
                client.headers["x-test-tenant"],
            )
            appending = create_task(stream.append(records("host", "child"), submission=HOST))
            await held_up(service)
            changing = create_task(queue.post(path, **body))
            await held_up(service, 2)
            assert not changing.done()
            renewed = await queue.post("renew-leases", owner_id="o", submission_ids=["host"], lease_seconds=90)
            assert renewed.json()["renewed"] == ["host"]
        assert ((await appending).status_code, (await changing).status_code) == (200, 200)
    finally:
        await other.close()
    assert await reason(stream, records("host", "child")) in {"not_owned", "stale_attempt", "not_joined"}


async def test_an_append_that_waits_for_its_child_to_be_sent_back_finds_that_it_was(
    service: Service, client: httpx.AsyncClient, stream: Stream, queue: Queue
) -> None:
    await queue.running("host", **FOR)
    await queue.admit("child", **FOR)
    await queue.done("host/joins/claim", attempt_id="at", agent="echo")
    other, tenant_id = await connected(service), client.headers["x-test-tenant"]
    try:
        async with other.transaction():
            await other.execute("SELECT FROM submissions WHERE tenant_id = $1 AND id = 'host' FOR UPDATE", tenant_id)
            await other.execute(
                "UPDATE submissions SET status = 'queued', joined_into = NULL WHERE tenant_id = $1 AND id = 'child'",
                tenant_id,
            )
            appending = create_task(stream.append(records("host", "child"), submission=HOST))
            await held_up(service)
        answer = await appending
    finally:
        await other.close()
    # The statement began while the child was joining: it looks at the newest row of it all the same.
    assert (answer.status_code, answer.json().get("reason")) == (409, "not_joined"), answer.text
    assert (await stream.read())["batches"] == []


async def test_a_reservation_waits_for_an_append_and_an_append_for_a_reservation(
    service: Service, client: httpx.AsyncClient, stream: Stream, queue: Queue
) -> None:
    await queue.running("host", **FOR)
    other, tenant_id = await connected(service), client.headers["x-test-tenant"]
    reserve = {"attempt_id": "at", "record_id": "end", "record": SETTLED}
    try:
        async with other.transaction():
            await other.execute("UPDATE conversation_streams SET updated_at = now() WHERE tenant_id = $1", tenant_id)
            appending = create_task(stream.append(records("host"), submission=HOST))
            await held_up(service)
            reserving = create_task(queue.post("host/settlement/reserve", **reserve))
            await held_up(service, 2)
            assert not reserving.done()
        assert ((await appending).status_code, (await reserving).status_code) == (200, 200)
        await queue.done("host/settlement/finalize", attempt_id="at", record_id="end")

        await queue.running("next", **FOR)
        async with other.transaction():
            # As a reservation that has not committed yet.
            await other.execute("SELECT FROM submissions WHERE tenant_id = $1 AND id = 'next' FOR UPDATE", tenant_id)
            await other.execute(
                "UPDATE submissions SET status = 'terminalizing', settlement_record_id = 'r', settlement_record = '{}',"
                " settlement_outcome = 'completed' WHERE tenant_id = $1 AND id = 'next'",
                tenant_id,
            )
            now = {"submission_id": "next", "attempt_id": "at"}
            appending = create_task(stream.append(records("next"), submission=now))
            await held_up(service)
        answer = await appending
    finally:
        await other.close()
    assert (answer.status_code, answer.json().get("reason")) == (409, "not_the_reserved_record"), answer.text
