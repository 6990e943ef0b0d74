"""B28, B30, B36. Redis and NATS away at the start, dying, hanging, coming back, emptied: the service goes on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import redis

from app.bus.declared import declared
from app.settings import NatsSettings
from benchmarks.faults.parts import EmbeddedPart, nats_part, paused, valkey_part
from tests.api_process import ApiProcess, of, serving
from tests.bus.working import asking, told
from tests.faults.living import DELIVERING, Seen, everything_arrives, living, require_near
from tests.waiting import eventually
from tests.webhooks.receiving import receiving

Clone = Callable[[], Awaitable[str]]


async def flushed(part: EmbeddedPart) -> None:
    """Redis has lost everything, programs included."""
    with redis.Redis.from_url(part.url) as client:
        client.flushall()
        client.script_flush()


async def deleted(part: EmbeddedPart) -> None:
    """Somebody has deleted every stream."""
    async with asking(part.url) as client:
        for one in declared(NatsSettings(), 1).values():
            await told(client, f"STREAM.DELETE.{one.name}")


KINDS = {"redis": (valkey_part, flushed), "nats": (nats_part, deleted)}


@pytest.mark.parametrize("name", KINDS)
async def test_b28_the_service_goes_on_whatever_becomes_of(name: str, clone: Clone, tmp_path: Path) -> None:
    make, empty = KINDS[name]
    part = make(tmp_path)
    async with receiving() as receiver:
        with serving(await clone(), **DELIVERING, **{f"{name}__url": part.url}) as process:
            async with living(process, receiver.url) as (tenant, seen):
                try:
                    # Away at the start.
                    assert await seen.without(name)
                    away = await tenant.rounds()
                    await everything_arrives(tenant, receiver)
                    # It comes.
                    part.start()
                    await eventually(seen.without, "its coming")
                    normal = await tenant.rounds()
                    require_near(normal, away)
                    # It hangs: from the first request on, and still when the process has given it up.
                    with paused(part):
                        require_near(normal, await tenant.rounds())
                        await eventually(lambda: seen.without(name), "that it hangs")
                        require_near(normal, await tenant.rounds())
                    await eventually(seen.without, "its going on")
                    require_near(normal, await tenant.rounds())
                    await everything_arrives(tenant, receiver)
                    # It dies.
                    part.kill()
                    require_near(normal, await tenant.rounds())
                    await eventually(lambda: seen.without(name), "its end")
                    await everything_arrives(tenant, receiver)
                    # It comes back.
                    part.start()
                    await eventually(seen.without, "its coming back")
                    require_near(normal, await tenant.rounds())
                    # It has lost everything.
                    await empty(part)
                    require_near(normal, await tenant.rounds())
                    await eventually(seen.without, "its repair")
                    require_near(normal, await tenant.rounds())
                    await everything_arrives(tenant, receiver)
                finally:
                    part.kill()
            # One process, from the first request to the last.
            assert process.process.poll() is None


async def test_b28_two_processes_go_on_while_both_hang_and_each_delivers_what_it_finds(
    clone: Clone, tmp_path: Path
) -> None:
    valkey, nats = valkey_part(tmp_path), nats_part(tmp_path)
    try:
        await asyncio.gather(asyncio.to_thread(valkey.start), asyncio.to_thread(nats.start))
        async with receiving() as receiver:
            settings = {**DELIVERING, "redis__url": valkey.url, "nats__url": nats.url}
            with serving(database := await clone(), **settings) as one, serving(database, **settings) as other:
                async with living(one, receiver.url) as (tenant, seen), of(other) as elsewhere:
                    elsewhere.headers["x-tenant-id"] = "acme"
                    await eventually(seen.without, "both")
                    normal = await tenant.rounds()
                    with paused(valkey), paused(nats):
                        require_near(normal, await tenant.rounds())
                        for each in (seen, Seen(elsewhere)):
                            await eventually(partial(each.without, "redis", "nats"), "that both hang")
                        require_near(normal, await tenant.rounds())
                    for each in (seen, Seen(elsewhere)):
                        await eventually(each.without, "both")
                    require_near(normal, await tenant.rounds())
                    await everything_arrives(tenant, receiver)
    finally:
        valkey.kill()
        nats.kill()


async def test_without_either_of_them_one_process_does_it_all(clone: Clone) -> None:
    async with receiving() as receiver:
        with serving(await clone(), **DELIVERING) as process:
            async with living(process, receiver.url) as (tenant, seen):
                await tenant.rounds()
                ready = await seen.ready()
                assert ready["status"] == "ready"
                assert [ready["components"][name]["mode"] for name in ("redis", "nats")] == ["embedded", "embedded"]
                await everything_arrives(tenant, receiver)


async def test_b36_what_was_answered_is_told_though_nats_is_away_and_the_api_is_killed(
    clone: Clone, tmp_path: Path
) -> None:
    part, database = nats_part(tmp_path), await clone()
    settings = {**DELIVERING, "nats__url": part.url}
    async with receiving() as receiver:
        process = ApiProcess(database, **settings)
        try:
            async with living(process, receiver.url) as (tenant, seen):
                assert await seen.without("nats")
                # Away, then there.
                for _ in range(2):
                    await tenant.rounds(1)
                    # Right after the answer: it may have told already, or not yet begun to.
                    process.send(signal.SIGKILL)
                    process.wait()
                    port = process.port
                    process.close()
                    process = await asyncio.to_thread(ApiProcess, database, port, **settings)
                    await everything_arrives(tenant, receiver)
                    part.kill()
                    await asyncio.to_thread(part.start)
                    await eventually(seen.without, "NATS")
        finally:
            process.close()
            part.kill()
