"""The client's calls about conversations against the running service."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import islice

import pytest

from app.client import AsyncCairn, Cairn, ConflictError, Json, NotFoundError, StaleProducerError, StreamReplacedError
from app.client.conversation_models import ProducerClaim
from tests.e2e.conftest import Served

HARD = "agents/ü ?#[/1"
RECORDS = Json(r'[{"v":1, "id": "r1", "type":"t", "n": 1e400, "text": "cut \ud83d \u0000  "}]')


def append(cairn: Cairn, claim: ProducerClaim, sequence: int, records: object = RECORDS) -> str:
    return cairn.conversations.append(
        HARD, records, producer_id=claim.producer_id, producer_epoch=claim.producer_epoch,
        incarnation=claim.incarnation, producer_sequence=sequence,
    )  # fmt: skip


def start(cairn: Cairn) -> ProducerClaim:
    cairn.conversations.create(HARD, agent_name="echo", instance_id="ü/1")
    return cairn.conversations.acquire(HARD, "p1")


def test_a_conversation_is_written_and_read(cairn: Cairn) -> None:
    claim = start(cairn)
    assert (claim.next_producer_sequence, claim.offset) == (0, "-1")
    first = append(cairn, claim, 0)
    assert first == append(cairn, claim, 0) == "0000000000000000_0000000000000000"
    second = append(cairn, claim, 1, [{"id": "r2"}])
    page = cairn.conversations.read(HARD)
    assert (page.batches[0].offset, page.batches[0].records) == (first, RECORDS)
    assert (page.next_offset, page.up_to_date, len(page.batches)) == (second, True, 2)
    assert [one.offset for one in cairn.conversations.read(HARD, before="now", limit=1).batches] == [second]
    assert cairn.conversations.read(HARD, offset="now").batches == []
    with pytest.raises(ConflictError):
        append(cairn, claim, 1)
    assert cairn.conversations.acquire(HARD, "p1").producer_epoch == claim.producer_epoch + 1
    with pytest.raises(StaleProducerError):
        append(cairn, claim, 2)
    meta = cairn.conversations.meta(HARD)
    assert (meta.path, meta.identity.agent_name, meta.identity.instance_id) == (HARD, "echo", "ü/1")
    assert [one.path for one in cairn.conversations.list(agent_name="echo")] == [HARD]
    kept = cairn.conversations.put_checkpoint(
        HARD, offset=second, incarnation=claim.incarnation, format_version=1, data=RECORDS
    )
    assert kept.offset == second
    assert cairn.conversations.checkpoint(HARD).data == RECORDS
    with pytest.raises(NotFoundError):
        cairn.conversations.checkpoint(HARD, at_or_before=first)
    cairn.conversations.delete(HARD)
    with pytest.raises(NotFoundError):
        cairn.conversations.meta(HARD)


async def test_a_conversation_is_followed_as_it_grows(served: Served, cairn: Cairn) -> None:
    async with AsyncCairn(served.url, key=served.key) as other:
        followed, polled = other.conversations.follow(HARD), other.conversations.poll(HARD)
        waiting = [asyncio.ensure_future(anext(followed)), asyncio.ensure_future(anext(polled))]
        claim = await asyncio.to_thread(start, cairn)
        offsets = [await asyncio.to_thread(append, cairn, claim, sequence) for sequence in range(3)]
        for first in await asyncio.gather(*waiting):
            assert (first.offset, first.records) == (offsets[0], RECORDS)
        assert [(await anext(followed)).offset for _ in range(2)] == offsets[1:]
        assert [(await anext(polled)).offset for _ in range(2)] == offsets[1:]
        async with aclosing(other.conversations.follow(HARD, offset=offsets[1])) as behind:
            assert (await anext(behind)).offset == offsets[2]
        await other.conversations.delete(HARD)
        await asyncio.to_thread(start, cairn)
        with pytest.raises(StreamReplacedError):
            await anext(followed)
    await asyncio.to_thread(append, cairn, cairn.conversations.acquire(HARD, "p2"), 0)
    assert [batch.offset for batch in islice(cairn.conversations.poll(HARD), 1)] == [offsets[0]]
