"""A conversation, and the queue of the submissions that speak through it."""

from __future__ import annotations

import httpx
import pytest

from tests.conversations.streams import Queue, Stream, created


@pytest.fixture
async def stream(client: httpx.AsyncClient) -> Stream:
    """A conversation under `agents/echo/i1` with a producer."""
    return await created(client)


@pytest.fixture
def queue(client: httpx.AsyncClient) -> Queue:
    """The calls of the queue."""
    return Queue(client)
