"""Submissions that joined another: what keeps one of them keeps both, and they are counted as they leave."""

from __future__ import annotations

import httpx

from app.background.runner import drain
from app.background.work import JobRunner
from app.db.sql import Statement
from app.http.service import Service
from app.retention.jobs import Retention
from app.retention.store import RUN_KIND
from tests.conftest import Make

SETTLE = Statement(
    "UPDATE submissions SET is_head = false, status = 'settled', outcome = 'completed', joined_into = :host,"
    " settled_at = now() - make_interval(days => :days) WHERE tenant_id = :tenant AND id = :id"
)


async def test_the_latest_of_a_session_keeps_what_it_joined_and_a_dry_run_counts_both(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    database, tenant = service.ground.database, client.headers["x-test-tenant"]

    async def leave(rule: dict[str, int]) -> tuple[int, int, list[str]]:
        body = {"kinds": {"submissions": rule}}
        tried = await client.put("/v1/retention", json={**body, "dry_run": True})
        assert (await client.put("/v1/retention", json=body)).status_code == 200
        job = await client.post("/v1/retention/runs", json={})
        await drain(JobRunner({RUN_KIND: Retention(2)}, 30, service.ground.hints).run, database)
        counts = (await client.get(job.headers["location"])).json()["counts"]
        rows = await database.rows(Statement("SELECT id FROM submissions WHERE tenant_id = :t ORDER BY id"), t=tenant)
        return tried.json()["would_leave"]["submissions"], counts.get("submissions", 0), [row["id"] for row in rows]

    for name in ("alone", "host", "joined"):
        await make.submission(id=name, session_key="s")
    # Whoever joins is settled by itself: later than its host, as it may be.
    for name, host, days in (("alone", None, 40), ("host", None, 40), ("joined", "host", 35)):
        await database.rows(SETTLE, tenant=tenant, id=name, host=host, days=days)
    assert await leave({"max_age_days": 30, "keep_latest": 1}) == (1, 1, ["host", "joined"])
    assert await leave({"max_age_days": 37}) == (0, 0, ["host", "joined"])
    assert await leave({"max_age_days": 30}) == (2, 2, [])
