"""Streams and long-polls of events: each event once and in order, whatever happens to hints and processes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.embedded import Servers, start_servers
from app.events.jobs import sequencer
from app.events.watching import key_of
from tests.api_process import two_processes
from tests.events.feed import INSERT, STREAM, change, following, head, page, read, refused
from tests.http.toys import Process
from tests.payloads import problem
from tests.statements import sent_by
from tests.waiting import eventually

Api = Callable[..., Any]
SEQUENCE = sequencer(lambda _waited: None)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Servers]:
    """A NATS of the test's own, to be stopped and let go on."""
    with start_servers(tmp_path, postgres=False, redis=False, fast=True) as started:
        yield started


async def test_b20_a_reader_that_reconnects_while_another_writes_gets_every_event_once(api: Api) -> None:
    """Neither process can tell the other anything: what is missed by hints is found by looking."""
    count = 150
    async with api(nats={"url": "nats://127.0.0.1:1"}) as one, api() as two:

        async def write(of: int) -> None:
            for number in range(of, count, 3):
                await change(one.client, f"w{number}")

        writing = asyncio.gather(*(write(of) for of in range(3)))
        seen: list[dict[str, Any]] = []
        last: str | None = None
        while len(seen) < count:
            async with following(two.client, last) as stream:
                for _ in range(min(7, count - len(seen))):
                    last, event = await read(stream)
                    seen.append(event)
        await writing
        assert [event["position"] for event in seen] == list(range(1, count + 1))
        assert {event["subject_id"] for event in seen} == {f"w{number}" for number in range(count)}


async def test_b20_large_events_wake_readers_like_any_other(api: Api, servers: Servers) -> None:
    bus = {"nats": {"url": servers.nats_url, "subject_prefix": "largeevents"}, "http": {"live_look_seconds": 60}}
    async with api(**bus) as one, api(**bus) as two, following(two.client) as stream:
        await two.readers(1)
        for name, text in (("twenty", "é" * 10_000), ("million", "é" * 500_000)):
            await change(one.client, name, text=text)
            event = (await read(stream))[1]
            assert (event["subject_id"], event["data"]["metadata"]) == (name, {"text": text})


async def test_b20_an_id_beyond_the_head_one_of_another_tenant_and_one_that_is_none_are_refused(api: Api) -> None:
    async with api() as one:
        for n in range(3):
            await change(one.client, f"w{n}")
        await head(one, 3)
        cursor = (await page(one.client))["next_cursor"]
        assert (await one.client.put("/v1/tenants/other", json={})).status_code == 201
        other = {"x-tenant-id": "other"}
        for name in (cursor, (await page(one.client, limit=1))["next_cursor"]):
            answer = await one.client.get("/v1/events", headers={**STREAM, **other, "last-event-id": name})
            assert (problem(answer), "another tenant" in answer.text) == ((400, "bad_cursor"), True)
        async with httpx.AsyncClient(
            base_url=one.client.base_url, headers=dict(one.client.headers), timeout=60
        ) as there:
            there.headers["x-tenant-id"] = "other"
            async with following(there) as stream:
                await one.readers(1)
                await change(there, "own")
                assert (await read(stream))[1]["subject_id"] == "own"
        for text in ("", "x", "MS4x!", "MS45OTk5", "NOW", "Mi4xfjAwMDAwMDAw"):
            assert problem(await refused(one.client, text)) == (400, "bad_cursor"), text
            assert problem(await refused(one.client, after=text)) == (400, "bad_cursor"), text
        await one.readers(0)


async def test_b20_a_place_that_is_no_longer_kept_is_told_before_a_stream_and_in_it(
    api: Api, beside: asyncpg.Connection
) -> None:
    async with api() as one:
        for n in range(4):
            await change(one.client, f"w{n}")
        await head(one, 4)
        second = (await page(one.client, limit=2))["next_cursor"]
        async with following(one.client) as stream:
            for _ in range(4):
                await read(stream)
            await one.readers(1)
            await beside.execute("UPDATE event_heads SET position = 9, earliest = 10 WHERE tenant_id = 'acme'")
            name, kind, data = await stream.event()
            told = json.loads(data)
            assert (name, kind, told["status"], told["code"]) == (None, "problem", 410, "cursor_expired")
            assert await stream.rest() == []
        gone = await refused(one.client, second)
        assert (problem(gone), gone.json()["earliest"]) == ((410, "cursor_expired"), told["earliest"])
        await change(one.client, "w9")
        for start in ({"last": told["earliest"]}, {}):
            async with following(one.client, **start) as stream:
                assert (await read(stream))[1]["position"] == 10


async def test_readers_of_one_place_share_what_is_read_for_them(api: Api) -> None:
    async with api(
        database={"pool_min": 1, "pool_max": 1}, http={"live_look_seconds": 30}, background={"enabled": False}
    ) as one, AsyncExitStack() as stack:  # fmt: skip
        readers = [await stack.enter_async_context(following(one.client)) for _ in range(40)]
        await one.readers(40)
        await change(one.client, "w")
        await drain(SEQUENCE, one.service.ground.database)
        async with sent_by(one.service) as statements:
            one.service.ground.hints.publish(key_of("acme"))
            for stream in readers:
                assert (await read(stream))[1]["subject_id"] == "w"
    assert len(statements) < len(readers) / 4


async def test_b16_readers_of_events_hold_no_connection(api: Api) -> None:
    async with api(database={"pool_max": 2, "acquire_seconds": 2}) as one, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(following(one.client)) for _ in range(6)]
        polls = [asyncio.create_task(page(one.client, wait_seconds=60)) for _ in range(6)]
        await one.readers(12)

        async def all_idle() -> bool:
            size, idle = one.service.ground.database.connections
            return bool(size == idle)

        await eventually(all_idle, "that no connection is busy")
        await change(one.client, "w")
        assert {(await read(reader))[1]["subject_id"] for reader in readers} == {"w"}
        assert {event["subject_id"] for poll in polls for event in (await poll)["items"]} == {"w"}


async def test_b19_streams_of_events_end_where_they_can_be_resumed(api: Api) -> None:
    async with AsyncExitStack() as stack:
        one: Process = await stack.enter_async_context(api(http={"grace_seconds": 30}))
        await change(one.client, "w0")
        readers = [await stack.enter_async_context(following(one.client)) for _ in range(3)]
        (last,) = {(await read(reader))[0] for reader in readers}
        begun = time.monotonic()
        one.stop()
        assert [await reader.rest() for reader in readers] == [[], [], []]
        await asyncio.wait_for(asyncio.shield(one.serving), 10)  # type: ignore[arg-type]
        assert time.monotonic() - begun < 8
    async with api() as two, following(two.client, last) as stream:
        await change(two.client, "w1")
        assert (await read(stream))[1]["subject_id"] == "w1"


@pytest.mark.parametrize("seed", range(6))
async def test_transactions_that_commit_out_of_order_are_followed_without_a_gap(api: Api, url: str, seed: int) -> None:
    """Random transactions insert, wait for each other, commit late or roll back; a reader comes and goes meanwhile."""
    chance = random.Random(seed)
    async with api(http={"live_look_seconds": 0.02}) as one, AsyncExitStack() as stack:
        connections = [await asyncpg.connect(url) for _ in range(6)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        written: set[str] = set()
        seen: list[dict[str, Any]] = []
        whole = asyncio.Event()

        async def follow() -> None:
            last: str | None = None
            while not (whole.is_set() and len(seen) >= len(written)):
                async with following(one.client, last) as stream:
                    for _ in range(chance.randint(1, 30)):
                        if whole.is_set() and len(seen) >= len(written):
                            return
                        last, event = await read(stream)
                        seen.append(event)

        following_them = asyncio.create_task(follow())
        open_ones: dict[int, tuple[Any, set[str]]] = {}
        for step in range(400):
            at = chance.randrange(len(connections))
            connection = connections[at]
            if at not in open_ones:
                transaction = connection.transaction()
                await transaction.start()
                open_ones[at] = (transaction, set())
            transaction, names = open_ones[at]
            if chance.random() < 0.6 or not names:
                count = chance.randint(1, 4)
                await connection.execute(INSERT, "workflow.updated", f"{step}.", count)
                names |= {f"{step}.{n}" for n in range(1, count + 1)}
            elif chance.random() < 0.8 or len(open_ones) == len(connections):
                await transaction.commit()
                written |= names
                del open_ones[at]
            else:
                await transaction.rollback()
                del open_ones[at]
        for transaction, names in open_ones.values():
            await transaction.commit()
            written |= names
        # One more, so that the reader does not wait for what has come already.
        await connections[0].execute(INSERT, "workflow.updated", "last.", 1)
        written.add("last.1")
        whole.set()
        await asyncio.wait_for(following_them, 30)
        assert [event["position"] for event in seen] == list(range(1, len(written) + 1))
        assert {event["subject_id"] for event in seen} == written


async def test_an_event_reaches_readers_of_another_process_at_once(url: str, servers: Servers) -> None:
    settings = {
        "nats__url": servers.nats_url,
        "nats__subject_prefix": "eventsacross",
        "http__live_look_seconds": 30,
        "background__enabled": True,
    }
    async with two_processes(url, **settings) as (_, _, first, second), following(second) as stream:
        took = []
        for number in range(30):
            begun = time.monotonic()
            await change(first, f"w{number}")
            assert (await read(stream))[1]["subject_id"] == f"w{number}"
            took.append(time.monotonic() - begun)
        assert statistics.median(took) < 0.15


async def test_b20_a_bus_that_hangs_or_is_gone_makes_events_late_and_loses_none(url: str, nats: Servers) -> None:
    settings = {"nats__url": nats.nats_url, "http__live_look_seconds": 0.2, "background__enabled": True}
    async with two_processes(url, **settings) as (_, _, first, second), following(second) as stream:
        await change(first, "w0")
        assert (await read(stream))[1]["subject_id"] == "w0"
        pids = list(nats.pids().values())
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(1, 20):
                await change(first, f"w{number}")
            assert [(await read(stream))[1]["subject_id"] for _ in range(19)] == [f"w{n}" for n in range(1, 20)]
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await change(first, "w20")
        assert (await read(stream))[1]["subject_id"] == "w20"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for number in range(21, 30):
            await change(first, f"w{number}")
        assert [(await read(stream))[1]["subject_id"] for _ in range(9)] == [f"w{n}" for n in range(21, 30)]


async def test_b19_a_process_with_open_streams_of_events_ends_within_its_grace(url: str) -> None:
    settings = {"http__grace_seconds": 10, "background__enabled": True}
    async with two_processes(url, **settings) as (_, two, first, second), following(second) as stream:
        await change(first, "w0")
        last, _ = await read(stream)
        begun = time.monotonic()
        two.send(signal.SIGTERM)
        assert await stream.rest() == []
        assert await asyncio.to_thread(two.wait, 10) == 0
        assert time.monotonic() - begun < 8
        await change(first, "w1")
        async with following(first, last) as resumed:
            assert (await read(resumed))[1]["subject_id"] == "w1"
