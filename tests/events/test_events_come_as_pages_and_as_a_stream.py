"""The forms of the feed: pages, pages that wait, and a stream, and what each of them shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from app.events.live import PASSED_MAX
from tests.events.feed import INSERT, STREAM, change, following, head, page, read, refused
from tests.payloads import problem

Api = Callable[..., Any]


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
