"""A tenant of an API in a process of its own, with what a worker's writes are about."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.client import AsyncCairn
from tests.api_process import ApiProcess
from tests.conftest import ADMIN_KEY
from tests.faults.worker_process import STREAM

INVOCATION = "inv_1"
QUICKLY = {"background__enabled": True, "queue__lapse_seconds": 0.1, "queue__backoff_first_seconds": 0.1}


class Api:
    """The API, which can be killed and comes back at the same address."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self.process = ApiProcess(database_url, **QUICKLY)
        self.url = self.process.url

    async def restart(self) -> None:
        """Start it again, once its process has ended."""
        await asyncio.to_thread(self.process.wait)
        self.process.close()
        self.process = await asyncio.to_thread(ApiProcess, self.database_url, self.process.port, **QUICKLY)


class Workplace:
    """A tenant of the API, and a client of it."""

    def __init__(self, api: Api, key: str) -> None:
        self.api, self.url, self.key = api, api.url, key
        self.cairn = AsyncCairn(self.url, key=key)

    async def prepare(self) -> None:
        """Make an invocation and a conversation to write for."""
        version = await self.cairn.versions.create("wf_1", dsl={}, workflow={}, nodes=[{"node_id": "n"}])
        await self.cairn.invocations.create(id=INVOCATION, version_id=version.id)
        await self.cairn.conversations.create(STREAM, agent_name="a", instance_id="i")

    async def admit(self, *ids: str, max_attempts: int = 10) -> None:
        """Put submissions into the queue of one session."""
        for one in ids:
            await self.cairn.submissions.admit(
                id=one, session_key="s", kind="direct", agent="a", instance_id="i", input={"id": one},
                max_attempts=max_attempts,
            )  # fmt: skip


@pytest.fixture(scope="module")
async def api(kept_clone: Callable[[], Awaitable[str]]) -> AsyncIterator[Api]:
    started = Api(await kept_clone())
    yield started
    started.process.close()


@pytest.fixture
async def workplace(api: Api) -> AsyncIterator[Workplace]:
    tenant = f"t{uuid.uuid4().hex[:16]}"
    async with AsyncCairn(api.url, key=ADMIN_KEY) as operator:
        await operator.tenants.ensure(tenant)
        made = await operator.using(tenant=tenant).api_keys.create("workers", ["*:read", "*:write"])
    assert made.key is not None
    place = Workplace(api, made.key)
    await place.prepare()
    yield place
    await place.cairn.aclose()
