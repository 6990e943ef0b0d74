"""One suite for every implementation of the cache, on Valkey and, where it is installed, on Redis itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as library

from app.cache.cache import VALUE_BYTES_MAX, Key, Script
from app.embedded import Servers
from app.errors import Unavailable
from tests.cache.caching import KEY, cache, debian_redis
from tests.waiting import eventually

LONG = 600.0
KINDS = ("embedded", "redis", "tolerant")
ADD = Script("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")


@pytest.fixture(scope="module", params=["valkey", "redis"])
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "valkey":
        yield servers.redis_url
    elif shutil.which("redis-server") is None:
        pytest.skip("redis-server is not on PATH")
    else:
        with debian_redis(Path(tmp_path_factory.mktemp("redis"))) as found:
            yield found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [b"", b"1", b"\x00\r\n$3\r\n", b"x" * VALUE_BYTES_MAX], ids=len)
async def test_a_value_comes_back_byte_for_byte(kind: str, value: bytes, url: str) -> None:
    async with cache(kind, url) as kept:
        assert await kept.get(KEY) is None
        await kept.put(KEY, b"before", LONG)
        await kept.put(KEY, value, LONG)
        assert await kept.get(KEY) == value
        await kept.delete(KEY)
        assert await kept.get(KEY) is None
        await kept.delete(KEY)


@pytest.mark.parametrize("kind", KINDS)
async def test_kinds_tenants_and_names_are_apart(kind: str, url: str) -> None:
    keys = [Key(k, t, n) for k in ("a", "a_b") for t in ("t", "t-1") for n in ("", "x", "a:t:x", "ä\x00 \n", "x" * 255)]
    async with cache(kind, url) as kept:
        for number, key in enumerate(keys):
            await kept.put(key, str(number).encode(), LONG)
        assert [await kept.get(key) for key in keys] == [str(number).encode() for number in range(len(keys))]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_value_ends_with_its_time(kind: str, url: str) -> None:
    async with cache(kind, url) as kept:
        await kept.put(KEY, b"1", 0.05)
        await kept.put(Key("thing", "acme", "2"), b"2", LONG)

        async def gone() -> bool:
            return await kept.get(KEY) is None

        await eventually(gone, "the end of its time")
        assert await kept.get(Key("thing", "acme", "2")) == b"2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("value", "ttl"), [(b"x" * (VALUE_BYTES_MAX + 1), LONG), (b"1", 0), (b"1", -1)])
async def test_what_is_too_large_or_over_is_not_kept_and_nor_is_what_was_before(
    kind: str, value: bytes, ttl: float, url: str
) -> None:
    async with cache(kind, url) as kept:
        await kept.put(KEY, b"before", LONG)
        await kept.put(KEY, value, ttl)
        assert await kept.get(KEY) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_many_at_once_each_get_their_own(kind: str, url: str) -> None:
    keys = [Key("thing", "acme", str(number)) for number in range(1000)]
    async with cache(kind, url) as kept:
        await asyncio.gather(*(kept.put(key, key.name.encode() * 3, LONG) for key in keys))
        found = await asyncio.gather(*(kept.get(key) for key in keys))
    assert found == [key.name.encode() * 3 for key in keys]


@pytest.mark.parametrize("kind", KINDS)
async def test_it_ends_quickly_and_may_end_twice(kind: str, url: str) -> None:
    async with cache(kind, url) as kept:
        await kept.put(KEY, b"1", LONG)
        async with asyncio.timeout(2):
            await kept.close()
            await kept.close()


@pytest.mark.parametrize("kind", ["redis", "tolerant"])
async def test_a_program_is_one_step_and_is_told_again_to_a_redis_that_forgot_it(kind: str, url: str) -> None:
    async with cache(kind, url) as kept:
        for flush in (False, True):
            if flush:
                with library.Redis.from_url(url) as client:
                    client.script_flush()
            await asyncio.gather(*(kept.run(ADD, [KEY], [2]) for _ in range(50)))
        assert await kept.run(ADD, [KEY], [0]) == 200
        with pytest.raises(Unavailable, match="Redis refuses"):
            await kept.run(Script("wrong", "return redis.call('NONSENSE')"), [], [])
        # A refusal is no reason to connect again.
        assert await kept.run(ADD, [KEY], [0]) == 200


async def test_without_redis_no_program_runs() -> None:
    async with cache("embedded", "") as kept:
        with pytest.raises(Unavailable, match="CAIRN_REDIS__URL"):
            await kept.run(ADD, [KEY], [1])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_kept_of_a_tenant_is_erased_and_nothing_that_only_looks_like_it(kind: str, url: str) -> None:
    gone = [Key(kind_of, "acme", f"{n}") for kind_of in ("thing", "other") for n in range(30)]
    stay = [Key("thing", "acme-2", "1"), Key("thing", "other", "x:acme:1"), Key("acme", "other", "1")]
    async with cache(kind, url) as kept:
        for key in (*gone, *stay):
            await kept.put(key, b"value", LONG)
        assert await kept.erase("acme") == len(gone)
        assert [await kept.get(key) for key in gone] == [None] * len(gone)
        assert [await kept.get(key) for key in stay] == [b"value"] * len(stay)
        assert await kept.erase("acme") == 0
