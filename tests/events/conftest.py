"""API processes whose feed is read, on a database of the test alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.conftest import settings_for
from tests.http.toys import process

Api = Callable[..., Any]


@pytest.fixture
async def url(clone: Callable[[], Awaitable[str]]) -> str:
    """A database of the test alone."""
    return await clone()


@pytest.fixture
def api(url: str) -> Api:
    """Starts API processes on that database; they give positions beside the requests."""

    def started(**groups: dict[str, Any]) -> Any:
        groups["http"] = {"port": 0, "grace_seconds": 5, "live_look_seconds": 0.05, **groups.get("http", {})}
        groups.setdefault("background", {"enabled": True, "sequencer_idle_seconds": 0.005})
        return process(settings_for(url, **groups))

    return started


@pytest.fixture
async def beside(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection beside the service."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
