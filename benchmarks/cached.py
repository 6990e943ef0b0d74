"""`cairn serve` with caches that the service does not have: what they could save is measured before one is built.

`python -m benchmarks.cached memory|redis serve …` keeps versions, and the heads of conversations, in the memory of the
process or in the Redis of `CAIRN_REDIS__URL`, for ever and without regard to what is written meanwhile: the best that
any cache there could do.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from app.cache.cache import Cache, Key
from app.cache.embedded import EmbeddedCache
from app.cache.redis import RedisCache
from app.conversations import reads
from app.db.database import Answer
from app.settings import Settings
from app.versions import store

TTL_SECONDS = 3600


class Kept:
    """The cache of a candidate, opened when it is first asked."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._cache: Cache | None = None

    async def cache(self) -> Cache:
        """The cache, open."""
        if self._cache is None:
            self._cache = EmbeddedCache() if self._kind == "memory" else _redis()
            await self._cache.open()
        return self._cache


def _redis() -> RedisCache:
    url = Settings().redis.url
    assert url is not None
    return RedisCache(url.get_secret_value(), "bench", wait_seconds=5)


def keep_versions(kept: Kept) -> None:
    """Read a version from the cache where it is there."""
    load = store.get

    async def get(reader: Any, tenant_id: str, version_id: str, include: frozenset[str] = frozenset()) -> Answer:
        cache, key = await kept.cache(), Key("version", tenant_id, version_id)
        body = await cache.get(key)
        if body is None:
            answer = await load(reader, tenant_id, version_id, include)
            assert answer.body is not None
            await cache.put(key, answer.body, TTL_SECONDS)
            return answer
        return Answer(200, body, 1)

    store.get = get


def keep_heads(kept: Kept) -> None:
    """Tell a reader who has read everything so, by a head that is in the cache."""
    load = reads.forward

    async def forward(reader: Any, tenant_id: str, path: str, after: int | None, limit: int, **more: Any) -> Any:
        cache, key = await kept.cache(), Key("head", tenant_id, path)
        found = await cache.get(key)
        if found is not None:
            incarnation, head = json.loads(found)
            if head == after:
                return reads.Batches((), head, True, incarnation, head)
        batches = await load(reader, tenant_id, path, after, limit, **more)
        await cache.put(key, json.dumps([batches.incarnation, batches.head]).encode(), TTL_SECONDS)
        return batches

    reads.forward = forward


def main(kind: str, *arguments: str) -> None:
    """Run the command line with these arguments."""
    kept = Kept(kind)
    keep_versions(kept)
    keep_heads(kept)
    from app.cli import main as cairn  # noqa: PLC0415 - after the candidates are in place

    sys.argv = ["cairn", *arguments]
    cairn()


if __name__ == "__main__":
    main(*sys.argv[1:])
