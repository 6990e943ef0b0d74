"""A controller's process that keeps its state in two API processes on one database."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.api_process import ApiProcess, serving
from tests.conftest import ADMIN_KEY
from tests.supervaizer import package

package.ready()

from supervaizer.case import Cases  # noqa: E402
from supervaizer.job import Jobs  # noqa: E402

from cairn_supervaizer import CairnStorage, Installed, Options, install  # noqa: E402

SCOPES = ("documents:read", "documents:write")


@pytest.fixture(scope="session")
async def apis(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[tuple[ApiProcess, ApiProcess]]:
    """Two API processes on one database."""
    url = await kept_clone()
    with ExitStack() as processes:
        started = [asyncio.to_thread(processes.enter_context, serving(url)) for _ in range(2)]
        one, two = await asyncio.gather(*started)
        yield one, two


def key_of_new_tenant(url: str, *scopes: str) -> str:
    """A key of a tenant made for it."""
    tenant = f"t{uuid.uuid4().hex[:16]}"
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {ADMIN_KEY}"}, timeout=30) as operator:
        assert operator.put(f"/v1/tenants/{tenant}", json={}).status_code == 201
        asked = {"name": "controller", "scopes": scopes or SCOPES}
        made = operator.post("/v1/api-keys", json=asked, headers={"x-tenant-id": tenant})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])


class Controllers:
    """Storages of one tenant, as processes of one controller have them: each over the other API process in turn."""

    def __init__(self, apis: tuple[ApiProcess, ApiProcess], key: str) -> None:
        self.key = key
        self.urls = [one.url for one in apis]
        self._next = itertools.cycle(self.urls)
        self._opened: list[CairnStorage] = []

    def storage(self, **options: Any) -> CairnStorage:
        """Another storage of the tenant."""

        made = CairnStorage(Options(next(self._next), self.key, **options))
        self._opened.append(made)
        return made

    def close(self) -> None:
        """Close them all."""
        for one in self._opened:
            one.close()


@pytest.fixture
def controllers(apis: tuple[ApiProcess, ApiProcess]) -> Iterator[Controllers]:
    """Storages of a tenant of this test alone."""
    made = Controllers(apis, key_of_new_tenant(apis[0].url))
    yield made
    made.close()


@pytest.fixture
def storage(controllers: Controllers) -> CairnStorage:
    """One of them."""
    return controllers.storage()


@pytest.fixture
def installed(controllers: Controllers) -> Iterator[Installed]:
    """Supervaizer in this process with its storage in Cairn, and empty registries."""

    Jobs().reset()
    Cases().reset()
    made = install(controllers.urls[0], controllers.key)
    yield made
    made.uninstall()
    Jobs().reset()
    Cases().reset()
