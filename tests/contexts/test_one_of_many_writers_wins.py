"""Preconditions hold under races; a write that is cut leaves what was there."""

from __future__ import annotations

import asyncio
from asyncio import gather
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import httpx

from app.http.service import Service
from tests.api_process import serving
from tests.conftest import ADMIN_KEY, Make, new_tenant
from tests.contexts.contexts import MIB, at, get, post, put, sample, told
from tests.payloads import codes, problem
from tests.waiting import held_up

ONLY_NEW = {"if-none-match": "*"}
HEADERS = {"authorization": f"Bearer {ADMIN_KEY}", "x-tenant-id": "acme"}


async def test_only_one_of_many_writers_creates(client: httpx.AsyncClient) -> None:
    for key in ("a", "b"):
        answers = await gather(
            *(put(client, key, b"%d" % number, headers=ONLY_NEW, summary=str(number)) for number in range(20))
        )
        assert codes(answers) == [201] + [412] * 19
        won = next(answer for answer in answers if answer.status_code == 201)
        refused = next(answer for answer in answers if answer.status_code == 412)
        assert refused.json()["code"] == "precondition_failed"
        assert refused.json()["current_etag"] == won.headers["etag"]
        read = await get(client, key)
        assert read.text == told(read)["summary"] == won.json()["summary"]


async def test_only_one_of_many_writers_replaces_what_they_all_read(client: httpx.AsyncClient) -> None:
    tag = (await put(client)).headers["etag"]
    answers = await gather(*(put(client, content=b"%d" % n, headers={"if-match": tag}) for n in range(10)))
    assert codes(answers) == [200] + [412] * 9
    current = (await get(client)).headers["etag"]
    assert problem(await client.delete(at("k"), headers={"if-match": tag})) == (412, "precondition_failed")
    removals = await gather(*(client.delete(at("k"), headers={"if-match": current}) for _ in range(5)))
    assert codes(removals) == [204] + [404] * 4


async def test_two_who_copy_across_take_turns(fresh: Service) -> None:
    gate = await asyncpg.connect(fresh.ground.database.url)
    async with await new_tenant(fresh) as client:
        await Make(client).invocation(id="i")
        for key in ("a", "b"):
            await put(client, key, key.encode())

        async def copied(source: str, target: str) -> httpx.Response:
            place = {"scope": "workflow", "key": source}
            return await post(client, "copy", source=place, target={"key": target}, overwrite=True)

        async with gate.transaction():
            await gate.execute("SELECT FROM contexts WHERE key = 'a' FOR UPDATE")
            first = asyncio.create_task(copied("a", "b"))
            await held_up(fresh)
            second = asyncio.create_task(copied("b", "a"))
            await held_up(fresh, 2)
        assert codes(await gather(first, second)) == [200, 200]
        assert [(await get(client, key)).text for key in ("a", "b")] == ["a", "a"]
    found = await gate.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await gate.close()
    assert found == 0


async def test_nothing_is_made_under_if_match(client: httpx.AsyncClient) -> None:
    for tag in ("*", '"1"'):
        assert problem(await put(client, headers={"if-match": tag})) == (412, "precondition_failed")
    assert (await get(client)).status_code == 404
    tag = (await put(client)).headers["etag"]
    both = await put(client, headers={"if-match": tag, **ONLY_NEW})
    assert (problem(both), both.json()["current_etag"]) == ((412, "precondition_failed"), tag)
    # Gone and there again, it is another one: who read the first has not read this.
    await client.delete(at("k"))
    await put(client)
    assert (await put(client, headers={"if-match": tag})).status_code == 412


async def test_if_none_match_names_no_etags_on_a_write(client: httpx.AsyncClient) -> None:
    refused = await put(client, headers={"if-none-match": '"1"'})
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == "If-None-Match"


async def test_a_key_has_one_effect_and_the_bytes_are_part_of_the_request(client: httpx.AsyncClient) -> None:
    key = {"idempotency-key": "k"}
    answers = await gather(*(put(client, headers={**key, **ONLY_NEW}) for _ in range(3)))
    assert codes(answers) == [201] * 3
    assert len({answer.content for answer in answers}) == 1
    await client.delete(at("k"))
    assert (await put(client, headers={**key, **ONLY_NEW})).headers["idempotency-replayed"] == "true"
    assert (await get(client)).status_code == 404
    reused = await put(client, content=b"DATA", headers=key)
    assert problem(reused) == (422, "idempotency_key_reused")


async def test_two_processes_write_one_key_and_one_of_them_goes(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    async with AsyncExitStack() as stack:
        processes = [stack.enter_context(serving(url)) for _ in range(2)]
        operator = await stack.enter_async_context(
            httpx.AsyncClient(base_url=processes[0].url, headers={"authorization": HEADERS["authorization"]})
        )
        assert (await operator.put("/v1/tenants/acme", json={})).status_code == 201
        one, two = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=process.url, headers=HEADERS, timeout=30))
            for process in processes
        ]
        await Make(one).invocation(id="i")
        answers = await gather(
            *(put(one if number % 2 else two, content=b"%d" % number, headers=ONLY_NEW) for number in range(12))
        )
        assert codes(answers) == [201] + [412] * 11
        old = (await get(two)).content
        head = [f"PUT {at('k')}?summary=new HTTP/1.1", "Host: x", f"Content-Length: {3 * MIB}",
                *(f"{name}: {value}" for name, value in HEADERS.items()), "", ""]  # fmt: skip
        # Of one the client goes before all bytes are there, of the other the process.
        for process in reversed(processes):
            host, _, port = process.url.removeprefix("http://").rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write("\r\n".join(head).encode() + sample(2 * MIB))
            await writer.drain()
            if process is processes[0]:
                process.process.kill()
                process.process.wait(10)
            writer.transport.abort()
            read = await get(two)
            assert (read.status_code, read.content, told(read)["summary"]) == (200, old, old.decode())
        assert (await put(two, content=b"after")).status_code == 200
