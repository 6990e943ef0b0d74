"""Long-polls and event streams: exact, resumable, woken across processes, without a connection while they wait."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from app import main
from app.embedded import Servers
from app.http.event import PIECE_BYTES, Event
from tests.conftest import settings_for
from tests.http import toys
from tests.http.toys import Process, process, stream
from tests.waiting import eventually

Api = Callable[..., Any]


@pytest.fixture
async def api(clone: Callable[[], Awaitable[str]], monkeypatch: pytest.MonkeyPatch) -> Api:
    """Starts API processes on one database with toys."""
    monkeypatch.setitem(main.WATCHED, toys.KIND, toys.moved)
    url = await clone()
    connection = await asyncpg.connect(url)
    await connection.execute(toys.SETUP)
    await connection.close()

    def started(**groups: dict[str, Any]) -> Any:
        groups["http"] = {"port": 0, "grace_seconds": 5, "live_look_seconds": 0.05, **groups.get("http", {})}
        return process(settings_for(url, **groups))

    return started


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (b'{"a": 1}', b'data: {"a": 1}\n\n'),
        (b'{\n "a":\r\n1\r}', b'data: {\ndata:  "a":\ndata: 1\ndata: }\n\n'),
        (b" \n", b"data:  \ndata: \n\n"),
        (b"", b"data: \n\n"),
        ("ü\\u0000".encode(), "data: ü\\u0000\n\n".encode()),
    ],
)
def test_data_is_sent_as_it_is_a_line_for_each_line(data: bytes, sent: bytes) -> None:
    assert b"".join(Event(data, "7").pieces()) == b"id: 7\n" + sent
    assert b"".join(Event(data, type="problem").pieces()) == b"event: problem\n" + sent


def test_a_large_event_is_sent_in_pieces() -> None:
    data = b"x" * (PIECE_BYTES * 3 + 1)
    pieces = list(Event(data, "7").pieces())
    assert max(len(piece) for piece in pieces) == PIECE_BYTES
    assert b"".join(pieces) == b"id: 7\ndata: " + data + b"\n\n"
    assert list(Event(None, "7").pieces()) == [b"id: 7\n\n"]


async def test_a_stream_gives_what_is_there_and_what_comes_and_is_resumed_by_its_last_id(api: Api) -> None:
    async with api() as one:
        await one.add("r", "a", "b", "c", "d")
        async with stream(one.client, "r") as reader:
            headers = reader.answer.headers
            assert headers["content-type"].startswith("text/event-stream")
            assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
            assert {"x-request-id", "x-content-type-options"} <= set(headers)
            assert [await reader.event() for _ in range(4)] == [
                (str(n), "message", toy) for n, toy in enumerate("abcd", 1)
            ]
            await one.add("r", "e")
            assert await reader.event() == ("5", "message", "e")
        await one.add("r", "f")
        async with stream(one.client, "r", **{"last-event-id": "5"}) as reader:
            assert await reader.event() == ("6", "message", "f")
        assert (await one.client.head("/v1/toys/events", params={"name": "r"})).status_code == 200
        await one.readers(0)


async def test_a_refusal_before_the_stream_is_the_answer_and_one_within_it_is_its_last_event(api: Api) -> None:
    async with api() as one:
        await one.add("gone", "gone")
        answer = await one.client.get("/v1/toys/events", params={"name": "gone"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        async with stream(one.client, "r") as reader:
            await one.add("r", "a")
            assert await reader.event() == ("1", "message", "a")
            await one.add("r", "gone")
            id_, kind, data = await reader.event()
            assert (id_, kind) == (None, "problem")
            assert '"code": "not_found"' in data
            assert await reader.rest() == []


async def test_an_idle_stream_beats_and_ends_by_itself_after_its_time(api: Api) -> None:
    async with (
        api(http={"live_heartbeat_seconds": 0.02, "live_stream_seconds": 0.3}) as one,
        stream(one.client, "r") as reader,
    ):
        assert [await reader.next() for _ in range(4)] == [None] * 4
        assert await reader.rest() == []


async def test_a_client_that_goes_away_is_noticed_and_released(api: Api) -> None:
    async with api() as one:
        async with stream(one.client, "r"):
            await one.readers(1)
        await one.readers(0)
        waiting = asyncio.create_task(one.client.get("/v1/toys", params={"name": "r", "seconds": 60}))
        await one.readers(1)
        waiting.cancel()
        await one.readers(0)
        assert "cairn_live_readers 0.0" in (await one.client.get("/metrics")).text


async def test_a_client_that_takes_nothing_is_given_nothing_more(api: Api) -> None:
    async with api() as one:
        await one.add("r", *(["x" * 60_000] * 150))
        host, port = one.client.base_url.host, one.client.base_url.port
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        head = "".join(f"{name}: {one.client.headers[name]}\r\n" for name in ("authorization", "x-tenant-id"))
        writer.write(f"GET /v1/toys/events?name=r HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        await one.readers(1)
        wake = next(iter(one.service.ground.live.watcher._every()))
        marks = []

        async def stands() -> bool:
            marks.append(wake.mark)
            return len(marks) > 50 and len(set(marks[-50:])) == 1

        await eventually(stands, "that it stops to read")
        # What the sockets between them hold, of 9 MB.
        assert isinstance(wake.mark, int)
        assert wake.mark < 140
        while wake.mark < 150:
            await reader.read(1024 * 1024)
        writer.close()
        await one.readers(0)


async def test_more_readers_than_may_wait_are_refused_and_the_others_are_not(api: Api) -> None:
    async with api(http={"live_readers_max": 2}) as one, stream(one.client, "r"), stream(one.client, "r"):
        for path in ("/v1/toys/events?name=r", "/v1/toys?name=r&seconds=1"):
            answer = await one.client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (503, "live_readers_full")
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["readers_max"] == 2
        assert (await one.client.get("/v1/toys", params={"name": "r"})).json() == []


async def test_a_long_poll_answers_when_something_comes_and_when_its_time_is_over(api: Api) -> None:
    async with api(http={"slow_request_seconds": 0.3}) as one:
        waiting = asyncio.create_task(one.client.get("/v1/toys", params={"name": "r", "seconds": 30}))
        await one.readers(1)
        await one.add("r", "a")
        assert (await waiting).json() == [1]
        assert (await one.client.get("/v1/toys", params={"name": "r", "after": 1, "seconds": 0.4})).json() == []
        # The time that it waited for others is none that the service took.
        text = (await one.client.get("/metrics")).text
        assert 'cairn_http_request_seconds_bucket{le="0.1",route="/v1/toys"} 3.0' in text


async def test_b16_readers_that_wait_hold_no_connection(api: Api) -> None:
    async with api(database={"pool_max": 2, "acquire_seconds": 2}) as one, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(stream(one.client, "r")) for _ in range(6)]
        for reader in readers:
            assert await reader.next() is None
        polls = [asyncio.create_task(one.client.get("/v1/toys", params={"name": "r", "seconds": 30})) for _ in range(6)]
        await one.readers(12)

        async def all_idle() -> bool:
            size, idle = one.service.ground.database.connections
            return size == idle

        await eventually(all_idle, "that no connection is busy")
        assert (await one.client.get("/v1/workflows")).status_code == 200
        await one.add("r", "a")
        assert {(await poll).text for poll in polls} == {"[1]"}


async def test_b19_at_the_end_streams_stop_at_an_event_and_long_polls_answer(api: Api) -> None:
    async with AsyncExitStack() as stack:
        one: Process = await stack.enter_async_context(api(http={"grace_seconds": 30}))
        await one.add("r", "a")
        readers = [await stack.enter_async_context(stream(one.client, "r")) for _ in range(3)]
        for reader in readers:
            assert await reader.event() == ("1", "message", "a")
        poll = asyncio.create_task(one.client.get("/v1/toys", params={"name": "r", "after": 1, "seconds": 60}))
        await one.readers(4)
        begun = time.monotonic()
        one.stop()
        # In order: an answer that was cut off would raise.
        assert [await reader.rest() for reader in readers] == [[], [], []]
        assert (await poll).json() == []
        await asyncio.wait_for(asyncio.shield(one.serving), 10)
        assert time.monotonic() - begun < 5
    async with api() as two:
        await two.add("r", "b")
        async with stream(two.client, "r", **{"last-event-id": "1"}) as reader:
            assert await reader.event() == ("2", "message", "b")


async def test_a_new_event_reaches_readers_of_another_process_within_a_tenth_of_a_second(
    api: Api, servers: Servers
) -> None:
    groups = {"nats": {"url": servers.nats_url, "subject_prefix": "reach"}, "http": {"live_look_seconds": 60}}
    async with api(**groups) as one, api(**groups) as two, stream(two.client, "r") as reader:
        took = []
        for number in range(1, 21):
            begun = time.monotonic()
            await one.add("r", "a")
            assert await reader.event() == (str(number), "message", "a")
            took.append(time.monotonic() - begun)
        assert statistics.median(took) < 0.1


@asynccontextmanager
async def paused(pids: list[int]) -> AsyncIterator[None]:
    """Stop processes for as long as the block runs."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_b20_without_the_bus_each_event_comes_once_and_in_order(api: Api) -> None:
    async with api(nats={"url": "nats://127.0.0.1:1"}) as one, api() as two:
        appended = [str(number) for number in range(1, 61)]

        async def write() -> None:
            for toy in appended:
                await one.add("r", toy)

        writing = asyncio.create_task(write())
        seen: list[str] = []
        last = "0"
        while len(seen) < len(appended):
            # Each stream is read a little and dropped: the next goes on after the last id.
            async with stream(two.client, "r", **{"last-event-id": last}) as reader:
                for _ in range(min(7, len(appended) - len(seen))):
                    last, _, data = await reader.event()  # type: ignore[assignment]
                    seen.append(data)
        await writing
        assert seen == appended


async def test_idle_readers_cost_nothing_but_one_look_for_all_of_them(api: Api) -> None:
    # No heartbeat comes, however long it takes until all of them wait.
    async with api(http={"live_look_seconds": 1, "live_heartbeat_seconds": 600}) as one, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(stream(one.client, f"r{number}")) for number in range(200)]
        for reader in readers:
            assert await reader.next() is None
        await one.readers(200)
        connection = await asyncpg.connect(one.service.ground.database.url)
        silence = asyncio.create_task(readers[0].next())
        begun, used = time.monotonic(), time.process_time()
        while time.monotonic() - begun < 2:
            busy = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
                " AND pid <> pg_backend_pid()"
            )
            assert busy <= 1
            assert not (await asyncio.wait({silence}, timeout=0.5))[0]
        silence.cancel()
        await connection.close()
        share = (time.process_time() - used) / (time.monotonic() - begun)
        assert share < 0.05, f"{share:.3f} of a core"
