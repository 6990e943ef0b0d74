"""The whole service on a bucket: what is sent comes back, is collected, and degrades where the bucket is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from app.main import blobs_of
from tests.artifacts.artifacts import MIB, hash_of, sample, store
from tests.artifacts.collecting import age, collection_of, states
from tests.conftest import http, new_tenant, running, settings_for
from tests.payloads import problem


async def test_artifacts_lie_in_a_bucket(clone: Callable[[], Awaitable[str]], bucket: dict[str, Any]) -> None:
    settings = settings_for(await clone(), blobs=bucket)
    content = sample(9 * MIB + 3)
    async with running(settings) as service, await new_tenant(service) as client:
        assert (await client.get("/readyz")).json()["components"]["blobs"]["status"] == "up"
        assert (await store(client, content)).status_code == 201
        path = f"/v1/artifacts/{hash_of(content)}"
        assert (await client.get(path)).content == content
        part = await client.get(path, headers={"range": f"bytes={MIB - 3}-{5 * MIB}"})
        assert (part.status_code, part.content == content[MIB - 3 : 5 * MIB + 1]) == (206, True)
        for _ in range(2):
            await age(service)
            await collection_of(service).collect(service.ground.database, 10)
        assert await states(service) == {hash_of(content): "gone"}
        assert [found async for found in blobs_of(settings).names()] == []


async def test_a_bucket_that_is_away_degrades_the_service(
    clone: Callable[[], Awaitable[str]], bucket: dict[str, Any]
) -> None:
    settings = settings_for(await clone(), blobs=bucket | {"endpoint": "http://127.0.0.1:1", "wait_seconds": 1})
    async with running(settings) as service, await new_tenant(service) as client, http(service) as anyone:
        ready = await anyone.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["components"]["blobs"]["mode"] == "degraded"
        assert problem(await store(client, b"x")) == (503, "unavailable")
        assert problem(await client.get(f"/v1/artifacts/{hash_of(b'x')}")) == (404, "artifact_not_found")
        assert (await client.get("/v1/workflows")).status_code == 200
