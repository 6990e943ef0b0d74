"""B28. Redis hangs for ten seconds under load, before every request: none fails, and the slowest are hardly slower."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.faults.parts import paused, valkey_part
from tests.api_process import serving
from tests.faults.living import BOUND_SECONDS, Living, living
from tests.waiting import eventually

CLIENTS = 16
NORMAL_SECONDS, PAUSE_SECONDS = 6.0, 10.0
# A machine that is busy with other things for some seconds may make any of them slow, but not in each try; and what it
# adds to the slowest differs from one second to the next by as much as it adds.
TRIES, BUSY = 3, 1.5


class Load:
    """Clients that read and write, one request after another. `took` are the seconds of those that began since."""

    def __init__(self, tenant: Living) -> None:
        self._client = tenant.client
        self.took: list[float] = []
        self.statuses: dict[int, int] = {}
        self._going = True
        self._tasks = [asyncio.create_task(self._run(place)) for place in range(CLIENTS)]

    async def _run(self, place: int) -> None:
        number = 0
        while self._going:
            number += 1
            name = f"load-{place}-{number}"
            for method, path, body in (("POST", "/v1/workflows", {"id": name}), ("GET", f"/v1/workflows/{name}", None)):
                took, started = self.took, time.monotonic()
                answer = await self._client.request(method, path, json=body)
                took.append(time.monotonic() - started)
                self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1

    async def during(self, seconds: float) -> list[float]:
        """What requests took that began within so many seconds from now on."""
        self.took = found = []
        # Time has to pass: what is measured is what happens meanwhile.
        await asyncio.wait(self._tasks, timeout=seconds)
        self.took = []
        return found

    async def end(self) -> None:
        """Stop, once what is under way was answered. Raises what any of the clients met."""
        self._going = False
        await asyncio.gather(*self._tasks)


def p99(seconds: list[float]) -> float:
    """What 99 of 100 stayed below."""
    return statistics.quantiles(seconds, n=100)[98]


def is_near(normal: float, hanging: float) -> bool:
    """Whether the slowest were hardly slower."""
    return hanging < normal * BUSY + BOUND_SECONDS


async def test_b28_ten_seconds_of_a_hanging_redis_cost_the_slowest_requests_less_than_the_bound(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    valkey = valkey_part(tmp_path)
    await asyncio.to_thread(valkey.start)
    try:
        with serving(await clone(), redis__url=valkey.url) as process:
            async with living(process) as (tenant, seen):
                load = Load(tenant)
                figures = []
                for _ in range(TRIES):
                    await eventually(seen.without, "Redis")
                    before = await load.during(NORMAL_SECONDS)
                    with paused(valkey):
                        hanging = await load.during(PAUSE_SECONDS)
                        assert await seen.without("redis")
                    await eventually(seen.without, "its going on")
                    # Before and after: what else the machine does comes and goes.
                    normal = before + await load.during(NORMAL_SECONDS)
                    figures.append((p99(normal), p99(hanging)))
                    if is_near(*figures[-1]):
                        break
                await load.end()
                metrics = (await seen.client.get("/metrics")).text
    finally:
        valkey.kill()
    assert set(load.statuses) == {200, 201}
    assert is_near(*figures[-1]), figures
    # It was before every request, and so it was what hung.
    assert 'cairn_redis_command_seconds_count{command="limit take"}' in metrics
