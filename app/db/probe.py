"""Asks PostgreSQL how it is, on a connection of its own: a busy pool is no illness."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import asyncpg

from app.db.revision import Revision, revision_of
from app.errors import Unavailable
from app.settings import DatabaseSettings

CLOSE_SECONDS = 1
NO_URL = "CAIRN_DATABASE__URL is no PostgreSQL URL; write postgresql://user:password@host:port/name."


@dataclass(frozen=True)
class Health:
    """What PostgreSQL said: its version and the schema's revision."""

    version: str
    revision: Revision


class Probe:
    """One connection, opened when it is first needed and again after a failure."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._url = settings.driver_url
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    async def look(self, seconds: float) -> Health:
        """Ask, within so many seconds. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(seconds), self._turn:
                return await self._ask()
        except ValueError as error:
            # The driver could not read it; what it says of it may show a part of the password.
            self._drop()
            raise Unavailable(NO_URL) from error
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self._drop()
            raise Unavailable(
                f"PostgreSQL does not answer ({type(error).__name__}); start it, or correct CAIRN_DATABASE__URL."
            ) from error

    async def _ask(self) -> Health:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._url, statement_cache_size=0)
        try:
            revision = await revision_of(self._connection)
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError):
            # The server has closed it since the last look, which says nothing about the server now.
            self._drop()
            self._connection = await asyncpg.connect(self._url, statement_cache_size=0)
            revision = await revision_of(self._connection)
        version = self._connection.get_server_version()
        return Health(f"{version.major}.{version.minor}", revision)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        """Close the connection, within a second."""
        if self._connection is not None:
            await self._connection.close(timeout=CLOSE_SECONDS)
            self._connection = None


async def revision_now(settings: DatabaseSettings, seconds: float) -> Revision:
    """The schema's revision, asked once, within so many seconds. Raises `Unavailable`."""
    probe = Probe(settings)
    try:
        return (await probe.look(seconds)).revision
    finally:
        await probe.close()
