"""One suite for every implementation of hints: what is told is heard, here at once and there soon, and only that."""

from __future__ import annotations

import asyncio

import pytest

from app.bus.hints import Key
from app.bus.nats import WAITING_MAX, NatsHints
from app.embedded import Servers
from app.errors import Unavailable
from tests.bus.listening import Heard, pair

KINDS = ("embedded", "nats", "tolerant")
LAST = Key("work", "acme", "last")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_told_is_heard_in_the_own_process_at_once(kind: str, servers: Servers) -> None:
    async with pair(kind, servers.nats_url) as (first, here, _, _):
        first.publish(LAST)
        assert here.keys == [LAST]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_told_is_heard_in_the_other_process_and_once(kind: str, servers: Servers) -> None:
    told = [Key("stream", "acme", str(number)) for number in range(100)]
    async with pair(kind, servers.nats_url) as (first, _, second, there):
        first.publish(*told)
        second.publish(LAST)
        await there.until(told[-1])
        assert [key for key in there.keys if key != LAST] == told
        # Nothing comes back to who told it.
        first.publish(LAST)
        await there.until(LAST)
        assert there.keys.count(told[0]) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", "a.b", "*", ">", "-", "a b\tc\n", "%2E", "ä/#?", "x" * 255, "語" * 85])
async def test_any_name_arrives_as_it_was_told(kind: str, name: str, servers: Servers) -> None:
    async with pair(kind, servers.nats_url) as (first, _, _, there):
        first.publish(Key("work", "t_1-a", name), LAST)
        await there.until(LAST)
        assert there.keys == [Key("work", "t_1-a", name), LAST]


@pytest.mark.parametrize("kind", KINDS)
async def test_they_end_quickly_and_may_end_twice(kind: str, servers: Servers) -> None:
    async with pair(kind, servers.nats_url) as (first, _, _, there):
        first.publish(LAST)
        async with asyncio.timeout(2):
            await first.close()
            await first.close()
        # What was told before the end still goes out.
        await there.until(LAST)


async def test_what_waits_to_be_sent_is_bounded_and_each_key_waits_once(servers: Servers) -> None:
    dropped: list[int] = []
    hints = NatsHints(servers.nats_url, "bounded", dropped.append)
    heard = Heard()
    hints.listen(heard)
    await hints.open()
    try:
        # Nothing is sent in between: publishing never gives the loop away.
        for _ in range(2):
            hints.publish(*(Key("stream", "acme", str(number)) for number in range(WAITING_MAX)))
        assert sum(dropped) == 0
        hints.publish(LAST, Key("stream", "acme", "0"))
        assert sum(dropped) == 1
        assert len(heard.keys) == 2 * WAITING_MAX + 2
    finally:
        await hints.close()


async def test_a_line_without_a_server_says_so_at_once() -> None:
    hints = NatsHints("nats://127.0.0.1:1")
    async with asyncio.timeout(1):
        with pytest.raises(Unavailable, match="NATS does not answer"):
            await hints.open()
