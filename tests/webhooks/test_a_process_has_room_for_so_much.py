"""A process has so much under way and no more, and what hangs makes room for others, as much again."""

from __future__ import annotations

import asyncio

import pytest

from app.webhooks import room as rooms
from app.webhooks.room import BODIES_BYTES_MAX, TAKEN_BYTES, TAKEN_MAX, Room


async def is_full(room: Room) -> bool:
    """Whether who asks for room has to wait, once everything that can run has run."""
    asking = asyncio.create_task(room.free())
    for _ in range(5):
        await asyncio.sleep(0)
    full = not asking.done()
    asking.cancel()
    return full


async def test_there_is_room_for_so_many_and_so_large() -> None:
    room = Room(1000)
    assert await room.free() == TAKEN_MAX
    room.begin([TAKEN_BYTES // 3])
    assert await room.free() == 3
    room.begin([1] * 989)
    assert await room.free() == 10
    room.begin([BODIES_BYTES_MAX])
    assert await is_full(room)


async def test_room_that_was_taken_again_meanwhile_is_waited_for() -> None:
    room = Room(1)
    room.begin([1])
    asking = asyncio.create_task(room.free())
    await asyncio.sleep(0)
    room.end(1)
    room.begin([1])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    room.end(1)
    assert await asking == 1


async def test_what_hangs_makes_room_until_as_many_hang_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "HANGING_SECONDS", 0)
    room = Room(1)
    room.begin([1])
    with room.attempt(1):
        assert await room.free() == 1
        room.begin([1])
        with room.attempt(1):
            assert await is_full(room)
        room.end(1)
        assert await room.free() == 1
    # Until it is settled it counts as any other.
    assert await is_full(room)
    room.end(1)
    assert await room.free() == 1
