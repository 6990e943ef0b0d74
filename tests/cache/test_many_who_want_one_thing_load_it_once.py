"""One load for all who want the same thing at once, whatever becomes of who began it."""

from __future__ import annotations

import asyncio

import pytest

from app.cache.flights import Flights
from app.errors import Unavailable


class Source:
    """Something that is loaded slowly: each load waits for `gate`, and fails as often as it is told to."""

    def __init__(self, failing: int = 0) -> None:
        self.loads, self.failing, self.cancelled = 0, failing, 0
        self.gate = asyncio.Event()

    async def load(self) -> int:
        """The number of the load. Raises `Unavailable`."""
        self.loads += 1
        mine = self.loads
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if mine <= self.failing:
            raise Unavailable(f"Load {mine} failed.")
        return mine


async def begun(flights: Flights, source: Source, count: int, key: str = "a") -> list[asyncio.Task[int]]:
    """So many who wait for the same thing."""
    tasks = [asyncio.create_task(flights.one(key, source.load)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_many_who_come_at_once_cause_one_load_and_the_next_another() -> None:
    flights, source = Flights(), Source()
    tasks = await begun(flights, source, 100)
    others = await begun(flights, source, 100, "b")
    source.gate.set()
    assert await asyncio.gather(*tasks) == [1] * 100
    assert await asyncio.gather(*others) == [2] * 100
    assert await flights.one("a", source.load) == 3


async def test_who_began_it_may_be_cancelled_and_the_others_have_it_all_the_same() -> None:
    flights, source = Flights(), Source()
    leader, *others = await begun(flights, source, 10)
    leader.cancel()
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*others) == [1] * 9
    assert leader.cancelled()
    assert (source.loads, source.cancelled) == (1, 0)


async def test_a_load_that_nobody_waits_for_any_more_is_cancelled() -> None:
    flights, source = Flights(), Source()
    tasks = await begun(flights, source, 10)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    source.gate.set()
    assert await flights.one("a", source.load) == 2
    assert source.cancelled == 1


async def test_who_began_a_load_that_fails_fails_alone() -> None:
    flights, source = Flights(), Source(failing=1)
    leader, *others = await begun(flights, source, 10)
    source.gate.set()
    assert await asyncio.gather(*others) == [2] * 9
    with pytest.raises(Unavailable, match="Load 1"):
        await leader


async def test_where_the_second_load_fails_too_nobody_tries_for_ever() -> None:
    flights, source = Flights(), Source(failing=9)
    tasks = await begun(flights, source, 10)
    source.gate.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(how) for how in ended] == ["Load 1 failed.", *["Load 2 failed."] * 9]
