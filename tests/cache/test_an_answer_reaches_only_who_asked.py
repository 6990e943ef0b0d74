"""A command whose caller is cancelled, or gives up, never leaves its answer for the next one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from app.cache.cache import Key, Script
from app.cache.redis import RedisCache
from app.embedded import Servers
from app.embedded.process import free_port
from app.errors import Unavailable
from tests.cache.caching import KEY, cache, own_redis

LONG = 600.0
KEYS = [Key("thing", "acme", str(number)) for number in range(50)]
# The clock of the processor: the server's own time stands still within a program.
SLOW = Script("slow", "local ends = os.clock() + ARGV[1] repeat until os.clock() >= ends return 'slow'")


@pytest.mark.parametrize("kind", ["redis", "tolerant"])
async def test_thousands_of_cancelled_reads_leave_nothing_behind(kind: str, servers: Servers) -> None:
    chance = random.Random(28)
    async with cache(kind, servers.redis_url) as kept:
        for key in KEYS:
            await kept.put(key, key.name.encode(), LONG)
        wrong = 0

        async def reader(key: Key) -> None:
            nonlocal wrong
            wrong += await kept.get(key) != key.name.encode()

        cancelled = 0
        for _ in range(200):
            tasks = [asyncio.create_task(reader(chance.choice(KEYS))) for _ in range(30)]
            # Cancelled before they are sent, while they are under way, and when the answer is there.
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            for task in chance.sample(tasks, 15):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled += sum(isinstance(how, asyncio.CancelledError) for how in ended)
            assert [how for how in ended if isinstance(how, Exception)] == []
        assert wrong == 0
        assert cancelled > 1000
        await asyncio.gather(*(reader(key) for key in KEYS))
        assert wrong == 0


async def test_who_gives_up_on_a_slow_answer_does_not_pass_it_on(servers: Servers) -> None:
    async with cache("redis", servers.redis_url, wait_seconds=0.05) as kept:
        await kept.put(KEY, b"right", LONG)
        for _ in range(20):
            # It takes longer than its caller waits, and less than what breaks the connection.
            with pytest.raises(Unavailable, match="in time"):
                await kept.run(SLOW, [], [0.08])
            with suppress(Unavailable):
                assert await kept.get(KEY) == b"right"


@asynccontextmanager
async def cutting_off(url: str, after_bytes: int) -> AsyncIterator[str]:
    """A way to Redis that stops in the middle of an answer: it passes on so many bytes and then hangs."""
    host, _, port = url.rpartition("@")[2].partition("/")[0].partition(":")
    writers: list[asyncio.StreamWriter] = []

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(host, int(port))
        writers.extend((writer, to))

        async def asking() -> None:
            while data := await reader.read(65536):
                to.write(data)

        async def answering(left: int) -> None:
            while data := await there.read(65536):
                writer.write(data[:left])
                left = max(0, left - len(data))

        with suppress(OSError):
            await asyncio.gather(asking(), answering(after_bytes))

    server = await asyncio.start_server(between, "127.0.0.1", 0)
    own = server.sockets[0].getsockname()[1]
    try:
        yield url.replace(f"{host}:{port}", f"127.0.0.1:{own}")
    finally:
        server.close()
        for writer in writers:
            writer.close()


async def test_an_answer_that_stops_half_way_is_no_answer(servers: Servers) -> None:
    value = b"0123456789" * 1000
    async with cache("redis", servers.redis_url, "half") as whole:
        await whole.put(KEY, value, LONG)
    async with cutting_off(servers.redis_url, 5000) as url:
        line = RedisCache(url, "half", wait_seconds=0.05)
        await line.open()
        try:
            with pytest.raises(Unavailable):
                await line.get(KEY)
            async with asyncio.timeout(5):
                await line.broken.wait()
            with pytest.raises(Unavailable):
                await line.get(KEY)
        finally:
            await line.close()


async def test_a_connection_that_dies_under_many_fails_each_of_them_once(tmp_path: Path) -> None:
    with await asyncio.to_thread(own_redis, tmp_path, free_port()) as server:
        line = RedisCache(server.redis_url, wait_seconds=30)
        await line.open()
        for pid in server.pids().values():
            os.kill(pid, signal.SIGSTOP)
        waiting = [asyncio.create_task(line.get(KEY)) for _ in range(500)]
        await asyncio.sleep(0)
        for pid in server.pids().values():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(how) for how in ended} == {Unavailable}
        await line.close()
