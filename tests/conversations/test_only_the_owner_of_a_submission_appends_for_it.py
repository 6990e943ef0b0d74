"""The body's submission is the fence of an append: it owns the records, and its ownership is held to the commit."""

from __future__ import annotations

import asyncio
from asyncio import create_task

import httpx
import pytest

from app.http.service import Service
from tests.conversations.rows import Rows, Stream, connected, created, offset
from tests.payloads import problem
from tests.waiting import held_up

OWNED = b'[{"id":"r","type":"t","submissionId":"sub","attemptId":"att"}]'


def refusal(answer: httpx.Response) -> tuple[str, str]:
    """Code and reason of a refused append."""
    assert answer.status_code == 409, answer.text
    return answer.json()["code"], answer.json()["reason"]


async def stored(stream: Stream) -> int:
    """How many batches there are."""
    return len((await stream.read())["batches"])


async def test_a_running_attempt_appends_what_it_owns(stream: Stream, rows: Rows) -> None:
    attempt = await rows.submission("sub")
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
async def test_records_that_carry_ids_need_a_submission(stream: Stream, rows: Rows, record: bytes) -> None:
    await rows.submission("sub")
    refused = await stream.append(b'[{"a":1},%b]' % record)
    assert refusal(refused) == ("append_unauthorized", "submission_required")
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
async def test_records_of_another_attempt_are_refused(stream: Stream, rows: Rows, record: bytes) -> None:
    attempt = await rows.submission("sub")
    refused = await stream.append(b"[%b]" % record, submission=attempt)
    assert refusal(refused) == ("append_unauthorized", "record_of_another_attempt")
    assert await stored(stream) == 0


async def test_a_submission_that_is_not_there_or_not_owned_is_refused_with_what_stands(
    stream: Stream, rows: Rows
) -> None:
    attempt = {"submission_id": "sub", "attempt_id": "att"}
    assert refusal(await stream.append(OWNED, submission=attempt))[1] == "submission_not_found"
    for status in ("queued", "settled"):
        await rows.submission(status, status)
        refused = await stream.append(b"[{}]", submission={"submission_id": status, "attempt_id": "att"})
        assert (refusal(refused)[1], refused.json()["current_status"]) == ("not_owned", status)
    await rows.submission("sub")
    await rows.replace("sub", "next")
    refused = await stream.append(OWNED, submission=attempt)
    assert (refusal(refused)[1], refused.json()["attempt_id"]) == ("stale_attempt", "next")
    assert await stored(stream) == 0


@pytest.mark.parametrize("other", [{"agent": "another"}, {"instance_id": "i2"}])
async def test_the_submission_must_be_for_the_conversations_agent_and_instance(
    stream: Stream, rows: Rows, other: dict[str, str]
) -> None:
    attempt = await rows.submission("sub", **other)
    for records in (OWNED, b'[{"a":1}]'):
        assert refusal(await stream.append(records, submission=attempt))[1] == "other_identity"
    assert await stored(stream) == 0


async def test_while_it_is_settled_only_the_reserved_record_is_appended_alone_and_unchanged(
    stream: Stream, rows: Rows
) -> None:
    record = '{"id":"r","type":"submission_settled","submissionId":"sub","attemptId":"att","outcome":"completed"}'
    attempt = await rows.submission("sub", "terminalizing", of=record)
    text = record.encode()
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


async def test_a_host_appends_the_records_of_what_joined_it(stream: Stream, rows: Rows) -> None:
    host = await rows.submission("sub")
    await rows.submission("other")
    await rows.submission("child", "queued")
    await rows.submission("foreign", "joined", of="other")
    child = b'[{"submissionId":"child","attemptId":"att"},{"submissionId":"sub","attemptId":"att"}]'
    refused = await stream.append(child, submission=host)
    assert (refusal(refused)[1], refused.json()["submission_ids"]) == ("not_joined", ["child"])
    foreign = child.replace(b"child", b"foreign")
    assert refusal(await stream.append(foreign, submission=host))[1] == "not_joined"
    for status in ("joining", "joined"):
        await rows.change("child", status, "sub")
        assert (await stream.append(child, submission=host)).status_code == 200
    assert refusal(await stream.append(child.replace(b"att", b"xxx", 1), submission=host))[1] != "not_joined"


async def test_a_retry_is_not_authorized_again_but_belongs_to_its_attempt(stream: Stream, rows: Rows) -> None:
    attempt = await rows.submission("sub")
    first = await stream.append(OWNED, 0, submission=attempt)
    await rows.change("sub", "settled")
    assert (await stream.append(OWNED, 0, submission=attempt)).content == first.content
    for other in ({**attempt, "attempt_id": "other"}, {**attempt, "submission_id": "other"}, None):
        assert problem(await stream.append(OWNED, 0, submission=other)) == (409, "sequence_conflict")
    assert refusal(await stream.append(b"[{}]", 1, submission=attempt))[1] == "not_owned"


async def test_the_sequence_is_looked_at_before_the_authorization(stream: Stream, rows: Rows) -> None:
    attempt = {"submission_id": "absent", "attempt_id": "att"}
    assert problem(await stream.append(OWNED, 5, submission=attempt)) == (409, "sequence_conflict")
    assert problem(await stream.append(OWNED, 0, submission=attempt)) == (409, "append_unauthorized")


async def test_the_header_may_only_repeat_the_body(stream: Stream, rows: Rows) -> None:
    attempt = await rows.submission("sub")
    for fence, body in (("sub;other", attempt), ("other;att", attempt), ("sub;att", None)):
        refused = await stream.append(b"[{}]", 0, headers={"submission-attempt": fence}, submission=body)
        assert problem(refused) == (422, "invalid_input")
        assert refused.json()["errors"][0]["pointer"] == "Submission-Attempt"
    equal = await stream.append(OWNED, 0, headers={"submission-attempt": "sub;att"}, submission=attempt)
    assert equal.status_code == 200, equal.text


async def test_an_append_that_waits_for_a_settlement_finds_itself_without_the_submission(
    service: Service, stream: Stream, rows: Rows
) -> None:
    attempt = await rows.submission("sub")
    other = await connected(service)
    try:
        async with other.transaction():
            await Rows(other, rows.tenant_id).change("sub", "settled")
            pending = create_task(stream.append(OWNED, submission=attempt))
            await held_up(service)
        assert refusal(await pending)[1] == "not_owned"
    finally:
        await other.close()
    assert await stored(stream) == 0


async def test_a_settlement_waits_for_an_append_and_a_renewal_does_not(
    service: Service, client: httpx.AsyncClient, stream: Stream, rows: Rows
) -> None:
    attempt = await rows.submission("sub")
    other, third = await connected(service), await connected(service)
    try:
        # The conversation is held by somebody else, so the append has locked its submission and waits.
        async with other.transaction():
            await other.execute(
                "UPDATE conversation_streams SET updated_at = now() WHERE tenant_id = $1", rows.tenant_id
            )
            pending = create_task(stream.append(OWNED, submission=attempt))
            await held_up(service)
            await third.execute(
                "UPDATE submissions SET lease_expires_at = now() WHERE tenant_id = $1 AND id = 'sub'", rows.tenant_id
            )
            settling = create_task(Rows(third, rows.tenant_id).change("sub", "settled"))
            await held_up(service, 2)
            assert not settling.done()
        assert (await pending).status_code == 200
        await asyncio.wait_for(settling, 20)
    finally:
        await other.close()
        await third.close()
    assert await stored(stream) == 1


async def test_another_tenants_submission_of_the_same_name_owns_nothing(
    client: httpx.AsyncClient, other: httpx.AsyncClient, rows: Rows
) -> None:
    attempt = await rows.submission("sub")
    foreign = await created(other)
    assert refusal(await foreign.append(OWNED, submission=attempt))[1] == "submission_not_found"
