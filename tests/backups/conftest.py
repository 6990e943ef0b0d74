"""A service whose runners of backups find no job of another test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.http.service import Service
from tests.conftest import running, settings_for


@pytest.fixture(scope="module")
async def service(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Service]:
    """A running service on a database of this module alone."""
    async with running(settings_for(await kept_clone())) as started:
        yield started
