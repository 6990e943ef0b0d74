"""Readers wait together: rung by hints at once, and by one look for all of them where no hint came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager

from app.bus.hints import Key
from app.bus.watcher import Moved, Watched, Watcher
from app.errors import Unavailable
from tests.waiting import eventually

LONG, SHORT = 20.0, 0.01
ONE, TWO = Key("stream", "acme", "1"), Key("stream", "acme", "2")


async def nothing(_watched: Collection[Watched]) -> Collection[Watched]:
    """A look that never finds anything."""
    return ()


async def nobody_looks() -> bool:
    """Whether no look is under way or planned."""
    return all(task.get_name() != "look for stream" for task in asyncio.all_tasks())


@asynccontextmanager
async def watching(look: Moved = nothing, seconds: float = SHORT) -> AsyncIterator[Watcher]:
    """A watcher of streams."""
    watcher = Watcher({"stream": look}, seconds)
    try:
        yield watcher
    finally:
        await watcher.close()


async def test_what_is_told_between_registering_and_waiting_ends_the_wait() -> None:
    async with watching() as watcher:
        with watcher.watch(ONE) as wake:
            watcher.heard(ONE)
            watcher.heard(ONE)
            assert await wake.wait(LONG)
            # Rung twice before, it has rung once.
            assert not await wake.wait(SHORT)


async def test_a_reader_hears_its_own_keys_only_and_nothing_once_it_left() -> None:
    async with watching() as watcher:
        with watcher.watch(ONE) as one, watcher.watch(ONE, TWO) as both:
            watcher.heard(TWO)
            watcher.heard(Key("stream", "other", "1"))
            watcher.heard(Key("unknown", "acme", "1"))
            assert not await one.wait(SHORT)
            assert await both.wait(LONG)
        watcher.heard(ONE)
        assert not await one.wait(SHORT)


async def test_where_hints_may_be_missing_everybody_looks() -> None:
    async with watching() as watcher:
        with watcher.watch(ONE) as one, watcher.watch(TWO) as two:
            watcher.heard(None)
            assert await one.wait(LONG)
            assert await two.wait(LONG)


async def test_without_any_hint_one_look_wakes_those_whose_mark_is_passed() -> None:
    heads = {ONE: 5, TWO: 7}
    looks: list[Collection[Watched]] = []

    async def look(watched: Collection[Watched]) -> Collection[Watched]:
        looks.append(watched)
        return [item for item in watched if heads[item.key] != item.mark]

    async with watching(look) as watcher:
        with watcher.watch(ONE) as behind, watcher.watch(ONE) as level, watcher.watch(TWO) as other:
            behind.mark, level.mark, other.mark = 4, 5, 7
            assert await behind.wait(LONG)
            assert not await level.wait(SHORT)
            assert not await other.wait(SHORT)
            behind.mark = 5
            heads[TWO] = 8
            assert await other.wait(LONG)
        # One statement for them all.
        assert {(ONE, 4), (ONE, 5), (TWO, 7)} in [set(map(tuple, watched)) for watched in looks]


async def test_a_look_that_fails_is_tried_again_and_no_look_runs_where_nobody_waits() -> None:
    looks = 0

    async def look(watched: Collection[Watched]) -> Collection[Watched]:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise Unavailable("PostgreSQL is away.")
        return watched

    async with watching(look) as watcher:
        for _ in range(2):
            looks = 0
            with watcher.watch(ONE) as wake:
                assert await wake.wait(LONG)
            assert looks == 3
            await eventually(nobody_looks, "the end of the look")


async def test_at_the_end_everybody_is_let_go_at_once_and_nobody_waits_any_more() -> None:
    async with watching() as watcher:
        with watcher.watch(ONE) as wake:
            waiting = asyncio.create_task(wake.wait(LONG))
            await asyncio.sleep(0)
            watcher.end()
            assert not await waiting
        with watcher.watch(ONE) as late:
            assert late.ended
            assert not await late.wait(LONG)


async def test_two_hundred_readers_that_wait_cost_less_than_a_twentieth_of_a_core() -> None:
    async with watching(seconds=1.0) as watcher:
        with ExitStack() as stack:
            wakes = [stack.enter_context(watcher.watch(Key("stream", "acme", str(n)))) for n in range(200)]
            waiting = asyncio.gather(*(wake.wait(3) for wake in wakes))
            started = time.process_time()
            assert not any(await waiting)
            assert time.process_time() - started < 3 * 0.05
