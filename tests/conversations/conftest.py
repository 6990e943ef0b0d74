"""A conversation, and submissions in any state."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from app.http.service import Service
from tests.conversations.rows import Rows, Stream, created


@pytest.fixture
async def stream(client: httpx.AsyncClient) -> Stream:
    """A conversation under `agents/echo/i1` with a producer."""
    return await created(client)


@pytest.fixture
async def rows(service: Service, client: httpx.AsyncClient) -> AsyncIterator[Rows]:
    """Submissions of the test's own tenant."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        yield Rows(connection, client.headers["x-test-tenant"])
    finally:
        await connection.close()
