"""What `keep_latest` and `keep_failed` keep of the kinds that are judged by nothing else, and that all SQL is good."""

from __future__ import annotations

import httpx
import pytest

from app.http.service import Service
from app.retention.kinds import KINDS
from tests.conftest import Make
from tests.retention.aging import Run, age, sql

# By kind: the instants of its rows, and what names one.
INSTANTS = {
    "dead_letters": (("created_at",), "subject"),
    "webhook_deliveries": (("created_at", "ended_at"), "id"),
    "evolution_runs": (("started_at", "ended_at"), "id"),
    "sessions": (("created_at", "updated_at"), "id"),
    "jobs": (("created_at", "ended_at"), "id"),
    "conversations": (("created_at", "updated_at"), "agent_name || ' ' || instance_id"),
}
INSERTS = {
    "dead_letters": (
        "INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts)"
        " VALUES (:tenant, 'webhook', CAST(:id AS text), CAST(:outcome AS text), 1)"
    ),
    "webhook_deliveries": (
        "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, event_type, body, status, ended_at)"
        " VALUES (:tenant, :id, 'w', 'x', '1', CASE CAST(:outcome AS text) WHEN 'failed' THEN 'dead'"
        " ELSE 'delivered' END, now())"
    ),
    "jobs": "INSERT INTO jobs (tenant_id, id, kind, state, ended_at) VALUES (:tenant, :id, 'x', :outcome, now())",
}


async def done(service: Service, make: Make, kind: str, name: str, outcome: str = "completed") -> None:
    """Something of the kind that has ended so."""
    if kind in INSERTS:
        await sql(service, make.client, INSERTS[kind], id=name, outcome=outcome)
    elif kind == "evolution_runs":
        await make.created("/v1/evolution-runs", id=name)
        ended = await make.client.post(f"/v1/evolution-runs/{name}/complete", json={"status": outcome})
        assert ended.status_code == 200, ended.text
    elif kind == "sessions":
        await make.created("/v1/sessions", id=name, status="crashed" if outcome == "failed" else outcome)
    else:
        body = {"path": name, "identity": {"agent_name": "a", "instance_id": name}}
        assert (await make.client.put("/v1/conversations", json=body)).status_code == 201


async def left(service: Service, client: httpx.AsyncClient, kind: str) -> list[str]:
    """What is there of the kind, but for the runs of retention."""
    _, name = INSTANTS[kind]
    where = " AND kind = 'x'" if kind == "jobs" else ""
    rows = await sql(
        service, client, f"SELECT {name} AS name FROM {KINDS[kind].table} WHERE tenant_id = :tenant{where} ORDER BY 1"
    )
    return [row["name"].removeprefix("a ") for row in rows]


async def aged(service: Service, client: httpx.AsyncClient, kind: str) -> None:
    """Let all of the kind be old."""
    for column in INSTANTS[kind][0]:
        await age(service, client, KINDS[kind].table, column)


@pytest.mark.parametrize("kind", [name for name in INSTANTS if "keep_failed" in KINDS[name].switches])
async def test_what_failed_stays_where_that_is_wanted(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run, kind: str
) -> None:
    await done(service, make, kind, "failed", "failed")
    await done(service, make, kind, "well")
    await aged(service, client, kind)
    await run({kind: {"max_age_days": 30, "keep_failed": True}})
    assert await left(service, client, kind) == ["failed"]
    await run({kind: {"max_age_days": 30}})
    assert await left(service, client, kind) == []


@pytest.mark.parametrize("kind", [name for name in INSTANTS if name != "jobs"])
async def test_the_latest_stay(client: httpx.AsyncClient, make: Make, service: Service, run: Run, kind: str) -> None:
    for name in ("c", "b", "a"):
        await done(service, make, kind, name)
    await aged(service, client, kind)
    await run({kind: {"max_age_days": 30, "keep_latest": 2}})
    assert await left(service, client, kind) == ["a", "b"]


async def test_every_kind_can_be_followed_by_a_rule_with_all_that_it_knows(client: httpx.AsyncClient, run: Run) -> None:
    rules = {
        kind.name: {"max_age_days": 0, **{name: 1 if name == "keep_latest" else True for name in kind.switches}}
        for kind in KINDS.values()
    }
    tried = await client.put("/v1/retention", json={"kinds": rules, "dry_run": True})
    assert tried.json()["would_leave"] == dict.fromkeys(KINDS, 0)
    assert (await run(rules, dry_run=True))["counts"] == {}
    assert (await run(rules))["counts"] == {}
    standing = (await client.get("/v1/retention")).json()["kinds"]
    assert [kind for kind, told in standing.items() if told["last_success_at"] is None] == []
