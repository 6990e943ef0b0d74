"""Where the tests of offboarding take place."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from app.bus.work import Stream, Work
from app.embedded import Servers
from app.main import streams_of
from app.offboarding.jobs import Offboarder
from tests.conftest import ADMIN_KEY, http, running, settings_for
from tests.offboarding.leaving import AT_ONCE, LEAVING, SIGNER, STAYING, Place


@pytest.fixture
async def place(clone: Callable[[], Awaitable[str]], servers: Servers, tmp_path: Path) -> AsyncIterator[Place]:
    prefix = tmp_path.name.replace("_", "-")[-40:]
    settings = settings_for(
        await clone(),
        auth={"cache_seconds": 0.2},
        blobs={"folder": tmp_path},
        redis={"url": servers.redis_url, "key_prefix": prefix},
        nats={"url": servers.nats_url, "subject_prefix": prefix, "stream_prefix": prefix, "stream_bytes_max": 2**24},
    )
    async with running(settings) as service, http(service, authorization=f"Bearer {ADMIN_KEY}") as operator:
        ground = service.ground
        streams = streams_of(settings, ground.metrics)
        await streams.open()
        try:
            runner = Offboarder(AT_ONCE, ground.blobs, ground.cache, streams, ground.hints, SIGNER)
            for tenant_id in (LEAVING, STAYING):
                made = await operator.put(
                    f"/v1/tenants/{tenant_id}", json={"name": tenant_id}, headers={"idempotency-key": tenant_id}
                )
                assert made.status_code == 201
                await streams.put(Stream.DEAD_LETTER, [Work(tenant_id, json.dumps({"tenant_id": tenant_id}).encode())])
            made_clients: list[httpx.AsyncClient] = []
            yield Place(service, operator, tmp_path, runner, made_clients)
            for client in made_clients:
                await client.aclose()
        finally:
            # The server is that of other tests too, which look for the same tenants.
            for tenant_id in (LEAVING, STAYING):
                await streams.erase(tenant_id)
            await streams.close()
