"""The connection to NATS, as every user of it opens and closes it: made once, and lost once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import nats
from nats.errors import Error, NoRespondersError, NoServersError
from nats.js.errors import ServiceUnavailableError

CONNECT_SECONDS = 1
OPEN_SECONDS = 3
CLOSE_SECONDS = 0.5
AGAIN_SECONDS = 0.05
FAILURES = (Error, OSError, TimeoutError, ValueError)


async def connect(url: str, closed: Callable[[], Awaitable[None]], **more: Any) -> Any:
    """A client that does not connect again by itself; `closed` is called once it is lost. Raises one of `FAILURES`.

    The URL may be several, separated by commas: the servers of a cluster.
    """
    reason: Exception | None = None

    async def hear(error: Exception) -> None:
        # A connection that is lost later is seen by whoever uses it; the library would print it.
        nonlocal reason
        reason = error

    try:
        return await nats.connect(
            [server.strip() for server in url.split(",")],
            connect_timeout=CONNECT_SECONDS,
            allow_reconnect=False,
            # Twice at most: the library would try a server that refuses for as long as it is let.
            max_reconnect_attempts=1,
            reconnect_time_wait=AGAIN_SECONDS,
            error_cb=hear,
            closed_cb=closed,
            **more,
        )
    except NoServersError as error:
        if isinstance(reason, FAILURES):
            raise reason from error
        raise


def explained(error: BaseException) -> str:
    """What is wrong, and what to do where that is known."""
    told = str(error).lower()
    if "authorization" in told or "authentication" in told:
        return "NATS refuses the user or password; correct CAIRN_NATS__URL."
    if isinstance(error, NoRespondersError | ServiceUnavailableError) or "jetstream not enabled" in told:
        return "NATS has no JetStream; start it with `-js`, or with `jetstream {}` in its configuration."
    brief = f"{type(error).__name__}: {error}" if told else type(error).__name__
    return f"NATS does not answer ({brief[:160]})."


async def close(client: Any) -> None:
    """Close a client, a bounded time; None is closed already."""
    if client is not None:
        with suppress(*FAILURES):
            await asyncio.wait_for(client.close(), CLOSE_SECONDS)


def version_of(client: Any) -> str:
    """The version of the server that a client is connected to."""
    version = client.connected_server_version
    return f"{version.major}.{version.minor}.{version.patch}"
