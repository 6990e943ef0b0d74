"""NATS away at the start, dying, hanging and coming back: nothing fails, readers look by themselves, it is seen."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from app.bus.hints import Key
from app.bus.nats import NatsHints
from app.bus.tolerant import TolerantHints
from app.embedded.process import free_port
from tests.bus.listening import Heard
from tests.bus.working import nats_server as nats
from tests.conftest import http, running, settings_for
from tests.waiting import eventually

KEY = Key("stream", "acme", "1")


class Process:
    """Tolerant hints, with what they hear and say of themselves."""

    def __init__(self, url: str) -> None:
        self.heard = Heard()
        self.away: list[bool] = []
        self.dropped = 0
        self.hints = TolerantHints(lambda: NatsHints(url, "cairn", self._drop), self.away.append, self._drop)
        self.hints.listen(self.heard)

    def _drop(self, count: int) -> None:
        self.dropped += count

    async def is_away(self) -> bool:
        """Whether it says so now."""
        return self.away[-1:] == [True]

    async def is_back(self) -> bool:
        """Whether it says so now."""
        return self.away[-1:] == [False]


async def test_it_starts_without_nats_and_finds_it_when_it_comes_dies_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    with nats(tmp_path, port) as server:
        url = server.nats_url
    first, second = Process(url), Process(url)
    try:
        for process in (first, second):
            await process.hints.open()
            assert process.away == [True]
        first.hints.publish(KEY)
        assert (first.heard.keys, first.dropped) == ([KEY], 1)
        for round_ in range(2):
            with await asyncio.to_thread(nats, tmp_path, port):
                for process in (first, second):
                    await eventually(process.is_back, "NATS")
                    # There was a gap: everybody looks at everything, once for each gap.
                    await process.heard.until(None)
                    assert process.heard.keys.count(None) == round_ + 1
                second.heard.keys = [key for key in second.heard.keys if key is None]
                first.hints.publish(KEY)
                await second.heard.until(KEY)
            for process in (first, second):
                await eventually(process.is_away, "the end of NATS")
                process.hints.publish(KEY)
    finally:
        await first.hints.close()
        await second.hints.close()


async def test_a_hanging_nats_holds_nobody_up_and_is_seen(tmp_path: Path) -> None:
    port = free_port()
    with await asyncio.to_thread(nats, tmp_path, port) as server:
        process = Process(server.nats_url)
        await process.hints.open()
        pids = list(server.pids().values())
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            started = time.monotonic()
            for number in range(50_000):
                process.hints.publish(Key("stream", "acme", str(number)))
            assert time.monotonic() - started < 2
            assert len(process.heard.keys) == 50_000
            await eventually(process.is_away, "that it hangs")
            assert process.dropped
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await eventually(process.is_back, "NATS")
        started = time.monotonic()
        await process.hints.close()
        assert time.monotonic() - started < 2


async def test_the_service_serves_without_nats_and_says_that_it_is_degraded(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    port = free_port()
    with nats(tmp_path, port) as server:
        url = server.nats_url
    async with running(settings_for(await clone(), nats={"url": url})) as service, http(service) as client:

        async def state() -> str:
            told = (await client.get("/readyz")).json()
            assert told["status"] == ("ready" if told["components"]["nats"]["status"] == "up" else "degraded")
            return str(told["components"]["nats"]["mode"])

        async def is_connected() -> bool:
            return await state() == "connected"

        async def is_degraded() -> bool:
            return await state() == "degraded"

        assert await is_degraded()
        assert 'cairn_degraded{part="hints"} 1.0' in (await client.get("/metrics")).text
        with await asyncio.to_thread(nats, tmp_path, port):
            await eventually(is_connected, "NATS")
            assert 'cairn_degraded{part="hints"} 0.0' in (await client.get("/metrics")).text
        await eventually(is_degraded, "the end of NATS")
