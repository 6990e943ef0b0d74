"""A connection that was left clean serves the next caller at once; who waits is served; what went wrong is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from app.db.connections import Connections

Clone = Callable[[], Awaitable[str]]


@pytest.fixture
async def pool(clone: Clone) -> AsyncIterator[asyncpg.Pool]:
    """A pool of two, none open yet."""
    made = await asyncpg.create_pool(await clone(), min_size=0, max_size=2)
    yield made
    made.terminate()


async def pid(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def test_the_last_one_given_back_clean_is_the_next_one_taken(pool: asyncpg.Pool) -> None:
    connections = Connections(pool, 5)
    first = await connections.take()
    await connections.give(first, clean=True)
    assert connections.counts == (1, 1)
    assert await connections.take() is first
    assert connections.counts == (1, 0)


async def test_who_waits_gets_what_is_given_back(pool: asyncpg.Pool) -> None:
    connections = Connections(pool, 5)
    held = [await connections.take() for _ in range(2)]
    waiting = [asyncio.create_task(connections.take()) for _ in range(2)]
    await asyncio.wait(waiting, timeout=0.05)
    assert not any(task.done() for task in waiting)
    for connection in held:
        await connections.give(connection, clean=True)
    assert {await pid(connection) for connection in await asyncio.gather(*waiting)}
    with pytest.raises(TimeoutError):
        await Connections(pool, 0.05).take()


async def test_one_that_was_cut_off_meanwhile_is_replaced(pool: asyncpg.Pool) -> None:
    connections = Connections(pool, 5)
    first = await connections.take()
    number = await pid(first)
    await connections.give(first, clean=True)
    first.terminate()
    assert await pid(await connections.take()) != number


async def test_one_whose_statement_was_cancelled_is_waited_for_before_its_next_use(pool: asyncpg.Pool) -> None:
    connections = Connections(pool, 5)
    connection = await connections.take()
    with pytest.raises(TimeoutError):
        await connection.execute("SELECT pg_sleep(10)", timeout=0.05)
    await connections.give(connection, clean=False)
    assert await (await connections.take()).fetchval("SELECT 1") == 1


async def test_expired_ones_are_opened_again_and_idle_ones_are_closed(pool: asyncpg.Pool) -> None:
    connections = Connections(pool, 5)
    first = await connections.take()
    number = await pid(first)
    await connections.give(first, clean=True)
    await connections.expire()
    second = await connections.take()
    assert await pid(second) != number
    await connections.give(second, clean=True)
    await connections.close(5)
    assert pool.get_size() == 0
    with pytest.raises(asyncpg.InterfaceError):
        await connections.take()
