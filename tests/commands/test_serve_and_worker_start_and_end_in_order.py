"""`cairn serve` and `cairn worker` as processes: what they refuse, and how they end (B19, B40)."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import httpx
import psutil
import pytest

from app.db.revision import SchemaRefused
from app.main import create_app
from tests.api_process import Command, serving
from tests.conftest import ADMIN_KEY, settings_for
from tests.waiting import eventually, until

KEY = {"authorization": f"Bearer {ADMIN_KEY}"}


def refusal(*arguments: str, url: str, **settings: object) -> str:
    """The one sentence with which a command ends; its status is 1, and there is no stack."""
    ended = Command(*arguments, url=url, **settings)
    try:
        assert ended.wait() == 1, ended.output()
        said = ended.output().strip()
    finally:
        ended.close()
    assert len(said.splitlines()) == 1, said
    return said


async def test_b40_serve_and_worker_refuse_another_schema_in_one_sentence(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    async with holder_of(url) as connection:
        for revision, advice in (("0001", "run `cairn migrate`"), ("9999", "ahead of the code")):
            await connection.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
            assert advice in refusal("serve", "--port", "0", url=url)
            assert advice in refusal("worker", url=url)
            with pytest.raises(SchemaRefused, match=advice):
                async with create_app(settings_for(url)).router.lifespan_context(None):  # type: ignore[arg-type]
                    raise AssertionError("it started")


async def test_serve_refuses_to_make_everyone_the_operator(clone: Callable[[], Awaitable[str]]) -> None:
    url = await clone()
    said = refusal("serve", "--host", "0.0.0.0", "--port", "0", url=url, auth__mode="off")
    assert "CAIRN_AUTH__MODE=off" in said
    with serving(url, http__host="0.0.0.0", auth__mode="off", auth__allow_off_anywhere=True) as process:
        async with httpx.AsyncClient(base_url=process.url) as client:
            assert (await client.put("/v1/workflows/w", json={})).status_code == 201


async def test_a_taken_port_is_one_sentence(clone: Callable[[], Awaitable[str]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"Port {port} of 127.0.0.1 is taken" in refusal("serve", "--port", port, url=await clone())


async def test_worker_gives_events_their_positions_beside_an_api_without_jobs(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    worker = Command("worker", url=url)
    try:
        with serving(url, background__enabled=False) as process:
            until(lambda: "running" in worker.output(), "the worker")
            async with httpx.AsyncClient(base_url=process.url, headers=KEY) as client:
                await client.put("/v1/tenants/acme", json={})
                client.headers["x-tenant-id"] = "acme"
                await client.put("/v1/workflows/w", json={})

                async def sequenced() -> bool:
                    return bool((await client.get("/v1/events")).json()["items"])

                await eventually(sequenced, "the event")
            worker.send(signal.SIGTERM)
            assert worker.wait(10) == 0
            assert "Traceback" not in worker.output()
    finally:
        worker.close()


async def test_b19_a_write_in_flight_ends_and_the_process_exits_within_its_grace(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    settings = {"background__enabled": True, "http__grace_seconds": 10, "database__lock_seconds": 30}
    async with holder_of(url) as holder:
        with serving(url, **settings) as process:
            async with httpx.AsyncClient(base_url=process.url, headers=KEY, timeout=30) as client:
                assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
                # Kept open without a request, as a proxy does: it must not hold up the end.
                async with httpx.AsyncClient(base_url=process.url) as idle:
                    assert (await idle.get("/healthz")).status_code == 200
                    async with holder.transaction():
                        write = await held_write(client, holder)
                        process.send(signal.SIGTERM)
                        until(lambda: "Shutting down" in process.output(), "the shutdown")
                        assert not write.done()
                    assert (await write).status_code == 201
            assert process.wait(10) == 0
            assert "Traceback" not in process.output()
        assert await holder.fetchval("SELECT count(*) FROM workflows") == 1


async def test_b19_a_request_that_outlasts_the_grace_is_told_so_and_the_process_exits(
    clone: Callable[[], Awaitable[str]],
) -> None:
    url = await clone()
    settings = {"background__enabled": True, "http__grace_seconds": 3, "database__lock_seconds": 30}
    async with holder_of(url) as holder:
        with serving(url, **settings) as process:
            async with httpx.AsyncClient(base_url=process.url, headers=KEY, timeout=30) as client:
                assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
                async with holder.transaction():
                    write = await held_write(client, holder)
                    started = time.monotonic()
                    process.send(signal.SIGTERM)
                    assert await asyncio.to_thread(process.wait, 10) == 0
                    assert time.monotonic() - started < 4.5
                    answer = await write
                    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert "Traceback" not in process.output()
        assert await holder.fetchval("SELECT count(*) FROM workflows") == 0


async def held_write(client: httpx.AsyncClient, holder: asyncpg.Connection) -> asyncio.Task[httpx.Response]:
    """A write that has begun and waits for the lock that the holder takes in its transaction."""
    await holder.execute("LOCK TABLE workflows IN EXCLUSIVE MODE")
    headers = {"x-tenant-id": "acme"}
    write = asyncio.create_task(client.put("/v1/workflows/w", json={}, headers=headers))

    async def waits() -> bool:
        return bool(
            await holder.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)) AND datname = current_database()"
            )
        )

    await eventually(waits, "the write that waits")
    return write


@asynccontextmanager
async def holder_of(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database, for the length of a block."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_several_api_processes_share_a_port_and_add_up_their_metrics(
    clone: Callable[[], Awaitable[str]],
) -> None:
    with serving(await clone(), http__workers=2) as process:
        async with httpx.AsyncClient(base_url=process.url) as client:
            # The port listens before both processes serve; a connection waits in its queue until one does.
            answers = await asyncio.gather(*(client.get("/healthz", timeout=60) for _ in range(20)))
            assert {answer.status_code for answer in answers} == {200}
            metrics = (await client.get("/metrics")).text
        counted = re.search(r'cairn_http_requests_total{method="GET",route="/healthz",status="200"} (\d+)', metrics)
        assert counted is not None
        assert int(counted[1]) == 20
        process.send(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
        assert "Traceback" not in process.output()


async def test_api_processes_do_not_outlive_the_one_that_started_them(clone: Callable[[], Awaitable[str]]) -> None:
    with serving(await clone(), http__workers=2) as process:
        async with httpx.AsyncClient(base_url=process.url) as client:
            assert (await client.get("/healthz", timeout=60)).status_code == 200
        family = psutil.Process(process.process.pid).children(recursive=True)
        assert len(family) >= 2
        process.send(signal.SIGKILL)
        process.wait(20)
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 20)
        assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


async def test_b19_streams_and_long_polls_of_every_process_end_with_it(clone: Callable[[], Awaitable[str]]) -> None:
    with serving(await clone(), http__workers=2, http__grace_seconds=20) as process:
        async with httpx.AsyncClient(base_url=process.url, headers=KEY, timeout=60) as client:
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
            client.headers["x-tenant-id"] = "acme"

            async def followed() -> list[str]:
                async with client.stream("GET", "/v1/conversations/events", params={"path": "p"}) as answer:
                    assert answer.status_code == 200
                    # A stream that was cut off, in place of ended, raises here.
                    return [line async for line in answer.aiter_lines()]

            async def polled() -> httpx.Response:
                query = {"path": "p", "live": "long-poll", "wait_seconds": "30"}
                return await client.get("/v1/conversations/read", params=query)

            waiting = [asyncio.create_task(followed()) for _ in range(6)]
            polls = [asyncio.create_task(polled()) for _ in range(6)]

            async def all_wait() -> bool:
                text = (await client.get("/metrics")).text
                return "cairn_live_readers 12.0" in text

            await eventually(all_wait, "twelve readers")
            begun = time.monotonic()
            process.send(signal.SIGTERM)
            for lines in await asyncio.gather(*waiting):
                assert set(lines) <= {":", ""}
            assert {answer.status_code for answer in await asyncio.gather(*polls)} == {200}
        assert process.wait(20) == 0
        assert time.monotonic() - begun < 10
        assert "Traceback" not in process.output()
