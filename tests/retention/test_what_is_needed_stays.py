"""What refers to a thing keeps it, whatever its age, and what does not lets it go."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.retention.aging import Run, age, ended, left, sql

OLD: dict[str, Any] = {"max_age_days": 30}


async def test_a_session_leaves_once_it_has_expired_and_no_memory_names_it(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for name, status in (("lasting", "active"), ("expired", "active"), ("remembered", "completed")):
        await make.created("/v1/sessions", id=name, status=status, expires_at="2100-01-01T00:00:00Z")
    await sql(
        service, client,
        "INSERT INTO memory_items (tenant_id, kind, id, content, session_id, digest)"
        " VALUES (:tenant, 'document', 'd', 'x', 'remembered', '')",
    )  # fmt: skip
    for column in ("created_at", "updated_at"):
        await age(service, client, "sessions", column)
    expired = "UPDATE sessions SET expires_at = now() - interval '31 days' WHERE tenant_id = :tenant AND id = 'expired'"
    await sql(service, client, expired)
    assert (await run({"sessions": OLD}))["counts"] == {"sessions": 1}
    assert await left(client, "/v1/sessions") == ["lasting", "remembered"]


async def test_a_pin_keeps_no_namesake_of_another_kind(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    await make.created("/v1/sessions", id="x", status="completed")
    await ended(make, (await make.version())["id"], "x")
    assert (await client.put("/v1/pins/session/x")).status_code == 201
    await age(service, client, "invocations", "ended_at")
    await run({"invocations": OLD})
    assert await left(client) == []


async def test_the_job_that_made_a_backup_stays_with_it(client: httpx.AsyncClient, service: Service, run: Run) -> None:
    assert (await client.post("/v1/backups", json={})).status_code == 202
    await sql(service, client, "UPDATE jobs SET state = 'failed', ended_at = now() WHERE tenant_id = :tenant")
    await sql(
        service, client,
        "INSERT INTO jobs (tenant_id, id, kind, state, ended_at) VALUES (:tenant, 'other', 'x', 'completed', now())",
    )  # fmt: skip
    for column in ("created_at", "ended_at"):
        await age(service, client, "jobs", column)
    assert (await run({"jobs": OLD}))["counts"] == {"jobs": 1}
    kinds = [job["kind"] for job in (await client.get("/v1/jobs")).json()["items"]]
    assert sorted(kinds) == ["backup.create", "retention.run"]


async def test_a_conversation_is_kept_by_work_for_its_own_instance_alone(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for instance in ("busy", "idle"):
        body = {"path": instance, "identity": {"agent_name": "a", "instance_id": instance}}
        assert (await client.put("/v1/conversations", json=body)).status_code == 201
    await make.submission(agent="a", instance_id="busy")
    for column in ("created_at", "updated_at"):
        await age(service, client, "conversation_streams", column)
    await run({"conversations": OLD})
    assert await left(client, "/v1/conversations", "path") == ["busy"]


async def test_an_invocation_that_never_started_is_older_than_all_that_did(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    await make.invocation(id="queued", version_id=version, status="queued")
    assert (await client.post("/v1/invocations/queued/end", json={"status": "cancelled"})).status_code == 200
    latest = {"invocations": {"max_age_days": 0, "keep_latest": 1}}
    await run(latest)
    assert await left(client) == ["queued"]
    await ended(make, version, "started")
    await run(latest)
    assert await left(client) == ["started"]


async def test_a_run_stays_for_an_invocation_that_names_it_and_no_generation(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    await make.created("/v1/evolution-runs", id="named")
    await make.invocation(run_id="named")
    assert (await client.post("/v1/evolution-runs/named/complete", json={"status": "completed"})).status_code == 200
    for column in ("started_at", "ended_at"):
        await age(service, client, "evolution_runs", column)
    assert (await run({"evolution_runs": OLD}))["counts"] == {}


@pytest.mark.parametrize("switch", ["pinned", "failed"])
async def test_what_joined_another_is_kept_with_it(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run, switch: str
) -> None:
    for name, host in (("host", None), ("joined", "host")):
        await make.submission(id=name, session_key="s")
        await sql(
            service, client,
            "UPDATE submissions SET is_head = false, status = 'settled', outcome = :outcome, joined_into = :host,"
            " settled_at = now() - interval '40 days' WHERE tenant_id = :tenant AND id = :id",
            id=name, host=host, outcome="failed" if host and switch == "failed" else "completed",
        )  # fmt: skip
    if switch == "pinned":
        assert (await client.put("/v1/pins/submission/joined")).status_code == 201
    assert (await run({"submissions": {**OLD, "keep_failed": True}}))["counts"] == {}
    rule = {"submissions": {**OLD, "keep_pinned": False}}
    assert (await run(rule))["counts"]["submissions"] == 2


async def test_a_dead_letter_keeps_what_it_is_about_and_no_namesake(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for name, source in (("lettered", "submission"), ("namesake", "webhook")):
        await make.submission(id=name)
        await sql(
            service, client,
            "WITH settled AS (UPDATE submissions SET is_head = false, status = 'settled', outcome = 'completed',"
            " settled_at = now() - interval '40 days' WHERE tenant_id = :tenant AND id = :id RETURNING id)"
            " INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts)"
            " SELECT :tenant, :source, id, 'x', 1 FROM settled", id=name, source=source,
        )  # fmt: skip
    await run({"submissions": OLD})
    rows = await sql(service, client, "SELECT id FROM submissions WHERE tenant_id = :tenant")
    assert [row["id"] for row in rows] == ["lettered"]


async def test_an_event_stays_until_its_deliveries_are_made(
    client: httpx.AsyncClient, service: Service, run: Run
) -> None:
    await sql(
        service, client,
        "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at, data)"
        " SELECT :tenant, n, now() - interval '40 days', 'e' || n, 'workflow.updated', 'workflow', 'w', now(), '{}'"
        " FROM generate_series(1, 9) AS n",
    )  # fmt: skip
    await sql(
        service, client,
        "INSERT INTO event_heads (tenant_id, position) VALUES (:tenant, 9)"
        " ON CONFLICT (tenant_id) DO UPDATE SET position = 9",
    )  # fmt: skip
    await sql(
        service, client,
        "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, event_type, event_position, status,"
        " lapses_at) SELECT :tenant, status, 'w', 'x', position, status, CASE WHEN status <> 'pending' THEN now() END"
        " FROM (VALUES ('pending', 4), ('queued', 6), ('sending', 8)) AS d (status, position)",
    )  # fmt: skip
    done = (
        "UPDATE webhook_deliveries SET status = 'delivered', lapses_at = NULL, ended_at = now()"
        " WHERE tenant_id = :tenant AND event_position = :position"
    )
    rule = {"events": OLD}
    for position, gone in ((4, 3), (6, 2), (8, 2), (9, 2)):
        tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
        assert tried.json()["would_leave"] == {"events": gone}
        assert (await run(rule))["counts"] == {"events": gone}
        await sql(service, client, done, position=position)
