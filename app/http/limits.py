"""A tenant's own rate limit: a bucket of tokens in each process, filled by the clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from app.errors import RateLimited
from app.http.caller import Caller, Rate

TENANTS_MAX = 10_000


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimits:
    """The buckets of this process. A look-up costs no round trip: the limit comes with the key."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: Caller, now: float | None = None) -> dict[str, str]:
        """Take a token for one request; the headers that tell the caller what is left. Raises `RateLimited`."""
        rate = caller.rate
        if rate is None or caller.tenant_id is None:
            return {}
        now = time.monotonic() if now is None else now
        bucket = self._buckets.get(caller.tenant_id)
        if bucket is None:
            if len(self._buckets) >= TENANTS_MAX:
                self._buckets.clear()
            bucket = self._buckets[caller.tenant_id] = _Bucket(rate.burst, now)
        bucket.tokens = min(rate.burst, bucket.tokens + (now - bucket.filled_at) * rate.per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            wait = max(1, math.ceil((1 - bucket.tokens) / rate.per_second))
            raise RateLimited(
                f"This tenant may send {rate.per_second} requests a second; wait {wait} s.",
                headers={"Retry-After": str(wait), **_headers(rate, bucket.tokens)},
                retry_after_seconds=wait,
            )
        bucket.tokens -= 1
        return _headers(rate, bucket.tokens)


def _headers(rate: Rate, tokens: float) -> dict[str, str]:
    """The fields of the IETF draft: the quota and its window, what remains and when it is whole again."""
    window = max(1, math.ceil(rate.burst / rate.per_second))
    whole = math.ceil((rate.burst - tokens) / rate.per_second)
    return {
        "RateLimit-Policy": f'"tenant";q={rate.burst};w={window}',
        "RateLimit": f'"tenant";r={int(tokens)};t={whole}',
    }
