"""A tenant's own rate limit: buckets of tokens that all processes share through Redis, or a bucket in each process."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from app.cache.cache import Cache, Key, Script
from app.errors import RateLimited, Unavailable
from app.http.caller import Rate

KIND = "limit"
TENANTS_MAX = 10_000

# The whole decision is one step by the server's clock, so no two processes take the same token. The bucket and its
# expiry are one write, made whatever the answer is: no bucket outlives the time in which it is full again, and one that
# was found without an expiry gets one. What cannot be read is a full bucket, and a clock that was set back fills none.
TAKE = Script(
    "limit take",
    """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local per_second, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = redis.pcall('GET', KEYS[1])
local kept, kept_at = string.match(type(found) == 'string' and found or '', '^(%d+%.%d+) (%d+)$')
local tokens, filled_at = tonumber(kept) or burst, tonumber(kept_at) or now
tokens = math.min(burst, tokens + math.max(0, now - filled_at) * per_second / 1000000)
local taken = tokens >= 1
if taken then tokens = tokens - 1 end
local full_after = math.ceil((burst - tokens) / per_second * 1000) + 1000
redis.call('SET', KEYS[1], string.format('%.6f %.0f', tokens, now), 'PX', full_after)
return {taken and 1 or 0, string.format('%.6f', tokens)}
""",
)


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimits:
    """The buckets of all tenants. Only who has a limit pays for one: a round trip to Redis, of bounded length.

    Without Redis, or while it is away, each process has buckets of its own, with the same limit.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._buckets: dict[Key, _Bucket] = {}

    async def take(self, tenant_id: str, rate: Rate) -> dict[str, str]:
        """Take a token for one request; the headers that tell the caller what is left. Raises `RateLimited`."""
        key = Key(KIND, tenant_id, rate.name)
        try:
            found = await self._cache.run(TAKE, [key], [rate.per_second, rate.burst])
            taken, tokens = bool(found[0]), float(found[1])
        except Unavailable:
            taken, tokens = self._take_here(key, rate, time.monotonic())
        if not taken:
            wait = max(1, math.ceil((1 - tokens) / rate.per_second))
            raise RateLimited(
                f"This tenant may send {rate.per_second} {_OF[rate.name]} a second; wait {wait} s.",
                headers={"Retry-After": str(wait), **_headers(rate, tokens)},
                retry_after_seconds=wait,
            )
        return _headers(rate, tokens)

    def _take_here(self, key: Key, rate: Rate, now: float) -> tuple[bool, float]:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= TENANTS_MAX:
                self._buckets.clear()
            bucket = self._buckets[key] = _Bucket(rate.burst, now)
        bucket.tokens = min(rate.burst, bucket.tokens + (now - bucket.filled_at) * rate.per_second)
        bucket.filled_at = now
        taken = bucket.tokens >= 1
        if taken:
            bucket.tokens -= 1
        return taken, bucket.tokens


_OF = {"tenant": "requests", "read": "reads", "write": "writes"}


def _headers(rate: Rate, tokens: float) -> dict[str, str]:
    """The fields of the IETF draft: the quota and its window, what remains and when it is whole again."""
    window = max(1, math.ceil(rate.burst / rate.per_second))
    whole = math.ceil((rate.burst - tokens) / rate.per_second)
    return {
        "RateLimit-Policy": f'"{rate.name}";q={rate.burst};w={window}',
        "RateLimit": f'"{rate.name}";r={int(tokens)};t={whole}',
    }
