"""A conversation that is followed and an attachment that is loaded go on behind what came before a connection broke."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from app.client import (
    AsyncCairn,
    AttachmentIntegrityError,
    Cairn,
    ConflictError,
    StreamReplacedError,
    UnavailableError,
    UnreachableError,
)
from tests.client.conftest import QUICK, ScriptedServer

EVENT_STREAM = {"Content-Type": "text/event-stream"}
BYTES = bytes(range(256)) * 4096
REFERENCE = {"path": "p", "id": "a", "size": len(BYTES), "digest": hashlib.sha256(BYTES).hexdigest()}


def event(number: int) -> bytes:
    return b'id: 0_%d@inc\ndata: {"offset":"0_%d","records":[1.0, %d]}\n\n' % (number, number, number)


async def test_a_followed_conversation_resumes_behind_the_last_batch(server: ScriptedServer) -> None:
    server.answers.append((200, EVENT_STREAM, event(0) + b": still here\n\n" + event(1) + event(2)[:-5]))
    server.will_hang_up()
    server.will_refuse(503, "database_unavailable")
    server.answers.append((200, EVENT_STREAM, event(2)))
    server.answers.append((200, EVENT_STREAM, b'event: problem\ndata: {"status":410,"code":"stream_replaced"}\n\n'))
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        followed = cairn.conversations.follow("a/b", offset="-1")
        batches = [await anext(followed) for _ in range(3)]
        with pytest.raises(StreamReplacedError):
            await anext(followed)
    found = [(batch.offset, batch.records.text) for batch in batches]
    assert found == [("0_0", "[1.0, 0]"), ("0_1", "[1.0, 1]"), ("0_2", "[1.0, 2]")]
    assert server.asked[0].target == "/v1/conversations/events?path=a%2Fb&offset=-1"
    assert {asked.target for asked in server.asked[1:]} == {"/v1/conversations/events?path=a%2Fb"}
    ids = [asked.headers.get("last-event-id") for asked in server.asked]
    assert ids == [None, "0_1@inc", "0_1@inc", "0_1@inc", "0_2@inc"]


async def test_a_stream_that_always_breaks_is_given_up(server: ScriptedServer) -> None:
    for _ in range(4):
        server.will_refuse(503, "database_unavailable")
    async with AsyncCairn(server.url, retry=QUICK) as cairn, aclosing(cairn.conversations.follow("a")) as batches:
        with pytest.raises(UnavailableError):
            await anext(batches)
    assert len(server.asked) == 4


async def test_a_stream_that_begins_and_gives_nothing_is_given_up_too(server: ScriptedServer) -> None:
    for _ in range(4):
        server.answers.append((200, {**EVENT_STREAM, "X-Cut": "0"}, event(0)))
    async with AsyncCairn(server.url, retry=QUICK) as cairn, aclosing(cairn.conversations.follow("a")) as batches:
        with pytest.raises(UnreachableError):
            await asyncio.wait_for(anext(batches), 20)
    assert len(server.asked) == 4


async def test_a_polled_conversation_asks_from_where_the_last_page_ended(server: ScriptedServer) -> None:
    pages = [("-1", "0_1", [{"offset": "0_0", "records": [0]}, {"offset": "0_1", "records": [1]}]), ("0_1", "0_1", [])]
    for _, next_offset, batches in [*pages, *pages]:
        server.will_answer(200, {"batches": batches, "next_offset": next_offset, "up_to_date": True})
    with Cairn(server.url) as cairn:
        polled = cairn.conversations.poll("a")
        assert [next(polled).offset for _ in range(3)] == ["0_0", "0_1", "0_0"]
    asked = [f"/v1/conversations/read?path=a&offset={offset}&live=long-poll" for offset in ("-1", "0_1", "0_1")]
    assert [one.target for one in server.asked] == asked


async def test_who_starts_from_now_on_starts_there_however_often_it_asks(server: ScriptedServer) -> None:
    here = {"batches": [], "next_offset": "0_4", "up_to_date": True}
    there = {"batches": [{"offset": "0_5", "records": [5]}], "next_offset": "0_5", "up_to_date": True}
    for answer in ((200, EVENT_STREAM, event(5)), (200, {}, json.dumps(there).encode())):
        server.will_answer(200, here)
        server.will_hang_up()
        server.answers.append(answer)
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        for come in (cairn.conversations.follow("a", offset="now"), cairn.conversations.poll("a", offset="now")):
            async with aclosing(come) as batches:
                assert (await anext(batches)).offset == "0_5"
    server.will_answer(200, here)
    server.will_hang_up()
    server.will_answer(200, there)
    with Cairn(server.url, retry=QUICK) as other:
        assert next(other.conversations.poll("a", offset="now")).offset == "0_5"
    asked = [one.target.partition("&")[2] for one in server.asked]
    polled = ["offset=now", "offset=0_4&live=long-poll", "offset=0_4&live=long-poll"]
    assert asked == ["offset=now", "offset=0_4", "offset=0_4", *polled, *polled]


async def chunks(*, until: int | None = None) -> AsyncIterator[bytes]:
    for at in range(0, until or len(BYTES), 100_000):
        yield BYTES[at : at + 100_000]


async def test_a_file_is_sent_again_from_where_it_stood_and_an_iterator_is_not(server: ScriptedServer) -> None:
    server.will_hang_up()
    server.will_answer(201, REFERENCE)
    server.will_hang_up()
    server.will_answer(201, REFERENCE)
    server.will_refuse(503, "database_unavailable")
    file = io.BytesIO(b"skipped" + BYTES)
    file.seek(7)
    with Cairn(server.url, retry=QUICK) as cairn:
        assert cairn.attachments.upload("p", "a", file, conversation_id="c", mime_type="x/y").size == len(BYTES)
    async with AsyncCairn(server.url, retry=QUICK) as other:
        file.seek(7)
        await other.attachments.upload("p", "a", file, conversation_id="c", mime_type="x/y")
        with pytest.raises(UnavailableError):
            await other.attachments.upload(
                "p", "a", chunks(), size=len(BYTES), digest="0" * 64, conversation_id="c", mime_type="x/y"
            )
        with pytest.raises(ValueError, match="size and digest"):
            await other.attachments.upload("p", "a", chunks(), conversation_id="c", mime_type="x/y")
    assert [asked.body == BYTES for asked in server.asked] == [True] * 5
    assert {asked.headers["content-type"] for asked in server.asked} == {"application/octet-stream"}
    assert not any("idempotency-key" in asked.headers for asked in server.asked)


async def test_a_download_goes_on_behind_the_bytes_that_came(server: ScriptedServer) -> None:
    for _ in range(2):
        server.answers.append((200, {"X-Cut": "1000"}, BYTES))
        server.will_refuse(503, "database_unavailable")
        server.answers.append((206, {}, BYTES[1000:]))
    server.will_refuse(409, "attachment_conflict")
    with Cairn(server.url, retry=QUICK) as cairn:
        assert b"".join(cairn.attachments.download("p", "a", "c")) == BYTES
    async with AsyncCairn(server.url, retry=QUICK) as other:
        found = b"".join([piece async for piece in other.attachments.download("p", "a", "c")])
        assert found == BYTES
        with pytest.raises(ConflictError):
            await anext(other.attachments.download("p", "a", "c", start=5, end=9))
    ranges = [asked.headers.get("range") for asked in server.asked]
    assert ranges == [None, "bytes=1000-", "bytes=1000-"] * 2 + ["bytes=5-8"]


async def test_a_download_is_of_the_same_bytes_from_start_to_end(server: ScriptedServer) -> None:
    cut = (200, {"X-Cut": "1000", "ETag": '"one"'}, BYTES)
    others = ((200, {"ETag": '"two"'}, BYTES), (206, {"ETag": '"two"'}, BYTES[1000:]))
    for other in (*others, *others):
        server.answers.extend((cut, other))
    with Cairn(server.url, retry=QUICK) as cairn:
        for _ in others:
            with pytest.raises(AttachmentIntegrityError):
                list(cairn.attachments.download("p", "a", "c"))
        # Who ignores the range sends other bytes than were asked for.
        server.answers.appendleft((200, {}, BYTES))
        with pytest.raises(AttachmentIntegrityError):
            list(cairn.attachments.download("p", "a", "c", start=5))
        assert list(cairn.attachments.download("p", "a", "c", start=5, end=5)) == []
        for start, end in ((-1, None), (5, 4)):
            with pytest.raises(ValueError, match="start"):
                next(cairn.attachments.download("p", "a", "c", start=start, end=end))
    async with AsyncCairn(server.url, retry=QUICK) as other_client:
        for _ in others:
            with pytest.raises(AttachmentIntegrityError):
                [piece async for piece in other_client.attachments.download("p", "a", "c")]
        assert [piece async for piece in other_client.attachments.download("p", "a", "c", end=0)] == []
    conditions = {asked.headers.get("if-range") for asked in server.asked if "range" in asked.headers}
    assert conditions == {'"one"', None}
    assert {asked.headers["accept-encoding"] for asked in server.asked} == {"identity"}


def test_raw_bytes_do_not_go_into_a_batch() -> None:
    with Cairn() as cairn, pytest.raises(ValueError, match="batch"):
        cairn.batch().attachments.put("p", "a", b"", conversation_id="c", mime_type="x/y")
