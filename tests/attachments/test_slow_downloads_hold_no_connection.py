"""B16: with a pool of two, six downloads that nobody reads on, and a seventh request that is answered at once."""

from __future__ import annotations

import asyncio
from asyncio import gather
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import httpx
import pytest

from tests.api_process import serving
from tests.attachments.uploads import MIB, put, reference, sample
from tests.conftest import ADMIN_KEY
from tests.waiting import eventually

HEADERS = {"authorization": f"Bearer {ADMIN_KEY}", "x-tenant-id": "acme"}
SIZE = 48 * MIB
DOWNLOADS = 6
POOL = 2
LEFT = 10


async def test_b16_slow_downloads_and_slow_uploads_hold_no_connection(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    content = sample(SIZE)
    connection = await asyncpg.connect(url)
    with serving(url, database__pool_min=0, database__pool_max=POOL, database__acquire_seconds=1) as process:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                httpx.AsyncClient(base_url=process.url, headers=HEADERS, timeout=60)
            )
            del client.headers["x-tenant-id"]
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
            client.headers["x-tenant-id"] = "acme"
            assert (await put(client, content)).status_code == 201
            query = {name: reference(content)[name] for name in ("path", "id", "conversation_id")}
            started = [
                await stack.enter_async_context(client.stream("GET", "/v1/attachments", params=query))
                for _ in range(DOWNLOADS)
            ]
            assert [answer.status_code for answer in started] == [200] * DOWNLOADS
            go_on = asyncio.Event()

            async def slowly() -> object:
                yield content[: 2 * MIB]
                await go_on.wait()
                yield content[2 * MIB :]

            slow = [
                asyncio.create_task(
                    client.put("/v1/attachments", params=reference(content, id=f"slow{number}"), content=slowly())
                )
                for number in range(3)
            ]

            async def idle() -> bool:
                busy: int = await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cairn' AND state <> 'idle'"
                    " AND datname = current_database()"
                )
                return busy == 0

            await eventually(idle, "a pool at rest while six clients read slowly")
            answers = await gather(*(client.get("/v1/workflows") for _ in range(8)))
            assert {answer.status_code for answer in answers} == {200}
            assert await idle()
            go_on.set()
            assert [answer.status_code for answer in await gather(*slow)] == [201] * 3
            for answer in started:
                assert await answer.aread() == content
    await connection.close()


async def test_a_deletion_cuts_the_downloads_that_are_under_way(clone: Callable[[], Awaitable[str]]) -> None:
    content = sample(SIZE)
    with serving(await clone()) as process:
        operator = {"authorization": HEADERS["authorization"]}
        async with httpx.AsyncClient(base_url=process.url, headers=operator, timeout=60) as client:
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
            client.headers["x-tenant-id"] = "acme"
            assert (await put(client, content)).status_code == 201
            query = {name: reference(content)[name] for name in ("path", "id", "conversation_id")}
            async with client.stream("GET", "/v1/attachments", params=query) as answer:
                deleted = await client.delete("/v1/attachments", params={"path": query["path"]})
                assert deleted.json() == {"deleted": 1}
                received = bytearray()

                async def read_on() -> None:
                    async for part in answer.aiter_raw():
                        received.extend(part)

                with pytest.raises(httpx.RemoteProtocolError):
                    await read_on()
            assert len(received) < len(content)
            assert content.startswith(received)
            assert (await client.get("/v1/workflows")).status_code == 200


async def test_what_a_client_left_is_read_no_further(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    content = sample(SIZE)
    connection = await asyncpg.connect(url)
    with serving(url, database__pool_max=1) as process:
        operator = {"authorization": HEADERS["authorization"]}
        async with httpx.AsyncClient(base_url=process.url, headers=operator, timeout=60) as client:
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
            client.headers["x-tenant-id"] = "acme"
            assert (await put(client, content)).status_code == 201
            query = {name: reference(content)[name] for name in ("path", "id", "conversation_id")}
            for _ in range(LEFT):
                async with client.stream("GET", "/v1/attachments", params=query) as answer:
                    assert answer.status_code == 200

            async def ended() -> bool:
                told = (await client.get("/metrics")).text
                return f'requests_total{{method="GET",route="/v1/attachments",status="200"}} {LEFT}.0' in told

            await eventually(ended, "the end of every download")
    # The sessions have ended with the service, and told how many chunks they looked up.
    looked_up = "SELECT idx_scan + seq_scan FROM pg_stat_user_tables WHERE relname = 'content_chunks'"

    async def told() -> bool:
        return bool(await connection.fetchval(looked_up) >= LEFT)

    await eventually(told, "what the sessions had to tell")
    assert await connection.fetchval(looked_up) < LEFT * SIZE // MIB // 2
    await connection.close()
