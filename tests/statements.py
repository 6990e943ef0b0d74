"""Which statements a service sends, seen on its only connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.http.service import Service
from tests.conftest import new_tenant, running, settings_for

NOT_OF_THE_CALL = ("BEGIN", "COMMIT", "ROLLBACK")


@asynccontextmanager
async def one_connection(
    clone: Callable[[], Awaitable[str]],
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with one connection, and a client of a tenant there."""
    settings = settings_for(await clone(), database={"pool_min": 1, "pool_max": 1})
    async with running(settings) as service, await new_tenant(service) as client:
        yield service, client


@asynccontextmanager
async def sent_by(service: Service) -> AsyncIterator[list[Any]]:
    """The statements that the service sends within the block, without those that look up who calls."""
    seen: list[Any] = []
    found: list[Any] = []
    async with service.ground.database.writing() as transaction:
        transaction.connection.add_query_logger(seen.append)
    yield found
    async with service.ground.database.writing() as transaction:
        transaction.connection.remove_query_logger(seen.append)
    found += [each for each in seen if not each.query.startswith(NOT_OF_THE_CALL) and "api_keys" not in each.query]
