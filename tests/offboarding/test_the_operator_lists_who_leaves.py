"""The list of tenants that leave or have left: the operator's, page by page."""

from __future__ import annotations

import httpx

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import ADMIN_KEY, Clone, http, running, settings_for
from tests.payloads import problem

MADE = Statement(
    "INSERT INTO offboardings (tenant_id, id) SELECT 'gone-' || n, 'off_' || n FROM generate_series(1, 5) AS n"
)


async def test_it_is_walked_page_by_page_and_by_nobody_else(fresh: Service) -> None:
    await fresh.ground.database.rows(MADE)
    async with http(fresh, authorization=f"Bearer {ADMIN_KEY}") as operator:
        seen, path = list[str](), "/v1/offboardings?limit=2&order=asc"
        while path:
            page = (await operator.get(path)).json()
            assert len(page["items"]) <= 2
            seen += [item["id"] for item in page["items"]]
            path = page["next_cursor"] and f"/v1/offboardings?limit=2&order=asc&cursor={page['next_cursor']}"
        assert sorted(seen) == [f"off_{number}" for number in range(1, 6)]
        refused = await operator.get("/v1/offboardings?cursor=garbled")
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_cursor")
        for query in ("limit=0", "limit=1001", "order=up", "sort=nothing", "offset=1"):
            assert (await operator.get(f"/v1/offboardings?{query}")).status_code == 422
        tenant = {"x-tenant-id": "acme", "authorization": f"Bearer {ADMIN_KEY}"}
        await operator.put("/v1/tenants/acme", json={})
        made = await operator.post("/v1/api-keys", json={"name": "k", "scopes": ["admin"]}, headers=tenant)
    async with http(fresh, authorization=f"Bearer {made.json()['key']}") as stranger:
        answer: httpx.Response = await stranger.get("/v1/offboardings")
        assert answer.status_code == 403


async def test_without_keys_the_default_tenant_is_seen_to_leave_and_opened_again(clone: Clone) -> None:
    settings = settings_for(await clone(), auth={"mode": "off", "cache_seconds": 0})
    async with running(settings) as service, http(service) as anyone:
        begun = (await anyone.delete("/v1/tenants/default?export=true")).json()
        assert problem(await anyone.get("/v1/workflows", headers={"x-tenant-id": "default"})) == (403, "tenant_closed")
        assert problem(await anyone.get("/v1/workflows")) == (400, "tenant_required")
        seen = await anyone.get(f"/v1/offboardings/{begun['id']}")
        assert (seen.status_code, seen.json()["state"]) == (200, "exporting")
        assert (await anyone.post(f"/v1/offboardings/{begun['id']}/cancel")).status_code == 204
        assert (await anyone.get("/v1/workflows")).status_code == 200
