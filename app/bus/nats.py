"""The door to NATS."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import nats
from nats.errors import Error

from app.errors import Unavailable

CONNECT_SECONDS = 1


async def _ignore(_error: Exception) -> None:
    """A lost connection is seen by the next check; the library would print it."""


class NatsBus:
    """A connection to NATS, made when it is first needed and again after a failure."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._turn = asyncio.Lock()

    async def check(self, seconds: float) -> str:
        """The server's version, within so many seconds; JetStream must be on. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(seconds), self._turn:
                if self._client is None or not self._client.is_connected:
                    await self._drop()
                    self._client = await nats.connect(
                        self._url, connect_timeout=CONNECT_SECONDS, allow_reconnect=False, error_cb=_ignore
                    )
                await self._client.jetstream(timeout=seconds).account_info()
                version = self._client.connected_server_version
        except (Error, OSError, TimeoutError, ValueError) as error:
            await self._drop()
            what = "NATS has no JetStream" if "jetstream" in str(error).lower() else "NATS does not answer"
            raise Unavailable(f"{what} ({type(error).__name__}).") from error
        return f"{version.major}.{version.minor}.{version.patch}"

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Error, OSError, TimeoutError):
                await asyncio.wait_for(client.close(), 1)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()
