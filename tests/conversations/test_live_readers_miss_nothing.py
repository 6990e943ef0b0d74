"""Streams and long-polls of a conversation: each batch once and in order, whatever happens to hints and processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.embedded import Servers, start_servers
from tests.api_process import two_processes
from tests.conftest import settings_for
from tests.conversations.streams import Stream, created, offset
from tests.http.toys import Process, process
from tests.http.toys import Stream as Events
from tests.payloads import problem
from tests.statements import sent_by
from tests.waiting import eventually

Api = Callable[..., Any]
PATH = "agents/echo/i1"
EVENTS = "/v1/conversations/events"


@pytest.fixture
async def api(clone: Callable[[], Awaitable[str]]) -> Api:
    """Starts API processes on one database."""
    url = await clone()

    def started(**groups: dict[str, Any]) -> Any:
        groups["http"] = {"port": 0, "grace_seconds": 5, "live_look_seconds": 0.05, **groups.get("http", {})}
        return process(settings_for(url, **groups))

    return started


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Servers]:
    """A NATS of the test's own, to be stopped and let go on."""
    with start_servers(tmp_path, postgres=False, redis=False, fast=True) as started:
        yield started


@asynccontextmanager
async def following(client: httpx.AsyncClient, last: str | None = None, **query: str) -> AsyncIterator[Events]:
    """A reader of the conversation, from behind an event where one is named."""
    headers = {} if last is None else {"last-event-id": last}
    async with client.stream("GET", EVENTS, params={"path": PATH, **query}, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Events(answer)


async def refused(client: httpx.AsyncClient, last: str | None = None, **query: str) -> httpx.Response:
    """The refusal of a stream."""
    headers = {} if last is None else {"last-event-id": last}
    return await client.get(EVENTS, params={"path": PATH, **query}, headers=headers)


def event(stream: Stream, seq: int, records: Any) -> tuple[str, str, Any]:
    """The event of a batch."""
    return (f"{offset(seq)}@{stream.claim['incarnation']}", "message", {"offset": offset(seq), "records": records})


async def read(events: Events) -> tuple[str | None, str, Any]:
    """The next event, its data read."""
    name, kind, data = await events.event()
    return name, kind, json.loads(data)


async def test_a_stream_gives_what_is_there_and_what_comes_and_goes_on_behind_any_event(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        await stream.append(b'[{"n":0}]')
        await stream.append(b'[{"n":1},\r\n {"a" : 1.0}]')
        async with following(one.client) as events:
            assert await read(events) == event(stream, 0, [{"n": 0}])
            name, _, data = await events.event()
            assert data == f'{{"offset":"{offset(1)}","records":[{{"n":1}},\n {{"a" : 1.0}}]}}'
            await stream.append(b'[{"n":2}]')
            assert await read(events) == event(stream, 2, [{"n": 2}])
        for start in ({"last": name}, {"offset": offset(1)}, {"last": name, "offset": offset(0)}):
            async with following(one.client, **start) as events:  # type: ignore[arg-type]
                assert await read(events) == event(stream, 2, [{"n": 2}])
        async with following(one.client, offset="now") as events:
            await one.readers(1)
            await stream.append(b'[{"n":3}]')
            assert await read(events) == event(stream, 3, [{"n": 3}])


async def test_a_stream_from_now_on_tells_where_it_stands_before_there_is_an_event(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        await stream.append(b'[{"n":0}]')
        async with one.client.stream("GET", EVENTS, params={"path": PATH, "offset": "now"}) as answer:
            ids = (line.removeprefix("id: ") async for line in answer.aiter_lines() if line.startswith("id: "))
            async with asyncio.timeout(20):
                here = await anext(ids)
        await stream.append(b'[{"n":1}]')
        async with following(one.client, here, offset="now") as events:
            assert await read(events) == event(stream, 1, [{"n": 1}])


async def test_readers_of_an_unknown_path_wait_for_its_conversation(api: Api) -> None:
    async with api() as one, following(one.client) as start, following(one.client, offset="now") as head:
        await one.readers(2)
        poll = asyncio.create_task(
            one.client.get("/v1/conversations/read", params={"path": PATH, "live": "long-poll", "offset": "now"})
        )
        await one.readers(3)
        stream = await created(one.client)
        await stream.append()
        assert await read(start) == await read(head) == event(stream, 0, [{"a": 1}])
        assert [batch["offset"] for batch in (await poll).json()["batches"]] == [offset(0)]


async def test_b20_a_reader_that_reconnects_while_another_appends_gets_every_batch_once(api: Api) -> None:
    count = 120
    async with api(nats={"url": "nats://127.0.0.1:1"}) as one, api() as two:
        stream = await created(one.client)

        async def write() -> None:
            for number in range(count):
                assert (await stream.append(b'[{"n":%d}]' % number)).status_code == 200

        writing = asyncio.create_task(write())
        seen: list[int] = []
        last: str | None = None
        while len(seen) < count:
            async with following(two.client, last) as events:
                for _ in range(min(7, count - len(seen))):
                    last, _, data = await read(events)
                    seen.append(data["records"][0]["n"])
        await writing
        assert seen == list(range(count))


async def test_b20_an_id_of_a_deleted_conversation_is_told_as_such(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        for _ in range(3):
            await stream.append()
        old = f"{offset(0)}@{stream.claim['incarnation']}"
        async with following(one.client, old) as events:
            assert [(await events.event())[0][:33] for _ in range(2)] == [offset(1), offset(2)]  # type: ignore[index]
            await one.client.delete("/v1/conversations", params={"path": PATH})
            name, kind, told = await read(events)
            assert (name, kind, told["code"], told["incarnation"]) == (None, "problem", "stream_replaced", None)
            assert await events.rest() == []
        assert problem(await refused(one.client, old)) == (410, "stream_replaced")
        new = await created(one.client)
        await new.append()
        # The second id lies beyond the head of the conversation that is there now.
        for last in (old, f"{offset(2)}@{stream.claim['incarnation']}"):
            gone = await refused(one.client, last)
            assert (problem(gone), gone.json()["incarnation"]) == ((410, "stream_replaced"), new.claim["incarnation"])
        async with following(one.client) as events:
            assert await read(events) == event(new, 0, [{"a": 1}])


async def test_b20_an_id_beyond_the_head_and_one_that_is_none_are_refused(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        await stream.append()
        beyond = await refused(one.client, f"{offset(1)}@{stream.claim['incarnation']}")
        assert (problem(beyond), beyond.json()["head"]) == ((409, "offset_beyond_head"), offset(0))
        assert problem(await refused(one.client, offset=offset(9))) == (409, "offset_beyond_head")
        for text in ("x", offset(0), f"{offset(0)}@", "@i", "now@i", ""):
            assert problem(await refused(one.client, text)) == (400, "bad_offset"), text
        assert problem(await refused(one.client, offset="x")) == (400, "bad_offset")
        await one.readers(0)


async def test_b20_a_record_of_twenty_kilobytes_wakes_readers_like_any_other(api: Api, servers: Servers) -> None:
    bus = {"nats": {"url": servers.nats_url, "subject_prefix": "twenty"}, "http": {"live_look_seconds": 60}}
    async with api(**bus) as one, api(**bus) as two:
        stream = await created(one.client)
        async with following(two.client) as events:
            await two.readers(1)
            text = "é\u0000" * 10_000
            assert (await stream.append(json.dumps([{"text": text}]).encode())).status_code == 200
            assert await read(events) == event(stream, 0, [{"text": text}])


async def test_a_reader_that_catches_up_is_given_a_page_at_a_time(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        big = b'[{"text":"' + b"x" * 700_000 + b'"}]'
        for number in range(230):
            await stream.append(big if number % 50 == 0 else b'[{"n":%d}]' % number)
        async with following(one.client) as events:
            found = [(await events.event())[0] for _ in range(230)]
        assert found == [f"{offset(seq)}@{stream.claim['incarnation']}" for seq in range(230)]


async def test_readers_of_one_place_share_what_is_read_for_them(api: Api) -> None:
    async with api(database={"pool_min": 1, "pool_max": 1}, http={"live_look_seconds": 30}) as one:
        stream = await created(one.client)
        await stream.append(b'[{"n":0}]')
        async with AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(following(one.client)) for _ in range(40)]
            for events in readers:
                assert await read(events) == event(stream, 0, [{"n": 0}])
            async with sent_by(one.service) as statements:
                await stream.append(b'[{"n":1}]')
                for events in readers:
                    assert await read(events) == event(stream, 1, [{"n": 1}])
    assert len(statements) < len(readers) / 2


async def test_who_waits_under_a_revoked_key_is_given_nothing_more(api: Api) -> None:
    async with api(auth={"cache_seconds": 0}) as one:
        stream = await created(one.client)
        made = (await one.client.post("/v1/api-keys", json={"name": "k", "scopes": ["*:read", "*:write"]})).json()
        own = {"authorization": f"Bearer {made['key']}", "x-tenant-id": "acme"}
        async with httpx.AsyncClient(base_url=one.client.base_url, headers=own, timeout=60) as reader:
            query = {"path": PATH, "live": "long-poll", "offset": "now"}
            poll = asyncio.create_task(reader.get("/v1/conversations/read", params=query))
            work = {"owner_id": "w", "limit": 1, "lease_seconds": 30, "wait_seconds": 20}
            claim = asyncio.create_task(reader.post("/v1/submissions/claim-next", json=work))
            async with following(reader) as events:
                await one.readers(3)
                assert (await one.client.delete(f"/v1/api-keys/{made['id']}")).is_success
                await stream.append()
                _, kind, data = await events.event()
                assert (kind, json.loads(data)["code"]) == ("problem", "unauthenticated")
                assert await events.rest() == []
            assert problem(await poll) == (401, "unauthenticated")
            admission = {"id": "s", "session_key": "s", "kind": "direct", "agent": "a", "instance_id": "i", "input": 1}
            assert (await one.client.post("/v1/submissions", json=admission)).status_code == 201
            assert problem(await claim) == (401, "unauthenticated")
        assert (await one.client.get("/v1/submissions/s")).json()["status"] == "queued"


async def test_a_long_poll_answers_at_once_where_there_is_something_and_else_waits(api: Api) -> None:
    async with api() as one:
        stream = await created(one.client)
        assert (await stream.read(live="long-poll", wait_seconds=0.2)) == {
            "batches": [], "next_offset": "-1", "up_to_date": True,
        }  # fmt: skip
        await stream.append()
        found = await stream.read(live="long-poll", wait_seconds=60)
        assert [batch["offset"] for batch in found["batches"]] == [offset(0)]
        waiting = asyncio.create_task(stream.read(live="long-poll", wait_seconds=60, offset="now"))
        await one.readers(1)
        await stream.append(b'[{"n":1}]')
        assert (await waiting)["batches"] == [{"offset": offset(1), "records": [{"n": 1}]}]
        for query in ("live=x", "live=long-poll&wait_seconds=61", "live=long-poll&before=now"):
            answer = await one.client.get(f"/v1/conversations/read?path={PATH}&{query}")
            assert problem(answer) == (422, "invalid_input"), query
        inside = {"operations": [{"method": "GET", "path": f"/v1/conversations/read?path={PATH}&live=long-poll"}]}
        assert problem(await one.client.post("/v1/batch", json=inside)) == (422, "invalid_input")


async def test_b16_readers_of_conversations_hold_no_connection(api: Api) -> None:
    async with api(database={"pool_max": 2, "acquire_seconds": 2}) as one, AsyncExitStack() as stack:
        stream = await created(one.client)
        readers = [await stack.enter_async_context(following(one.client)) for _ in range(6)]
        polls = [asyncio.create_task(stream.read(live="long-poll", wait_seconds=60)) for _ in range(6)]
        await one.readers(12)

        async def all_idle() -> bool:
            size, idle = one.service.ground.database.connections
            return bool(size == idle)

        await eventually(all_idle, "that no connection is busy")
        assert (await one.client.get("/v1/workflows")).status_code == 200
        await stream.append()
        assert {str(await read(reader)) for reader in readers} == {str(event(stream, 0, [{"a": 1}]))}
        assert {(await poll)["next_offset"] for poll in polls} == {offset(0)}


async def test_b19_streams_end_where_they_can_be_resumed_and_an_append_in_flight_is_answered(api: Api) -> None:
    async with AsyncExitStack() as stack:
        one: Process = await stack.enter_async_context(api(http={"grace_seconds": 30}))
        stream = await created(one.client)
        await stream.append()
        readers = [await stack.enter_async_context(following(one.client)) for _ in range(3)]
        last = {(await reader.event())[0] for reader in readers}
        big = b'[{"text":"' + b"x" * 8_000_000 + b'"}]'
        writing = asyncio.create_task(stream.append(big))
        begun = time.monotonic()
        one.stop()
        rest = [await reader.rest() for reader in readers]
        assert all([name for name, _, _ in found] in ([], [event(stream, 1, None)[0]]) for found in rest)
        await asyncio.wait_for(asyncio.shield(one.serving), 10)  # type: ignore[arg-type]
        assert time.monotonic() - begun < 8
        outcome = (await asyncio.gather(writing, return_exceptions=True))[0]
    async with api() as two:
        (resumed,) = last
        stream.client = two.client
        if isinstance(outcome, BaseException) or outcome.status_code != 200:
            # It had not arrived: the same append again is stored once, whatever became of the first.
            assert (await stream.append(big)).status_code == 200
        async with following(two.client, resumed) as events:
            assert (await events.event())[0] == event(stream, 1, None)[0]


async def test_a_new_batch_reaches_readers_of_another_process_and_a_read_never_lags(
    clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    settings = {"nats__url": servers.nats_url, "nats__subject_prefix": "across", "http__live_look_seconds": 30}
    async with two_processes(await clone(), **settings) as (_, _, first, second), following(second) as events:
        stream = await created(first)
        took = []
        for number in range(30):
            begun = time.monotonic()
            await stream.append(b'[{"n":%d}]' % number)
            lagging = await second.get("/v1/conversations/read", params={"path": PATH, "offset": "now"})
            assert lagging.json()["next_offset"] == offset(number)
            assert await read(events) == event(stream, number, [{"n": number}])
            took.append(time.monotonic() - begun)
        assert statistics.median(took) < 0.1


async def test_b20_a_bus_that_hangs_makes_batches_late_and_loses_none(
    clone: Callable[[], Awaitable[str]], nats: Servers
) -> None:
    settings = {"nats__url": nats.nats_url, "http__live_look_seconds": 0.2}
    async with two_processes(await clone(), **settings) as (_, _, first, second), following(second) as events:
        stream = await created(first)
        await stream.append(b'[{"n":0}]')
        assert await read(events) == event(stream, 0, [{"n": 0}])
        pids = list(nats.pids().values())
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(1, 20):
                assert (await stream.append(b'[{"n":%d}]' % number)).status_code == 200
            for number in range(1, 20):
                assert await read(events) == event(stream, number, [{"n": number}])
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await stream.append(b'[{"n":20}]')
        assert await read(events) == event(stream, 20, [{"n": 20}])


async def test_b19_a_process_with_open_streams_ends_within_its_grace(clone: Callable[[], Awaitable[str]]) -> None:
    async with (
        two_processes(await clone(), http__grace_seconds=10) as (_, two, first, second),
        following(second) as one_reader,
        following(second) as other_reader,
    ):
        stream = await created(first)
        await stream.append()
        assert await read(one_reader) == await read(other_reader) == event(stream, 0, [{"a": 1}])
        begun = time.monotonic()
        two.send(signal.SIGTERM)
        assert (await one_reader.rest(), await other_reader.rest()) == ([], [])
        assert await asyncio.to_thread(two.wait, 10) == 0
        assert time.monotonic() - begun < 8
        await stream.append(b'[{"n":1}]')
        async with following(first, f"{offset(0)}@{stream.claim['incarnation']}") as resumed:
            assert await read(resumed) == event(stream, 1, [{"n": 1}])
