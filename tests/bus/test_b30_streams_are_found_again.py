"""B30: whatever happens to the server, the streams, the consumer or a process, delivery goes on by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from app.bus.declared import CONSUMER
from app.bus.jetstream import JetStreams
from app.bus.tolerant_work import TolerantStreams
from app.bus.work import Stream, Streams, Work
from app.embedded import Servers
from app.embedded.process import free_port
from app.errors import Unavailable
from tests.bus.working import (
    AGAIN_SECONDS,
    MIB,
    asking,
    made,
    named,
    nats_server,
    nothing_more,
    numbers,
    of,
    opened,
    taken,
    told,
    works,
)
from tests.waiting import eventually

RESUMES_SECONDS = 10.0
HOLDER = """
import asyncio, sys
from app.bus.declared import declared
from app.bus.jetstream import JetStreams
from app.bus.work import Stream
from app.settings import NatsSettings

async def hold():
    settings = NatsSettings(stream_prefix=sys.argv[2], stream_bytes_max=16 * 1024 * 1024)
    streams = JetStreams(sys.argv[1], declared(settings, float(sys.argv[3])))
    await streams.open()
    found = []
    while len(found) < 5:
        found += await streams.take(Stream.QUEUED, 5, 20)
    print("holds", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""


async def connected(streams: Streams) -> bool:
    """Whether it uses the server now."""
    try:
        return all(one.mode == "connected" and not one.missing for one in await streams.look(2))
    except Unavailable:
        return False


async def test_b30_after_a_restart_of_an_idle_server_its_messages_and_new_ones_are_taken(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        with nats_server(tmp_path, port) as server:
            first, second = (made("tolerant", server.nats_url, named("idle")) for _ in range(2))
            for streams in (first, second):
                await streams.open()
                stack.push_async_callback(streams.close)
            await first.put(Stream.QUEUED, works(5))
        with await asyncio.to_thread(nats_server, tmp_path, port):
            assert numbers(await taken(second, 5, seconds=RESUMES_SECONDS)) == list(range(5))
            await eventually(lambda: connected(first), "the streams", RESUMES_SECONDS)
            await first.put(Stream.QUEUED, works(5, 5))
            assert numbers(await taken(second, 5, seconds=RESUMES_SECONDS)) == list(range(5, 10))


async def test_b30_a_server_that_is_killed_again_and_again_while_busy_loses_nothing(tmp_path: Path) -> None:
    port, found, count = free_port(), set[int](), 3000
    settings = named("busy")

    async def putter(streams: Streams) -> None:
        dispatch = 0
        for start in range(0, count, 50):
            stored = False
            while not stored:
                dispatch += 1
                some = [Work(f"{work.id}.{dispatch}", work.body) for work in works(50, start)]
                try:
                    await streams.put(Stream.QUEUED, some)
                    stored = True
                except Unavailable:
                    # As the relay does: the rows are handed out anew.
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.01)

    async def taker(streams: Streams) -> None:
        while len(found) < count:
            for message in await streams.take(Stream.QUEUED, 20, 0.5):
                found.add(int(message.body))
                await message.done()

    async with AsyncExitStack() as stack:
        server = await asyncio.to_thread(nats_server, tmp_path, port)
        stack.callback(lambda: server.stop())  # noqa: PLW0108 - the one that is the server then
        first, second = (made("tolerant", server.nats_url, settings) for _ in range(2))
        for streams in (first, second):
            await streams.open()
            stack.push_async_callback(streams.close)
        tasks = [asyncio.create_task(taker(first)), asyncio.create_task(taker(second))]
        putting = asyncio.create_task(putter(first))
        stack.callback(lambda: [task.cancel() for task in [*tasks, putting]])
        for seen in (300, 900, 1500):
            await eventually(lambda seen=seen: _is(len(found) >= seen), f"{seen} messages")
            os.kill(server.pids()["NATS"], signal.SIGKILL)
            await asyncio.to_thread(server.stop)
            server = await asyncio.to_thread(nats_server, tmp_path, port)
        await asyncio.wait_for(asyncio.gather(putting, *tasks), 40)
        assert found == set(range(count))


async def _is(true: bool) -> bool:
    return true


def consumer_is_deleted(name: str) -> str:
    """What deletes the consumer."""
    return f"CONSUMER.DELETE.{name}.{CONSUMER}"


def stream_is_deleted(name: str) -> str:
    """What deletes the stream with all that is in it."""
    return f"STREAM.DELETE.{name}"


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("deletion", [consumer_is_deleted, stream_is_deleted])
async def test_b30_what_is_deleted_from_outside_is_made_again(
    deletion: Callable[[str], str], waiting: bool, servers: Servers
) -> None:
    settings = named()
    name = of(settings)[Stream.QUEUED].name
    async with opened("tolerant", servers.nats_url, settings) as (first, second), asking(servers.nats_url) as client:
        taking = asyncio.create_task(second.take(Stream.QUEUED, 10, RESUMES_SECONDS)) if waiting else None
        await asyncio.sleep(0)
        if deletion is consumer_is_deleted and not waiting:
            await first.put(Stream.QUEUED, works(1))
        await told(client, deletion(name))
        if taking is None and deletion is consumer_is_deleted:
            # What was stored stays.
            assert numbers(await taken(second, 1, seconds=RESUMES_SECONDS)) == [0]

        async def stored() -> bool:
            try:
                await first.put(Stream.QUEUED, [Work("new", b"7")])
            except Unavailable:
                return False
            return await connected(first) and await connected(second)

        await eventually(stored, "the streams", RESUMES_SECONDS)
        if taking is None:
            assert await _both(first, second) == {7}
        else:
            found = {int(message.body) for message in await taking}
            assert found == {7} or await _both(first, second) == {7}


async def _both(first: Streams, second: Streams) -> set[int]:
    """What either of two processes takes: it may be in the memory of the one that put it."""
    found: set[int] = set()

    async def some() -> bool:
        for streams in (first, second):
            for message in await streams.take(Stream.QUEUED, 10, 0.1):
                found.add(int(message.body))
                await message.done()
        return bool(found)

    await eventually(some, "the message", RESUMES_SECONDS)
    return found


async def test_b30_many_processes_that_start_together_declare_the_same(tmp_path: Path) -> None:
    with nats_server(tmp_path, free_port()) as server:
        settings = named("together")
        async with AsyncExitStack() as stack:
            processes = [made("jetstream", server.nats_url, settings) for _ in range(10)]
            for streams in processes:
                stack.push_async_callback(streams.close)
            await asyncio.gather(*(streams.open() for streams in processes))
            await processes[0].put(Stream.QUEUED, works(10))
            assert numbers(await taken(processes[9], 10)) == list(range(10))


async def test_b30_what_a_killed_process_had_taken_comes_to_two_that_start_after_it(servers: Servers) -> None:
    settings = named()
    async with opened("jetstream", servers.nats_url, settings) as (first, second):
        await first.put(Stream.QUEUED, works(5))
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, servers.nats_url, settings.stream_prefix, str(AGAIN_SECONDS),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert holder.stdout is not None
        assert await asyncio.wait_for(holder.stdout.readline(), 40) == b"holds\n"
        holder.kill()
        await holder.wait()
        later = [made("jetstream", servers.nats_url, settings) for _ in range(2)]
        await asyncio.gather(*(streams.open() for streams in later))
        try:
            found = await asyncio.gather(*(streams.take(Stream.QUEUED, 5, RESUMES_SECONDS) for streams in later[:1]))
            bodies = [message.body for some in found for message in some]
            bodies += await taken(second, 5 - len(bodies), seconds=RESUMES_SECONDS) if len(bodies) < 5 else []
            assert sorted(numbers(bodies)) == list(range(5))
        finally:
            for streams in later:
                await streams.close()


@pytest.mark.parametrize("old_consumer", [CONSUMER, "of-an-older-release"])
async def test_b30_a_release_with_another_subject_finds_the_stream_and_consumer_of_the_one_before(
    old_consumer: str, servers: Servers
) -> None:
    settings = named()
    declared = of(settings)[Stream.QUEUED]
    old_subject = f"{settings.stream_prefix}.webhook.before"
    old = {**(declared.consumer or {}), "name": old_consumer, "durable_name": old_consumer}
    async with asking(servers.nats_url) as client:
        await told(client, f"STREAM.CREATE.{declared.name}", {**declared.config, "subjects": [old_subject]})
        await told(
            client, f"CONSUMER.CREATE.{declared.name}.{old_consumer}.{old_subject}",
            {"stream_name": declared.name, "config": {**old, "filter_subject": old_subject}},
        )  # fmt: skip
        await client.publish(old_subject, b"0")
        # Twice two processes, as in a rollout: none of them is kept from starting.
        for first_place in (1, 3):
            streams = [made("jetstream", servers.nats_url, settings) for _ in range(2)]
            await asyncio.gather(*(each.open() for each in streams))
            await streams[0].put(Stream.QUEUED, works(2, first_place))
            expected = [0, 1, 2] if first_place == 1 else [3, 4]
            assert numbers(await taken(streams[1], len(expected), seconds=RESUMES_SECONDS)) == expected
            for each in streams:
                await each.close()
        consumers = (await told(client, f"CONSUMER.NAMES.{declared.name}"))["consumers"]
        assert consumers == [CONSUMER]
        await told(client, f"STREAM.DELETE.{declared.name}")


class Slow:
    """A client that is refused its first consumer, and before whose next request something else happens."""

    def __init__(self, client: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._client, self._meanwhile, self._refused = client, meanwhile, False

    async def request(self, subject: str, body: bytes, timeout: float) -> Any:  # noqa: ASYNC109 - the library's own
        answer = await self._client.request(subject, body, timeout=timeout)
        if not self._refused and "CONSUMER.CREATE" in subject:
            assert b'"error"' in answer.data
            self._refused = True
            await self._meanwhile()
        return answer


async def test_b30_a_slow_start_keeps_the_consumer_that_another_process_made_meanwhile(servers: Servers) -> None:
    settings = named()
    declared = of(settings)[Stream.QUEUED]
    async with asking(servers.nats_url) as client:
        await told(client, f"STREAM.CREATE.{declared.name}", declared.config)
        old = {**(declared.consumer or {}), "name": "before", "durable_name": "before"}
        await told(
            client, f"CONSUMER.CREATE.{declared.name}.before", {"stream_name": declared.name, "config": old}
        )  # fmt: skip
        made_at: list[str] = []

        async def another() -> None:
            await declared.bring_about(client)
            made_at.append((await told(client, f"CONSUMER.INFO.{declared.name}.{CONSUMER}"))["created"])

        await declared.bring_about(Slow(client, another))
        assert made_at == [(await told(client, f"CONSUMER.INFO.{declared.name}.{CONSUMER}"))["created"]]
        await told(client, f"STREAM.DELETE.{declared.name}")


async def test_b30_a_release_with_other_limits_changes_them_and_keeps_what_is_stored(servers: Servers) -> None:
    settings = named()
    async with opened("jetstream", servers.nats_url, settings) as (first, _):
        await first.put(Stream.QUEUED, works(3))
        other = named(settings.stream_prefix, stream_bytes_max=8 * MIB, stream_age_seconds=600, duplicate_seconds=60)
        later = made("jetstream", servers.nats_url, other, again_seconds=2)
        (before, _) = await _look(JetStreams(servers.nats_url, of(other, 2)))
        assert sorted(before.faults) == [
            "ack_wait of the consumer is not as it is declared",
            *(f"{name} is not as it is declared" for name in ("duplicate_window", "max_age", "max_bytes")),
        ]
        await later.open()
        try:
            queued, dead = await later.look(5)
            assert (queued.bytes_max, queued.age_seconds_max, list(queued.faults)) == (8 * MIB, 600, [])
            assert (dead.bytes_max, list(dead.faults)) == (8 * MIB, [])
            assert numbers(await taken(later, 3)) == [0, 1, 2]
        finally:
            await later.close()


async def _look(streams: JetStreams):  # type: ignore[no-untyped-def]
    await streams.connect()
    try:
        return await streams.look(5)
    finally:
        await streams.close()


async def test_b30_a_stream_that_cannot_be_as_declared_is_told_and_work_goes_on(servers: Servers) -> None:
    settings = named()
    declared = of(settings)[Stream.QUEUED]
    async with asking(servers.nats_url) as client:
        await told(client, f"STREAM.CREATE.{declared.name}", {**declared.config, "retention": "limits"})
        streams = made("tolerant", servers.nats_url, settings)
        assert isinstance(streams, TolerantStreams)
        await streams.open()
        try:
            with pytest.raises(
                Unavailable, match=f"NATS refuses the stream {declared.name} as it is declared: .*retention"
            ):
                await streams.check(2)
            await streams.put(Stream.QUEUED, works(2))
            assert numbers(await taken(streams, 2)) == [0, 1]
            await told(client, f"STREAM.DELETE.{declared.name}")
            await eventually(lambda: connected(streams), "the streams", RESUMES_SECONDS)
        finally:
            await streams.close()
        await told(client, f"STREAM.DELETE.{declared.name}")


@pytest.mark.parametrize(
    ("wrong", "told_so"),
    [({"stream_replicas": 3}, "replicas > 1"), ({"stream_bytes_max": 1 << 40}, "lower CAIRN_NATS__STREAM_BYTES_MAX")],
)
async def test_b30_settings_that_the_server_cannot_follow_are_told(
    wrong: dict[str, int], told_so: str, servers: Servers
) -> None:
    streams = made("jetstream", servers.nats_url, named(**wrong))
    with pytest.raises(Unavailable, match=told_so):
        await streams.open()
    await streams.close()


async def test_b31_what_is_never_done_comes_for_ever_and_leaves_when_it_is_done(servers: Servers) -> None:
    async with opened("jetstream", servers.nats_url, again_seconds=0.2) as (first, second):
        await first.put(Stream.QUEUED, works(1))
        for _ in range(8):
            assert numbers(await taken(second, 1, done=False)) == [0]
        assert numbers(await taken(first, 1)) == [0]

        async def it_is_gone() -> bool:
            queued, _ = await first.look(5)
            return queued.messages == 0

        await eventually(it_is_gone, "the end of the message")
        assert await nothing_more(second)


async def test_b31_what_a_slow_process_holds_stalls_nobody(servers: Servers) -> None:
    async with opened("jetstream", servers.nats_url, again_seconds=60) as (slow, other):
        await slow.put(Stream.QUEUED, works(3000))
        held = await taken(slow, 2000, done=False)
        assert sorted(numbers(held + await taken(other, 1000))) == list(range(3000))
        await slow.put(Stream.QUEUED, works(1, 3000))
        assert numbers(await taken(other, 1, seconds=2)) == [3000]


async def test_a_full_stream_refuses_what_is_new_drops_nothing_and_goes_on_when_there_is_room(servers: Servers) -> None:
    async with opened("jetstream", servers.nats_url, named(stream_bytes_max=MIB)) as (first, second):
        large = b"x" * 100_000
        stored = 0

        async def fill() -> None:
            nonlocal stored
            while stored < 20:
                await first.put(Stream.QUEUED, [Work(f"large{stored}", b"%d %s" % (stored, large))])
                stored += 1

        with pytest.raises(Unavailable, match="is full"):
            await fill()
        assert 5 < stored < 20
        for place in range(stored):
            (body,) = await taken(second, 1)
            assert body.startswith(b"%d " % place)

        async def there_is_room() -> bool:
            try:
                await first.put(Stream.QUEUED, [Work("after", b"after")])
            except Unavailable:
                return False
            return True

        await eventually(there_is_room, "room in the stream")
        assert await taken(second, 1) == [b"after"]
