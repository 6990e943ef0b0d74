"""Rate limits: one bucket for all processes while Redis is there, one in each while it is not; none stays for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.cache.cache import Key
from app.embedded import Servers
from app.embedded.process import free_port
from app.errors import RateLimited
from app.http.caller import Rate
from app.http.limits import KIND, RateLimits
from tests.api_process import serving
from tests.cache.caching import cache, limited, looking, own_redis
from tests.conftest import ADMIN_KEY, http, new_tenant, running, settings_for
from tests.waiting import eventually

SLOW = Rate("tenant", 1, 100)
PREFIX = "limits"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Servers]:
    with own_redis(tmp_path, free_port()) as server:
        yield server


async def takes(limits: RateLimits, count: int, tenant: str = "acme", rate: Rate = SLOW) -> int:
    """How many of so many requests at once are let through."""
    ended = await asyncio.gather(*(limits.take(tenant, rate) for _ in range(count)), return_exceptions=True)
    assert {type(how) for how in ended} <= {dict, RateLimited}
    return sum(isinstance(how, dict) for how in ended)


@asynccontextmanager
async def processes(url: str, count: int = 2) -> AsyncIterator[list[RateLimits]]:
    """The limits of so many processes that share a Redis."""
    async with AsyncExitStack() as stack:
        yield [RateLimits(await stack.enter_async_context(cache("tolerant", url, PREFIX))) for _ in range(count)]


async def test_processes_share_the_bucket_of_a_tenant_and_no_other(own: Servers) -> None:
    async with processes(own.redis_url) as limits:
        started = time.monotonic()
        taken = sum(await asyncio.gather(*(takes(one, 150) for one in limits)))
        assert 100 <= taken <= 100 + (time.monotonic() - started) * SLOW.per_second + 1
        assert await takes(limits[0], 150, "other") >= 100
        assert await takes(limits[0], 3, rate=Rate("write", 1, 2)) == 2


async def test_a_bucket_fills_by_the_servers_clock_and_never_over_its_burst(own: Servers) -> None:
    rate, name = Rate("tenant", 1, 5), f"{PREFIX}:{KIND}:acme:tenant"
    async with processes(own.redis_url, 1) as (limits,):
        with looking(own.redis_url) as client:
            # The last time lies so many seconds ago; one that lies ahead, by a clock that was set back, fills nothing.
            for seconds, left in ((2, '"tenant";r=2;t=3'), (3600, '"tenant";r=4;t=1'), (-3600, '"tenant";r=0;t=5')):
                now, part = client.time()
                client.set(name, f"1.000000 {now * 1_000_000 + part - seconds * 1_000_000}")
                assert (await limits.take("acme", rate))["RateLimit"] == left


async def test_b26_no_bucket_is_without_an_expiry_and_one_that_is_found_so_is_repaired(own: Servers) -> None:
    name = f"{PREFIX}:{KIND}:acme:tenant"
    async with processes(own.redis_url, 1) as (limits,):
        with looking(own.redis_url) as client:
            for kept in (b"0.000000 1", b"nonsense", b"", b"7"):
                client.set(name, kept)
                assert client.ttl(name) == -1
                await limits.take("acme", SLOW)
                assert 0 < client.pttl(name) <= 101_000
            # Another type, or what Lua takes for a number and no bucket holds.
            for kept in (b"nan 1", b"inf 1", b"-5.0 1", b"0x1p4 1e99", None):
                client.delete(name)
                client.set(name, kept) if kept else client.rpush(name, "x")
                assert (await limits.take("acme", SLOW))["RateLimit"] == '"tenant";r=99;t=1', kept
                assert 0 < client.pttl(name) <= 101_000
            # Refused or not.
            assert await takes(limits, 150) >= 99
            client.persist(name)
            with pytest.raises(RateLimited):
                await limits.take("acme", SLOW)
            assert 0 < client.pttl(name) <= 101_000
            # A program that was flushed is told again.
            client.flushall()
            client.script_flush()
            assert await takes(limits, 150) >= 100


async def test_without_redis_each_process_holds_the_limit_alone_and_shares_it_again_after(tmp_path: Path) -> None:
    port = free_port()
    with own_redis(tmp_path, port) as server:
        url = server.redis_url
        async with processes(url) as limits:
            assert await takes(limits[0], 150) >= 100
            assert await takes(limits[1], 50) <= 2
            await asyncio.to_thread(server.stop)
            for one in limits:
                assert 100 <= await takes(one, 150) <= 102
            with await asyncio.to_thread(own_redis, tmp_path, port), looking(url) as client:

                async def shared() -> bool:
                    for one in limits:
                        client.flushall()
                        await takes(one, 1)
                        if not client.keys("*"):
                            return False
                    return True

                await eventually(shared, "Redis")
                await takes(limits[0], 150)
                assert await takes(limits[1], 50) <= 2


async def test_two_api_processes_let_through_what_one_tenant_may_send(
    clone: Callable[[], Awaitable[str]], own: Servers
) -> None:
    database = await clone()
    with serving(database, redis__url=own.redis_url) as first, serving(database, redis__url=own.redis_url) as second:
        async with await limited(first.url, {"requests_per_second": 1, "burst": 20}) as client:

            async def statuses(url: str) -> list[int]:
                return [(await client.get(f"{url}/v1/workflows")).status_code for _ in range(30)]

            async def served() -> tuple[int, int, float]:
                started = time.monotonic()
                found = await asyncio.gather(statuses(first.url), statuses(second.url))
                assert {status for side in found for status in side} == {200, 429}
                return found[0].count(200), found[1].count(200), time.monotonic() - started

            here, there, seconds = await served()
            assert 20 <= here + there <= 20 + seconds + 1
            await asyncio.to_thread(own.stop)
            here, there, seconds = await served()
            for side in (here, there):
                assert 20 <= side <= 20 + seconds + 1


async def test_b26_an_api_that_is_killed_while_redis_hangs_leaves_no_bucket_without_an_expiry(
    clone: Callable[[], Awaitable[str]], own: Servers
) -> None:
    with serving(await clone(), redis__url=own.redis_url) as process:
        async with await limited(process.url, {"requests_per_second": 1000}) as client:

            async def load() -> None:
                with suppress(httpx.HTTPError):
                    while True:
                        await client.get("/v1/workflows")

            loads = [asyncio.create_task(load()) for _ in range(20)]
            with looking(own.redis_url) as look:

                async def kept() -> bool:
                    return bool(look.keys("*"))

                await eventually(kept, "a bucket")
            for pid in own.pids().values():
                os.kill(pid, signal.SIGSTOP)
            process.send(signal.SIGKILL)
            await asyncio.gather(*loads)
    for pid in own.pids().values():
        os.kill(pid, signal.SIGCONT)
    with looking(own.redis_url) as look:
        names = look.keys("*")
        assert [name for name in names if look.pttl(name) < 0] == []


async def test_reads_and_writes_may_have_limits_of_their_own(
    clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    settings = settings_for(await clone(), redis={"url": servers.redis_url, "key_prefix": "classes", "wait_seconds": 5})
    async with running(settings) as service, await new_tenant(service) as client:
        async with http(service, authorization=f"Bearer {ADMIN_KEY}") as operator:
            path = f"/v1/tenants/{client.headers['x-test-tenant']}/limits"
            limits = {"requests_per_second": 1, "burst": 9, "classes": {"write": {"requests_per_second": 2}}}
            assert (await operator.put(path, json=limits)).json() == limits
            wrong = await operator.put(path, json={"classes": {"write": {"burst": 2}}})
            assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (
                422, "/classes/write/requests_per_second",
            )  # fmt: skip
        read = await client.get("/v1/workflows")
        assert read.headers["ratelimit-policy"] == '"tenant";q=9;w=9'
        written = [await client.post("/v1/workflows", json={}) for _ in range(4)]
        assert [answer.status_code for answer in written][::3] == [201, 429]
        assert written[0].headers["ratelimit-policy"] == '"write";q=2;w=1'
        assert "2 writes a second" in written[-1].json()["detail"]
        # A read that is sent as a POST, because what it asks for is long, is a read.
        lookup = await client.post("/v1/dataset-records/lookup", json={"ids": [], "allow_missing": True})
        assert lookup.headers["ratelimit-policy"] == '"tenant";q=9;w=9'


async def test_a_tenant_without_limits_asks_redis_nothing(
    clone: Callable[[], Awaitable[str]], servers: Servers
) -> None:
    settings = settings_for(await clone(), redis={"url": servers.redis_url, "key_prefix": "free"})
    async with running(settings) as service, await new_tenant(service) as client:
        assert (await client.get("/v1/workflows")).status_code == 200
        assert 'command="limit take"' not in (await client.get("/metrics")).text
    with looking(servers.redis_url) as look:
        assert look.keys("free:*") == []


async def test_a_bucket_is_kept_under_its_tenant_and_its_class(own: Servers) -> None:
    async with processes(own.redis_url, 1) as (limits,):
        await limits.take("acme", Rate("read", 1, 1))
        with looking(own.redis_url) as look:
            key = Key(KIND, "acme", "read")
            assert look.keys("*") == [f"{PREFIX}:{key.kind}:{key.tenant_id}:{key.name}".encode()]
