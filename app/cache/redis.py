"""The door to Redis."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.errors import Unavailable


class RedisCache:
    """A connection to Redis or Valkey, made when it is first needed."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1, max_connections=4)

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(seconds):
                told = await self._client.info("server")
        except (RedisError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(f"Redis does not answer ({type(error).__name__}).") from error
        return str(told.get("valkey_version") or told.get("redis_version"))

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()
