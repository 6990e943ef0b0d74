"""The body's submission is the fence of an append: it owns the records, and its ownership is held to the commit."""

from __future__ import annotations

from asyncio import create_task

import httpx
import pytest

from app.http.service import Service
from tests.conversations.streams import Queue, Stream, connected, created, offset
from tests.payloads import problem, send
from tests.waiting import held_up

OWNED = b'[{"id":"r","type":"t","submissionId":"sub","attemptId":"att"}]'


def refusal(answer: httpx.Response) -> tuple[str, str]:
    """Code and reason of a refused append."""
    assert answer.status_code == 409, answer.text
    return answer.json()["code"], answer.json()["reason"]


async def stored(stream: Stream) -> int:
    """How many batches there are."""
    return len((await stream.read())["batches"])


async def test_a_running_attempt_appends_what_it_owns(stream: Stream, queue: Queue) -> None:
    attempt = await queue.runs()
    answer = await stream.append(OWNED, submission=attempt)
    assert (answer.status_code, answer.json()) == (200, {"offset": offset(0)})
    # Records that carry no ids may be among them, and one attempt appends as often as it likes.
    mixed = b'[{"id":"x"},{"submissionId":"sub","attemptId":"att"}]'
    assert (await stream.append(mixed, submission=attempt)).status_code == 200


@pytest.mark.parametrize(
    "record",
    [
        b'{"submissionId":"sub"}',
        b'{"attemptId":"att"}',
        b'{"submissionId":"sub","attemptId":"att"}',
        b'{"submissionId":null}',
        b'{"submission\\u0049d":"sub","\\u0061ttemptId":"att"}',
    ],
)
async def test_records_that_carry_ids_need_a_submission(stream: Stream, queue: Queue, record: bytes) -> None:
    await queue.runs()
    refused = await stream.append(b'[{"a":1},%b]' % record)
    assert refusal(refused) == ("append_unauthorized", "submission_required")
    assert "send that attempt as `submission`" in refused.json()["detail"]
    assert (refused.json()["record"], await stored(stream)) == (1, 0)


@pytest.mark.parametrize(
    "record",
    [
        b'{"submissionId":"sub"}',
        b'{"attemptId":"att"}',
        b'{"submissionId":"sub","attemptId":"other"}',
        b'{"submissionId":null,"attemptId":"att"}',
        b'{"submissionId":5,"attemptId":"att"}',
        b'{"submissionId":"sub","attemptId":"att","attemptId":"other"}',
    ],
)
async def test_records_of_another_attempt_are_refused(stream: Stream, queue: Queue, record: bytes) -> None:
    attempt = await queue.runs()
    refused = await stream.append(b"[%b]" % record, submission=attempt)
    assert refusal(refused) == ("append_unauthorized", "record_of_another_attempt")
    assert await stored(stream) == 0


async def test_a_submission_that_is_not_there_or_not_owned_is_refused_with_what_stands(
    stream: Stream, queue: Queue
) -> None:
    attempt = {"submission_id": "sub", "attempt_id": "att"}
    assert refusal(await stream.append(OWNED, submission=attempt))[1] == "submission_not_found"
    await queue.admit("queued")
    await queue.runs("settled")
    await queue.done("settled/complete", attempt_id="att")
    for status in ("queued", "settled"):
        refused = await stream.append(b"[{}]", submission={"submission_id": status, "attempt_id": "att"})
        assert (refusal(refused)[1], refused.json()["current_status"]) == ("not_owned", status)
    await queue.runs()
    await queue.done("sub/replace-attempt", attempt_id="att", next_attempt_id="next")
    refused = await stream.append(OWNED, submission=attempt)
    assert (refusal(refused)[1], refused.json()["attempt_id"]) == ("stale_attempt", "next")
    assert await stored(stream) == 0


@pytest.mark.parametrize("other", [{"agent": "another"}, {"instance_id": "i2"}])
async def test_the_submission_must_be_for_the_conversations_agent_and_instance(
    stream: Stream, queue: Queue, other: dict[str, str]
) -> None:
    attempt = await queue.runs(**other)
    for records in (OWNED, b'[{"a":1}]'):
        assert refusal(await stream.append(records, submission=attempt))[1] == "other_identity"
    assert await stored(stream) == 0


async def test_while_it_is_settled_only_the_reserved_record_is_appended_alone_and_unchanged(
    stream: Stream, queue: Queue
) -> None:
    text = b'{"id":"r","type":"submission_settled","submissionId":"sub","attemptId":"att","outcome":"completed"}'
    attempt = await queue.runs()
    reservation = b'{"attempt_id":"att","record_id":"r","record":%b}' % text
    reserved = await send(queue.client, "POST", "/v1/submissions/sub/settlement/reserve", reservation)
    assert reserved.status_code == 200, reserved.text
    for records in (
        b'[%b,{"id":"more"}]' % text,
        b"[%b]" % text.replace(b"completed", b"failed"),
        b"[%b]" % text.replace(b":", b": "),
    ):
        assert refusal(await stream.append(records, submission=attempt))[1] == "not_the_reserved_record"
    stale = {**attempt, "attempt_id": "old"}
    assert refusal(await stream.append(b"[{}]", submission=stale))[1] == "stale_attempt"
    exact = await stream.append(b"[ %b\n]" % text, submission=attempt)
    assert (exact.status_code, exact.json()) == (200, {"offset": offset(0)})


async def test_a_host_appends_the_records_of_what_joined_it(stream: Stream, queue: Queue) -> None:
    host = await queue.runs()
    await queue.runs("other")
    for child, session in (("child", "sub"), ("foreign", "other")):
        await queue.admit(child, session, agent="echo", instance_id="i1")
    await queue.done("other/joins/claim", attempt_id="att", agent="echo")
    await queue.done("other/joins/foreign/finalize", attempt_id="att")
    child = b'[{"submissionId":"child","attemptId":"att"},{"submissionId":"sub","attemptId":"att"}]'
    refused = await stream.append(child, submission=host)
    assert (refusal(refused)[1], refused.json()["submission_ids"]) == ("not_joined", ["child"])
    foreign = child.replace(b"child", b"foreign")
    assert refusal(await stream.append(foreign, submission=host))[1] == "not_joined"
    for path, more in (("claim", {"agent": "echo"}), ("child/finalize", {})):
        await queue.done(f"sub/joins/{path}", attempt_id="att", **more)
        assert (await stream.append(child, submission=host)).status_code == 200
    assert refusal(await stream.append(child.replace(b"att", b"xxx", 1), submission=host))[1] != "not_joined"


async def test_a_retry_is_not_authorized_again_but_belongs_to_its_attempt(stream: Stream, queue: Queue) -> None:
    attempt = await queue.runs()
    first = await stream.append(OWNED, 0, submission=attempt)
    await queue.done("sub/complete", attempt_id="att")
    assert (await stream.append(OWNED, 0, submission=attempt)).content == first.content
    for other in ({**attempt, "attempt_id": "other"}, {**attempt, "submission_id": "other"}, None):
        assert problem(await stream.append(OWNED, 0, submission=other)) == (409, "sequence_conflict")
    assert refusal(await stream.append(b"[{}]", 1, submission=attempt))[1] == "not_owned"


async def test_the_sequence_is_looked_at_before_the_authorization(stream: Stream, queue: Queue) -> None:
    attempt = {"submission_id": "absent", "attempt_id": "att"}
    assert problem(await stream.append(OWNED, 5, submission=attempt)) == (409, "sequence_conflict")
    assert problem(await stream.append(OWNED, 0, submission=attempt)) == (409, "append_unauthorized")


async def test_the_header_may_only_repeat_the_body(stream: Stream, queue: Queue) -> None:
    attempt = await queue.runs()
    for fence, body in (("sub;other", attempt), ("other;att", attempt), ("sub;att", None)):
        refused = await stream.append(b"[{}]", 0, headers={"submission-attempt": fence}, submission=body)
        assert problem(refused) == (422, "invalid_input")
        assert refused.json()["errors"][0]["pointer"] == "Submission-Attempt"
    equal = await stream.append(OWNED, 0, headers={"submission-attempt": "sub;att"}, submission=attempt)
    assert equal.status_code == 200, equal.text


async def test_an_append_that_waits_for_a_settlement_finds_itself_without_the_submission(
    service: Service, stream: Stream, queue: Queue
) -> None:
    attempt = await queue.runs()
    other = await connected(service)
    try:
        async with other.transaction():
            await other.execute(
                "SELECT FROM cairn_settle($1, 'sub', 'running', 'att', NULL, 'completed', NULL)",
                queue.client.headers["x-test-tenant"],
            )
            pending = create_task(stream.append(OWNED, submission=attempt))
            await held_up(service)
        assert refusal(await pending)[1] == "not_owned"
    finally:
        await other.close()
    assert await stored(stream) == 0


async def test_another_tenants_submission_of_the_same_name_owns_nothing(
    client: httpx.AsyncClient, other: httpx.AsyncClient, queue: Queue
) -> None:
    attempt = await queue.runs()
    foreign = await created(other)
    assert refusal(await foreign.append(OWNED, submission=attempt))[1] == "submission_not_found"
