"""A sign of life that comes while a clean-up is under way counts for the nodes of its invocation too."""

from __future__ import annotations

from asyncio import create_task
from datetime import UTC, datetime, timedelta

import asyncpg
import httpx

from app.http.service import Service
from tests.conftest import Make
from tests.waiting import held_up


async def test_a_node_is_left_alone_whose_invocation_was_heard_while_the_clean_up_waited(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    version = (await make.version())["id"]
    now = datetime.now(UTC)
    for name, days in (("silent", 2), ("heard", 1)):
        started = (now - timedelta(days=days)).isoformat()
        await make.invocation(id=name, version_id=version, started_at=started)
        await make.created(f"/v1/invocations/{name}/nodes", id=f"of_{name}", node_id="n", started_at=started)
    # Only the older one is silent for too long; nodes are given an hour.
    asked = {"thresholds": {"invocation_seconds": 36 * 3600, "node_invocation_seconds": 3600}}
    writer = await asyncpg.connect(service.ground.database.url)
    try:
        async with writer.transaction():
            await writer.execute(
                "SELECT FROM node_invocations WHERE tenant_id = $1 AND id = 'of_silent' FOR UPDATE",
                client.headers["x-test-tenant"],
            )
            cleaning = create_task(client.post("/v1/maintenance/cleanup", json=asked))
            await held_up(service)
            assert (await client.post("/v1/invocations/heard/heartbeat")).status_code == 200
    finally:
        await writer.close()
    ids = (await cleaning).json()["ids"]
    assert (ids["workflow_invocations"], ids["node_invocations"]) == (["silent"], ["of_silent"])
