"""Long work of one kind runs one piece at a time, beside the threads that read large bodies."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from app.errors import Unavailable
from app.http.service import Service
from app.turns import Turns


async def test_one_piece_runs_at_a_time_and_leaves_the_other_threads_free() -> None:
    turns, held, order = Turns("work", 100), threading.Event(), list[int]()

    def work(number: int) -> int:
        assert held.wait(30)
        order.append(number)
        return number

    waiting = [asyncio.ensure_future(turns.take(work, number)) for number in range(2 * (os.cpu_count() or 1) + 40)]
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "read"), 30) == "read"
    held.set()
    assert await asyncio.gather(*waiting) == order == list(range(len(waiting)))


async def test_who_would_wait_behind_too_many_is_refused_and_who_leaves_makes_room() -> None:
    turns, held = Turns("work", 2), threading.Event()
    waiting = [asyncio.ensure_future(turns.take(held.wait, 30)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await turns.take(held.wait)
    waiting[1].cancel()
    await asyncio.gather(waiting[1], return_exceptions=True)
    third = asyncio.ensure_future(turns.take(lambda: "done"))
    held.set()
    assert await third == "done"
    assert await waiting[0]


async def test_what_waits_when_the_service_ends_is_not_begun() -> None:
    turns, began, held = Turns("work", 100), threading.Event(), threading.Event()

    def work() -> str:
        began.set()
        assert held.wait(30)
        return "done"

    first, second = asyncio.ensure_future(turns.take(work)), asyncio.ensure_future(turns.take(lambda: "begun"))
    assert await asyncio.to_thread(began.wait, 30)
    turns.close()
    held.set()
    assert await first == "done"
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_each_service_has_turns_of_its_own(service: Service, fresh: Service) -> None:
    for name in ("drawing", "comparing"):
        assert getattr(service.ground, name) is not getattr(fresh.ground, name)
