"""The cache of one process keeps what was used last, within a number of entries and of bytes."""

from __future__ import annotations

from app.cache.cache import Key
from app.cache.embedded import ENTRY_BYTES, EmbeddedCache

LONG = 600.0


def key(number: int) -> Key:
    """One of many."""
    return Key("thing", "acme", str(number))


async def test_what_was_not_used_for_longest_leaves_first() -> None:
    cache = EmbeddedCache(entries_max=3)
    for number in range(3):
        await cache.put(key(number), b"x", LONG)
    assert await cache.get(key(0)) == b"x"
    await cache.put(key(3), b"x", LONG)
    assert [await cache.get(key(number)) for number in range(4)] == [b"x", None, b"x", b"x"]


async def test_the_bytes_are_bounded_and_counted_back() -> None:
    cache = EmbeddedCache(bytes_max=4 * (1000 + ENTRY_BYTES + 2))
    for number in range(100):
        await cache.put(key(number), b"x" * 1000, LONG)
    assert [await cache.get(key(number)) is not None for number in range(100)] == [False] * 96 + [True] * 4
    for number in range(100):
        await cache.put(key(number), b"", LONG)
        await cache.delete(key(number))
    assert cache.bytes == 0


async def test_a_read_says_whether_it_was_a_hit_and_what_is_over_is_dropped() -> None:
    seen: list[tuple[str, str]] = []
    now = 0.0
    cache = EmbeddedCache(lambda kind, outcome: seen.append((kind, outcome)), clock=lambda: now)
    await cache.put(key(1), b"x", 10)
    now = 9.9
    assert await cache.get(key(1)) == b"x"
    now = 10
    assert await cache.get(key(1)) is None
    assert seen == [("thing", "hit"), ("thing", "miss")]
    assert cache.bytes == 0
