"""A connection of its own for what outlasts any request: a snapshot that is read for minutes, a restore, an index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg

from app.db.database import set_codecs
from app.errors import Unavailable
from app.settings import DatabaseSettings

# A process that was killed leaves its statement to PostgreSQL, which looks so often whether anybody is there.
LOOK_SECONDS = 2
CLOSE_SECONDS = 5.0


@asynccontextmanager
async def connected_apart(settings: DatabaseSettings, name: str, **session: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection past a pooler and outside the pool, without a bound on statements; closed at the end of the block.

    It reads and writes JSON and vectors as the pool's do. `session` are further settings of PostgreSQL. Raises
    `Unavailable` where PostgreSQL does not answer, or stands behind a pooler and no direct URL is set.
    """
    if not settings.session_settings and settings.direct_url is None:
        raise Unavailable(f"The {name} goes past the pooler: set CAIRN_DATABASE__DIRECT_URL.")
    try:
        connection = await asyncpg.connect(
            settings.direct_driver_url,
            timeout=settings.acquire_seconds,
            statement_cache_size=0,
            server_settings={
                "application_name": f"cairn {name}",
                "timezone": "UTC",
                "jit": "off",
                "statement_timeout": "0",
                "lock_timeout": "0",
                "idle_in_transaction_session_timeout": "0",
                "client_connection_check_interval": f"{LOOK_SECONDS}s",
                **session,
            },
        )
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}.") from error
    try:
        await set_codecs(connection)
        yield connection
    finally:
        # Cut off, it would still wait for the end of its statement.
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=CLOSE_SECONDS)
