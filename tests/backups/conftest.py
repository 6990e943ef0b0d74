"""A service whose runners of backups find no job of another test's; and a rich tenant with its backup, made once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from app.http.service import Service
from tests.backups.rich import enrich, exported
from tests.conftest import Clone, new_tenant, running, settings_for


@pytest.fixture(scope="module")
async def service(kept_clone: Clone) -> AsyncIterator[Service]:
    """A running service on a database of this module alone."""
    async with running(settings_for(await kept_clone())) as started:
        yield started


@pytest.fixture(scope="session")
async def source(kept_clone: Clone) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service with a rich tenant, which no test changes."""
    async with running(settings_for(await kept_clone())) as service, await new_tenant(service) as client:
        await enrich(service, client)
        yield service, client


@pytest.fixture(scope="session")
async def file(source: tuple[Service, httpx.AsyncClient]) -> bytes:
    """Its backup."""
    return await exported(*source)
