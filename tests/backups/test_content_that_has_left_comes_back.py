"""A version without its content is the same version: a restore brings content back, and never takes any away."""

from __future__ import annotations

import httpx
import pytest

from app.db.sql import Statement
from app.http.service import Service
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant


async def prune(service: Service, client: httpx.AsyncClient) -> None:
    """Let the content of the tenant's versions leave, as a rule of retention does."""
    text = "UPDATE versions SET dsl = NULL, pruned_at = now() WHERE tenant_id = :t RETURNING id"
    assert await service.ground.database.rows(Statement(text), t=client.headers["x-test-tenant"]) != []


@pytest.mark.parametrize("on_conflict", ["fail", "skip", "overwrite"])
async def test_a_version_whose_content_had_left_by_then_takes_none_away(fresh: Service, on_conflict: str) -> None:
    async with await new_tenant(fresh) as client:
        version = await Make(client).version()
        whole = await exported(fresh, client)
        await prune(fresh, client)
        tombstone = await exported(fresh, client)
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, whole))
        path = f"/v1/versions/{version['id']}?include=dsl"
        before = (await client.get(path)).json()
        found = sections_of(await restored(fresh, client, tombstone, on_conflict=on_conflict))
        assert found["versions"]["kept"] == 1
        assert (await client.get(path)).json() == before
        # The other way round its content comes back, as where the same is posted again.
        await prune(fresh, client)
        found = sections_of(await restored(fresh, client, whole, on_conflict=on_conflict))
        assert (found["versions"]["changed"], found["versions"]["conflicts"]) == (1, 0)
        assert (await client.get(path)).json() == before


async def test_content_comes_back_to_who_was_described_otherwise_here(fresh: Service) -> None:
    content = {"id": "v", "dsl": {"x": 1}, "operation": "init"}
    async with await new_tenant(fresh) as client:
        await client.post("/v1/workflows", json={"id": "w"})
        await client.post("/v1/workflows/w/versions", json={**content, "commit_message": "of the file"})
        whole = await exported(fresh, client, sections=["node_versions", "version_io"])
    async with await new_tenant(fresh) as client:
        await client.post("/v1/workflows", json={"id": "w"})
        await client.post("/v1/workflows/w/versions", json={**content, "commit_message": "of here"})
        await prune(fresh, client)
        found = sections_of(await restored(fresh, client, whole, on_conflict="skip"))
        assert (found["versions"]["changed"], found["versions"]["conflicts"]) == (1, 0)
        version = (await client.get("/v1/versions/v?include=dsl")).json()
        assert (version["dsl"], version["pruned_at"], version["commit_message"]) == ({"x": 1}, None, "of here")


async def test_a_version_without_content_is_in_conflict_with_another_of_its_id(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        await Make(client).version(id="v", dsl={"of": "here"})
        await prune(fresh, client)
        tombstone = await exported(fresh, client)
    async with await new_tenant(fresh) as client:
        await Make(client).version(id="v", dsl={"of": "there"})
        job = await restored(fresh, client, tombstone)
        assert job["error"]["sections"]["versions"]["conflict_ids"] == ["v"]
