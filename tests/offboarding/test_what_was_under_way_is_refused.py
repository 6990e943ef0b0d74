"""A request that got past its key just before its tenant left finds nobody to write for."""

from __future__ import annotations

from asyncio import create_task

import asyncpg
import httpx

from app.http.service import Service
from tests.conftest import new_tenant
from tests.payloads import problem
from tests.waiting import held_up


async def test_it_is_told_that_the_tenant_is_closed(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        tenant = client.headers["x-test-tenant"]
        asked: list[tuple[str, str, dict[str, object]]] = [
            ("POST", "/v1/workflows", {"json": {"id": "w"}}),
            ("PUT", "/v1/conversations", {"json": {"path": "c", "identity": {"agent_name": "a", "instance_id": "i"}}}),
            ("PUT", "/v1/documents/c/d", {"json": {"n": 1}}),
            ("POST", "/v1/artifacts", {"content": b"x"}),
            ("POST", "/v1/backups", {"json": {}}),
        ]
        leaving = await asyncpg.connect(fresh.ground.database.url)
        try:
            async with leaving.transaction():
                for table in ("api_keys", "event_heads", "webhook_heads", "tenants"):
                    await leaving.execute(f"DELETE FROM {table} WHERE tenant_id = $1", tenant)
                under_way = [create_task(client.request(method, path, **more)) for method, path, more in asked]
                await held_up(fresh, len(under_way))
        finally:
            await leaving.close()
        answers: list[httpx.Response] = [await one for one in under_way]
    assert [problem(answer) for answer in answers] == [(403, "tenant_closed")] * len(asked)
