"""Redis hangs, dies and comes back empty while a lease is held: its holder renews, and nobody else gets it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from app.embedded.process import free_port
from app.http.service import Service
from app.leases.liveness import Liveness
from tests.cache.caching import own_redis
from tests.conftest import new_tenant, running, settings_for
from tests.leases.calls import Leases
from tests.payloads import problem
from tests.waiting import eventually

WAIT_SECONDS = 1.0


async def seen(service: Service) -> bool:
    """Whether the service sees Redis."""
    (sight,) = await Liveness(service.ground.cache).look("t", ["l"])
    return sight.seen


async def unseen(service: Service) -> bool:
    """Whether it does not."""
    return not await seen(service)


async def carried(service: Service, leases: Leases) -> bool:
    """Whether Redis carries the lease."""
    (sight,) = await Liveness(service.ground.cache).look(leases.client.headers["x-test-tenant"], ["l"])
    return sight.token is not None


async def holds(leases: Leases) -> None:
    """The holder goes on, soon, and somebody else is refused."""
    started = time.monotonic()
    before = (await leases.client.get("/v1/leases/l")).json()["expires_at"]
    assert (await leases.renew("a", 1))["expires_at"] > before
    assert problem(await leases.ask("acquire", holder="b")) == (409, "lease_held")
    written = await leases.client.put("/v1/workflows/w", json={}, headers={"lease": "l;1"})
    assert written.is_success
    # Five calls, each of which waits for Redis once at most, and what a busy machine adds.
    assert time.monotonic() - started < 5 * WAIT_SECONDS + 5


async def test_the_holder_goes_on_whatever_becomes_of_redis(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        with own_redis(tmp_path, port) as server:
            settings = settings_for(await clone(), redis={"url": server.redis_url, "wait_seconds": WAIT_SECONDS})
            service = await stack.enter_async_context(running(settings))
            leases = Leases(await stack.enter_async_context(await new_tenant(service)))
            assert await leases.acquire("a", lease_seconds=60) == 1
            await holds(leases)
            assert await carried(service, leases)
            pids = list(server.pids().values())
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                await holds(leases)
                await holds(leases)
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            await eventually(lambda: seen(service), "Redis after its pause")
            await holds(leases)
        await eventually(lambda: unseen(service), "the end of Redis")
        await holds(leases)
        with await asyncio.to_thread(own_redis, tmp_path, port):
            await eventually(lambda: seen(service), "Redis anew")
            assert not await carried(service, leases)
            await holds(leases)
            assert await carried(service, leases)
            await leases.release("a", 1)
            assert await leases.acquire("b") == 2
