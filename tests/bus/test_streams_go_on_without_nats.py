"""NATS away at the start, dying, hanging, without JetStream, and coming back: work goes on, and it is shown."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.bus import observed
from app.bus.jetstream import PROBE_SECONDS, PUT_SECONDS, SILENCE_SECONDS
from app.bus.tolerant_work import TolerantStreams
from app.bus.work import EmbeddedStreams, Stream, Work
from app.commands.root import app
from app.embedded import Servers
from app.embedded.binaries import find_nats
from app.embedded.process import HOST, Process, Step, free_port, port_is_free
from app.errors import Unavailable
from app.settings import NatsSettings
from tests.bus.working import (
    AGAIN_SECONDS,
    JetStreams,
    forget,
    made,
    named,
    nats_server,
    nothing_more,
    numbers,
    of,
    taken,
    works,
)
from tests.conftest import ADMIN_KEY, http, running, settings_for
from tests.waiting import eventually

SEEN_SECONDS = PROBE_SECONDS + SILENCE_SECONDS + 1


class Told(TolerantStreams):
    """Tolerant streams, with what they say of themselves."""

    def __init__(self, url: str, settings: NatsSettings) -> None:
        self.away: list[bool] = []
        embedded = EmbeddedStreams(AGAIN_SECONDS)
        super().__init__(lambda: JetStreams(url, of(settings)), embedded, self.away.append)

    async def is_away(self) -> bool:
        """Whether it says so now."""
        return self.away[-1:] == [True]

    async def is_back(self) -> bool:
        """Whether it says so now."""
        return self.away[-1:] == [False]

    async def mode(self) -> str:
        """The mode of the queue."""
        return (await self.look(2))[0].mode


async def test_it_starts_without_nats_and_what_it_kept_is_still_taken_when_nats_is_there(tmp_path: Path) -> None:
    port = free_port()
    with nats_server(tmp_path, port) as server:
        url = server.nats_url
    first, second = Told(url, named("late")), Told(url, named("late"))
    try:
        for streams in (first, second):
            await streams.open()
            assert streams.away == [True]
            assert await streams.mode() == "degraded"
        await first.put(Stream.QUEUED, works(3))
        with pytest.raises(Unavailable):
            await first.put(Stream.DEAD_LETTER, works(1))
        # It is the own process's alone.
        assert await nothing_more(second)
        (message,) = await first.take(Stream.QUEUED, 1, 5)
        with await asyncio.to_thread(nats_server, tmp_path, port):
            for streams in (first, second):
                await eventually(streams.is_back, "NATS")
                assert await streams.mode() == "connected"
            await first.put(Stream.QUEUED, works(2, 3))
            assert numbers(await taken(second, 2)) == [3, 4]
            await second.put(Stream.QUEUED, works(1, 5))
            # What it kept, what comes again because it was not done, and what NATS has.
            assert sorted(numbers(await taken(first, 4))) == [0, 1, 2, 5]
            await message.done()
            assert await nothing_more(first)
        for streams in (first, second):
            await eventually(streams.is_away, "the end of NATS")
        await first.put(Stream.QUEUED, works(1, 6))
        assert numbers(await taken(first, 1)) == [6]
    finally:
        for streams in (first, second):
            await streams.close()


async def test_who_waits_while_nats_comes_and_goes_still_gets_what_is_put_in(tmp_path: Path) -> None:
    port = free_port()
    with nats_server(tmp_path, port) as server:
        url = server.nats_url
    streams = Told(url, named("between"))
    await streams.open()
    try:
        for round_ in range(2):
            waiting = asyncio.create_task(streams.take(Stream.QUEUED, 1, 30))
            with await asyncio.to_thread(nats_server, tmp_path, port):
                await eventually(streams.is_back, "NATS")
                await streams.put(Stream.QUEUED, works(1, round_))
                (message,) = await waiting
                assert int(message.body) == round_
                await message.done()
                assert await nothing_more(streams)
                waiting = asyncio.create_task(streams.take(Stream.QUEUED, 1, 30))
                await asyncio.sleep(0)
            await eventually(streams.is_away, "the end of NATS")
            await streams.put(Stream.QUEUED, [Work(f"kept {round_}", b"%d" % (10 + round_))])
            (message,) = await waiting
            assert int(message.body) == 10 + round_
            await message.done()
    finally:
        await streams.close()


async def test_a_hanging_nats_holds_nobody_up_for_longer_than_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with await asyncio.to_thread(nats_server, tmp_path, free_port()) as server:
        streams = Told(server.nats_url, named("hanging"))
        await streams.open()
        pids = list(server.pids().values())
        found: set[int] = set()

        async def put(place: int) -> None:
            """As the relay does: what was not stored is put in anew."""
            for dispatch in range(200):
                started = time.monotonic()
                try:
                    await streams.put(Stream.QUEUED, [Work(f"{place}.{dispatch}", b"%d" % place)])
                except Unavailable:
                    await asyncio.sleep(0.05)
                else:
                    return
                finally:
                    assert time.monotonic() - started < PUT_SECONDS + 1

        async def take() -> None:
            started = time.monotonic()
            for message in await streams.take(Stream.QUEUED, 50, 0.5):
                found.add(int(message.body))
                await message.done()
            assert time.monotonic() - started < 0.5 + 1

        async def all_are_found(count: int) -> bool:
            await take()
            return found == set(range(count))

        try:
            await put(0)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            stopped_at = time.monotonic()
            waiting = asyncio.create_task(put(1))
            await eventually(streams.is_away, "that it hangs", SEEN_SECONDS)
            await asyncio.wait_for(waiting, SEEN_SECONDS)
            await put(2)
            await asyncio.gather(*(take() for _ in range(5)))
            assert time.monotonic() - stopped_at < 3 * SEEN_SECONDS
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await eventually(streams.is_back, "NATS")
        await put(3)
        await eventually(lambda: all_are_found(4), "every message")
        started = time.monotonic()
        await streams.close()
        assert time.monotonic() - started < 2


async def test_a_hanging_nats_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with await asyncio.to_thread(nats_server, tmp_path, free_port()) as server:
        streams = Told(server.nats_url, named("ending"))
        await streams.open()
        await streams.put(Stream.QUEUED, works(3))
        await streams.take(Stream.QUEUED, 1, 5)
        pids = list(server.pids().values())
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            await streams.close()
            assert time.monotonic() - started < 2
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


async def test_a_nats_without_jetstream_is_told_and_work_goes_on(tmp_path: Path) -> None:
    work, port = tmp_path / "nats", free_port()
    work.mkdir()
    plain = Process(
        "NATS",
        [find_nats(), "--addr", HOST, "--port", str(port)],
        work=work,
        port=port,
        steps=(Step(signal.SIGTERM, 10),),
    )
    try:
        await eventually(lambda: _taken(port), "the server")
        streams = made("tolerant", f"nats://{HOST}:{port}", named())
        assert isinstance(streams, TolerantStreams)
        await streams.open()
        try:
            with pytest.raises(Unavailable, match="JetStream"):
                await streams.check(2)
            await streams.put(Stream.QUEUED, works(1))
            assert numbers(await taken(streams, 1)) == [0]
        finally:
            await streams.close()
    finally:
        await asyncio.to_thread(plain.stop)


async def _taken(port: int) -> bool:
    return not port_is_free(port)


async def test_the_service_shows_its_streams_and_is_degraded_while_they_are_its_own(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    port = free_port()
    with nats_server(tmp_path, port) as server:
        nats = {"url": server.nats_url, "stream_bytes_max": 16 * 1024 * 1024}
    async with (
        running(settings_for(await clone(), nats=nats)) as service,
        http(service, authorization=f"Bearer {ADMIN_KEY}") as client,
    ):

        async def streams() -> dict[str, dict[str, object]]:
            shown = (await client.get("/v1/capabilities")).json()["streams"]
            return {one["stream"]: one for one in shown}

        async def is_ready() -> bool:
            return bool((await client.get("/readyz")).json()["status"] == "ready")

        async def is_degraded() -> bool:
            return not await is_ready()

        async def is_measured() -> bool:
            metrics = (await client.get("/metrics")).text
            return 'cairn_stream_messages{stream="webhook.queued"} 0.0' in metrics and (
                'cairn_degraded{part="streams"} 0.0' in metrics
            )

        assert await is_degraded()
        assert (await streams())["webhook.queued"]["mode"] == "degraded"
        assert 'cairn_degraded{part="streams"} 1.0' in (await client.get("/metrics")).text
        with await asyncio.to_thread(nats_server, tmp_path, port):
            await eventually(is_ready, "NATS")
            shown = await streams()
            queued, dead = shown["webhook.queued"], shown["webhook.dead_letter"]
            assert queued["consumer"] == {
                "name": "cairn-webhooks", "pending": 0, "ack_pending": 0, "redelivered": 0, "waiting": 0,
                "ack_seconds": 45.0,
            }  # fmt: skip
            del queued["consumer"]
            assert queued == {
                "stream": "webhook.queued", "mode": "connected", "subject": "automation.webhook.queued",
                "name": "automation_webhook_queued", "messages": 0, "bytes": 0, "bytes_max": 16 * 1024 * 1024,
                "age_seconds_max": 86_400.0, "oldest_seconds": None, "replicas": 1, "missing": False,
                "stalled": False, "faults": [],
            }  # fmt: skip
            assert (dead["subject"], dead["consumer"]) == ("automation.webhook.dead_letter", None)
            assert dead["age_seconds_max"] == 2_592_000.0
            await eventually(is_measured, "the measures")
        await eventually(is_degraded, "the end of NATS")
        await eventually(lambda: _is_degraded(streams), "the end of the streams")
        text = (await client.get("/metrics")).text
        (seconds,) = [
            line for line in text.splitlines() if line.startswith('cairn_degraded_seconds_total{part="streams"}')
        ]
        assert float(seconds.split()[1]) > 0


async def test_b30_a_queue_from_which_nobody_takes_is_told(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, clone: Callable[[], Awaitable[str]]
) -> None:
    monkeypatch.setattr(observed, "STALLED_SECONDS", 0.0)
    settings = named()
    streams = made("tolerant", servers.nats_url, settings, again_seconds=0.3)
    assert isinstance(streams, TolerantStreams)
    await streams.open()
    try:
        await streams.check(2)
        await streams.put(Stream.QUEUED, works(1))

        async def is_stalled() -> bool:
            return (await streams.look(2))[0].stalled

        await eventually(is_stalled, "that it stalls")
        with pytest.raises(Unavailable, match="nobody takes them"):
            await streams.check(2)
        nats = {"nats__url": servers.nats_url, "nats__stream_prefix": settings.stream_prefix}
        nats |= {"nats__stream_bytes_max": str(settings.stream_bytes_max), "webhooks__attempt_seconds": "1"}
        variables = {f"CAIRN_{name.upper()}": value for name, value in nats.items()}
        variables |= {"CAIRN_DATABASE__URL": await clone(), "COLUMNS": "160"}
        told = await asyncio.to_thread(CliRunner().invoke, app, ["doctor"], env=variables)
        assert told.exit_code == 1
        assert re.search(r"NATS +wrong .*nobody takes them", told.output), told.output
        assert numbers(await taken(streams, 1)) == [0]

        async def goes_on() -> bool:
            return not await is_stalled()

        await eventually(goes_on, "that it goes on")
    finally:
        await streams.close()
        await forget(servers.nats_url, settings)


async def test_doctor_tells_what_is_not_as_it_is_declared_and_changes_nothing(
    servers: Servers, clone: Callable[[], Awaitable[str]]
) -> None:
    settings, url = named(), await clone()
    variables = {
        "CAIRN_DATABASE__URL": url, "COLUMNS": "160", "CAIRN_NATS__URL": servers.nats_url,
        "CAIRN_NATS__STREAM_PREFIX": settings.stream_prefix, "CAIRN_WEBHOOKS__ATTEMPT_SECONDS": "10",
    }  # fmt: skip
    streams = made("jetstream", servers.nats_url, settings, again_seconds=40)
    await streams.open()
    try:
        await streams.put(Stream.QUEUED, works(3))
        for bytes_max, verdict in (
            ("16777216", r"ok +3 messages, \d+ of 16777216 bytes"),
            ("1048576", "wrong .*max_bytes"),
        ):
            told = await asyncio.to_thread(
                CliRunner().invoke, app, ["doctor"], env={**variables, "CAIRN_NATS__STREAM_BYTES_MAX": bytes_max}
            )
            assert re.search(rf"stream webhook\.queued +{verdict}", told.output), told.output
    finally:
        await streams.close()
        await forget(servers.nats_url, settings)


async def _is_degraded(streams: Callable[[], Awaitable[dict[str, dict[str, object]]]]) -> bool:
    found = (await streams()).get("webhook.queued")
    return found is not None and found["mode"] == "degraded"
