"""Streams and long-polls of events: each event once and in order, whatever happens to hints and processes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.db.sql import Statement
from app.embedded import Servers, start_servers
from app.events.jobs import sequencer
from app.events.live import PASSED_MAX
from app.events.watching import key_of
from tests.api_process import two_processes
from tests.conftest import settings_for
from tests.events.feed import STREAM, change, following, page, read, refused
from tests.http.toys import Process, process
from tests.payloads import problem
from tests.statements import sent_by
from tests.waiting import eventually

Api = Callable[..., Any]
SEQUENCE = sequencer(lambda _waited: None)
INSERT = (
    "INSERT INTO outbox (tenant_id, type, subject_type, subject_id, data)"
    " SELECT 'acme', $1, 'workflow', $2 || n, '{\"of\":\"nothing\"}' FROM generate_series(1, $3::bigint) AS n"
)


@pytest.fixture
async def url(clone: Callable[[], Awaitable[str]]) -> str:
    """A database of the test alone."""
    return await clone()


@pytest.fixture
def api(url: str) -> Api:
    """Starts API processes on that database; they give positions beside the requests."""

    def started(**groups: dict[str, Any]) -> Any:
        groups["http"] = {"port": 0, "grace_seconds": 5, "live_look_seconds": 0.05, **groups.get("http", {})}
        groups.setdefault("background", {"enabled": True, "sequencer_idle_seconds": 0.005})
        return process(settings_for(url, **groups))

    return started


@pytest.fixture
async def beside(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection beside the service."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Servers]:
    """A NATS of the test's own, to be stopped and let go on."""
    with start_servers(tmp_path, postgres=False, redis=False, fast=True) as started:
        yield started


async def head(one: Process, position: int) -> None:
    """Return once so many events have a position."""
    statement = Statement("SELECT position FROM event_heads WHERE tenant_id = 'acme'")

    async def there() -> bool:
        row = await one.service.ground.database.row(statement)
        return row is not None and row["position"] >= position

    await eventually(there, f"{position} events")


async def test_a_stream_shows_the_events_of_the_list_and_those_to_come_and_goes_on_behind_any(api: Api) -> None:
    async with api() as one:
        for n in range(3):
            await change(one.client, f"w{n}", n=n)
        await head(one, 3)
        listed = (await one.client.get("/v1/events", headers={"accept": "*/*"})).content
        async with following(one.client) as stream:
            seen = [await stream.event() for _ in range(3)]
            assert b",".join(data.encode() for _, _, data in seen) in listed
            await change(one.client, "w3")
            name, event = await read(stream)
            assert (event["position"], event["subject_id"]) == (4, "w3")
        ids = [seen[0][0], seen[1][0], seen[2][0], name]
        assert ids == [(await page(one.client, limit=n))["next_cursor"] for n in range(1, 5)]
        for start in (
            {"last": ids[1]},
            {"after": ids[1]},
            {"last": ids[1], "after": ids[3]},
            {"last": ids[1], "after": "now"},
        ):
            async with following(one.client, **start) as stream:
                assert [(await read(stream))[1]["position"] for _ in range(2)] == [3, 4]


async def test_a_stream_takes_the_filter_and_the_fields_of_the_list(api: Api) -> None:
    exact = '{"b": 1.0, "a":[1e400, 9223372036854775809] }'
    query = {"type": ["invocation.started", "invocation.ended"], "include": "input,output"}
    async with api() as one:
        await change(one.client, "w")
        made = await one.client.post("/v1/workflows/w/versions", json={"dsl": {}, "operation": "init", "nodes": []})
        body = f'{{"id":"i","version_id":"{made.json()["id"]}","input":{exact}}}'
        async with following(one.client, **query) as stream:
            started = await one.client.post(
                "/v1/invocations", content=body, headers={"content-type": "application/json"}
            )
            assert started.status_code == 201, started.text
            _, _, data = await stream.event()
            assert data.endswith(f',"input":{exact},"output":null}}}}')
            ended = await one.client.post("/v1/invocations/i/end", json={"status": "failed"})
            assert ended.status_code == 200, ended.text
            assert (await read(stream))[1]["type"] == "invocation.ended"
        refusal = await refused(one.client, include="secret")
        assert problem(refusal) == (422, "invalid_input")
        for text in ("workflow.*", "workflow.creatd", "webhook.test"):
            assert problem(await refused(one.client, type=text)) == (422, "invalid_input"), text
            assert problem(await one.client.get("/v1/events", params={"type": text})) == (422, "invalid_input"), text
        for extra in ("limit", "wait_seconds"):
            assert problem(await refused(one.client, **{extra: 5})) == (422, "invalid_input")


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        ("*/*", False),
        ("application/json", False),
        ("text/event-stream", True),
        ("text/event-stream;q=0.4, application/json;q=0.5", False),
        ("text/event-stream;q=0.5, application/json;q=0.4", True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("text/event-stream, */*", True),
    ],
)
async def test_who_asks_for_a_stream_gets_one_and_everybody_else_the_list(
    client: Any, accept: str, streams: bool
) -> None:
    answer = await client.get("/v1/events", headers={"accept": accept})
    kind = "text/event-stream" if streams else "application/json"
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
    assert answer.headers["vary"] == "Accept"


async def test_a_stream_from_now_on_tells_where_it_stands_before_there_is_an_event(api: Api) -> None:
    async with api() as one:
        await change(one.client, "before")
        await head(one, 1)
        async with one.client.stream("GET", "/v1/events", params={"after": "now"}, headers=STREAM) as answer:
            ids = (line.removeprefix("id: ") async for line in answer.aiter_lines() if line.startswith("id: "))
            async with asyncio.timeout(20):
                here = await anext(ids)
        assert here == (await page(one.client, after="now"))["next_cursor"]
        await change(one.client, "after")
        async with following(one.client, here, after="now") as stream:
            assert (await read(stream))[1]["subject_id"] == "after"


async def test_a_stream_that_shows_nothing_of_what_happens_moves_its_client_on(
    api: Api, beside: asyncpg.Connection
) -> None:
    async with api() as one, one.client.stream(
        "GET", "/v1/events", params={"type": "workflow.deleted"}, headers=STREAM
    ) as answer:  # fmt: skip
        await one.readers(1)
        await beside.execute(INSERT, "workflow.updated", "w", PASSED_MAX + 1)
        ids = (line.removeprefix("id: ") async for line in answer.aiter_lines() if line.startswith("id: "))
        async with asyncio.timeout(20):
            here = await anext(ids)
        follow = await page(one.client, after=here, limit=1000)
        assert len(follow["items"]) < PASSED_MAX


async def test_a_long_poll_answers_at_once_where_there_is_something_and_else_waits(api: Api) -> None:
    async with api() as one:
        nothing = await page(one.client, wait_seconds=0.2)
        assert nothing["items"] == []
        await change(one.client, "w0")
        await head(one, 1)
        found = await page(one.client, after=nothing["next_cursor"], wait_seconds=60)
        assert [event["subject_id"] for event in found["items"]] == ["w0"]
        for start in (found["next_cursor"], "now"):
            waiting = asyncio.create_task(page(one.client, after=start, wait_seconds=60, type="workflow.deleted"))
            await one.readers(1)
            await change(one.client, f"of {start}")
            assert (await one.client.delete(f"/v1/workflows/of {start}")).is_success
            assert [event["subject_id"] for event in (await waiting)["items"]] == [f"of {start}"]
        for text in ("-1", "61", "x"):
            answer = await one.client.get("/v1/events", params={"wait_seconds": text})
            assert problem(answer) == (422, "invalid_input"), text
        inside = {"operations": [{"method": "GET", "path": "/v1/events?wait_seconds=1"}]}
        assert problem(await one.client.post("/v1/batch", json=inside)) == (422, "invalid_input")


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


async def test_a_reader_that_catches_up_is_given_a_page_at_a_time(api: Api) -> None:
    async with api() as one:
        for number in range(230):
            await change(one.client, f"w{number}", **({"text": "x" * 700_000} if number % 50 == 0 else {}))
        async with following(one.client) as stream:
            found = [(await read(stream))[1]["position"] for _ in range(230)]
        assert found == list(range(1, 231))


async def test_a_page_ends_before_it_is_too_much_to_hold(api: Api) -> None:
    async with api() as one:
        for number in range(24):
            await change(one.client, f"w{number}", text="x" * 1_000_000)
        made = await one.client.post("/v1/workflows/w0/versions", json={"dsl": {}, "operation": "init", "nodes": []})
        for number in range(3):
            body = {"id": f"i{number}", "version_id": made.json()["id"], "input": "y" * 9_000_000}
            assert (await one.client.post("/v1/invocations", json=body)).status_code == 201
        await head(one, 28)
        found, cursor, sizes = [], None, []
        while len(found) < 28:
            given = {} if cursor is None else {"after": cursor}
            answer = await page(one.client, limit=1000, include="input", **given)
            sizes.append(len(json.dumps(answer)))
            assert answer["items"], cursor
            found += [event["position"] for event in answer["items"]]
            cursor = answer["next_cursor"]
        assert found == list(range(1, 29))
        assert max(sizes) < 36_000_000


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
