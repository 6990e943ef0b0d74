"""One suite for every implementation of streams: what is put in is taken once, in order, and again until it is done."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from app.bus.work import MESSAGE_BYTES_MAX, Stream, Work, WorkTooLarge
from app.embedded import Servers
from tests.bus.working import AGAIN_SECONDS, KINDS, nothing_more, numbers, opened, taken, taken_messages, works
from tests.waiting import eventually


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_put_in_is_taken_in_its_order_by_any_process_and_once(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, works(1200))
        assert numbers(await taken(second, 1200)) == list(range(1200))
        assert await nothing_more(first)
        assert await nothing_more(second)


@pytest.mark.parametrize("kind", KINDS)
async def test_who_waits_gets_it_at_once_and_never_more_than_was_asked_for(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        waiting = asyncio.create_task(second.take(Stream.QUEUED, 2, 20))
        await asyncio.sleep(0)
        started = time.monotonic()
        await first.put(Stream.QUEUED, works(5))
        found = list(await waiting)
        assert time.monotonic() - started < 2
        while len(found) < 5:
            assert len(found) <= 5
            some = await second.take(Stream.QUEUED, 2, 20)
            assert 1 <= len(some) <= 2
            found.extend(some)
        assert numbers([one.body for one in found]) == list(range(5))


@pytest.mark.parametrize("kind", KINDS)
async def test_where_nothing_comes_nothing_is_taken_within_the_time(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, _):
        for seconds in (0, 0.3):
            started = time.monotonic()
            assert list(await first.take(Stream.QUEUED, 10, seconds)) == []
            assert seconds <= time.monotonic() - started + 0.01 < seconds + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_many_takers_share_what_comes(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        found: list[int] = []

        async def taker(streams: object) -> None:
            while len(found) < 600:
                for message in await (first if streams is first else second).take(Stream.QUEUED, 7, 0.2):
                    found.append(int(message.body))
                    await message.done()

        takers = [asyncio.create_task(taker(streams)) for streams in (first, second) * 3]
        for start in range(0, 600, 100):
            await first.put(Stream.QUEUED, works(100, start))
        await asyncio.wait_for(asyncio.gather(*takers), 20)
        assert sorted(found) == list(range(600))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_second_one_of_an_id_is_stored_once(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, [Work("same", b"0"), Work("same", b"0")])
        await second.put(Stream.QUEUED, [Work("same", b"0"), Work("other", b"1")])
        assert numbers(await taken(first, 2)) == [0, 1]
        assert await nothing_more(first)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_done_comes_again_and_what_is_done_does_not(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, works(4))
        messages = await taken_messages(first, 4)
        await messages[1].done()
        await messages[1].done()
        await messages[3].done()
        started = time.monotonic()
        assert sorted(numbers(await taken(second, 2))) == [0, 2]
        assert AGAIN_SECONDS / 2 < time.monotonic() - started < AGAIN_SECONDS + 5
        assert await nothing_more(first)


@pytest.mark.parametrize("kind", KINDS)
async def test_who_stops_waiting_has_lost_nothing(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        for round_ in range(20):
            waiting = asyncio.create_task(second.take(Stream.QUEUED, 5, 20))
            for _ in range(round_ % 5):
                await asyncio.sleep(0)
            putting = asyncio.create_task(first.put(Stream.QUEUED, works(1, round_)))
            for _ in range(round_):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            await putting
            if not waiting.cancelled():
                # It had ended before: what it took is not done, and comes again.
                assert numbers([one.body for one in waiting.result()]) == [round_]
            assert numbers(await taken(second, 1)) == [round_]


@pytest.mark.parametrize("kind", KINDS)
async def test_any_body_and_any_id_arrive_as_they_were_put_in(kind: str, servers: Servers) -> None:
    bodies = [b"", b"\r\n\0", b"PUB x 1\r\n", "ä語".encode(), b"x" * 900_000]
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, [Work(f"{place}.{'y' * 200}", body) for place, body in enumerate(bodies)])
        assert await taken(second, len(bodies)) == bodies


@pytest.mark.parametrize("kind", KINDS)
async def test_b29_what_is_too_large_is_refused_before_it_is_sent_and_hurts_nobody(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        most = first.bytes_max(Stream.QUEUED)
        assert most == MESSAGE_BYTES_MAX
        around = Work("large", b"").size_bytes
        largest = Work("large", b"x" * (most - around))
        assert largest.size_bytes == most
        beside = [asyncio.create_task(first.put(Stream.QUEUED, works(1, place))) for place in range(20)]
        for size in (most - around + 1, most, 5 * most):
            with pytest.raises(WorkTooLarge, match="larger has"):
                await first.put(Stream.QUEUED, [Work("small", b"99"), Work("larger", b"x" * size)])
        await asyncio.gather(*beside)
        await first.put(Stream.QUEUED, [largest])
        found = await taken(second, 21)
        # Of a call that was refused nothing was stored.
        assert numbers(found[:20]) == list(range(20))
        assert found[20] == largest.body
        assert await nothing_more(second)


@pytest.mark.parametrize("kind", KINDS)
async def test_dead_letters_are_put_in_for_others_and_nobody_takes_them_here(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.DEAD_LETTER, works(3))
        assert list(await second.take(Stream.DEAD_LETTER, 10, 0.1)) == []
        assert await nothing_more(second)


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_shown_what_waits_and_what_is_out(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, works(5))
        messages = await taken_messages(second, 2)

        async def shown() -> tuple[int, int, int]:
            (queued,) = [one for one in await first.look(5) if one.stream == Stream.QUEUED]
            assert queued.consumer is not None
            assert (queued.missing, queued.stalled, list(queued.faults)) == (False, False, [])
            assert queued.mode == ("embedded" if kind == "embedded" else "connected")
            return queued.messages, queued.consumer.pending, queued.consumer.ack_pending

        assert await shown() == (5, 3, 2)
        for message in messages:
            await message.done()

        async def they_are_done() -> bool:
            return await shown() == (3, 3, 0)

        await eventually(they_are_done, "that two are done")


@pytest.mark.parametrize("kind", KINDS)
async def test_they_end_quickly_and_may_end_twice(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, second):
        await first.put(Stream.QUEUED, works(3))
        waiting = asyncio.create_task(second.take(Stream.QUEUED, 1, 20))
        await waiting
        async with asyncio.timeout(2):
            await second.close()
            await second.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_messages_of_a_tenant_are_erased_whether_they_wait_or_are_out(kind: str, servers: Servers) -> None:
    async with opened(kind, servers.nats_url) as (first, _):
        said = [{"tenant_id": name, "n": n, "of": "acme"} for n in range(3) for name in ("acme", "acme-2")]
        await first.put(Stream.QUEUED, [Work(f"w{n}", json.dumps(one).encode()) for n, one in enumerate(said)])
        out = await taken_messages(first, 2)
        assert [json.loads(one.body)["tenant_id"] for one in out] == ["acme", "acme-2"]
        assert await first.erase("acme") == 3
        left = [json.loads(body)["tenant_id"] for body in await taken(first, 2)]
        assert left == ["acme-2"] * 2
        assert await first.erase("acme") == 0
