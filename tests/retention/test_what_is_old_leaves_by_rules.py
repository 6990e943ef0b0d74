"""Retention: what each rule keeps, what leaves with what, and that nothing leaves without one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.conftest import Make
from tests.payloads import problem
from tests.retention.aging import Run, age, ended, left, sql, told


async def test_nothing_leaves_without_a_rule(client: httpx.AsyncClient, make: Make, service: Service, run: Run) -> None:
    version = (await make.version())["id"]
    await ended(make, version, "old")
    await age(service, client, "invocations", "ended_at", 4000)
    job = await run({"invocations": {"keep_latest": 0}})
    assert (job["counts"], await left(client)) == ({}, ["old"])
    await run({"invocations": None})
    standing = (await client.get("/v1/retention")).json()["kinds"]
    assert all(kind["rule"] is None for kind in standing.values())


async def test_settled_submissions_leave_a_receipt_and_no_session(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    async def settled(name: str, outcome: str = "completed", **fields: Any) -> None:
        await make.submission(id=name, **fields)
        body = {"outcome": outcome, "error": "no"} if outcome != "completed" else {"attempt_id": "a"}
        if outcome == "completed":
            claim = {"attempt_id": "a", "owner_id": "o", "lease_seconds": 60}
            await client.put("/v1/attempt-markers", params={"submission_id": name, "attempt_id": "a"})
            assert (await client.post(f"/v1/submissions/{name}/claim", json=claim)).status_code == 200
            answer = await client.post(f"/v1/submissions/{name}/complete", json=body)
        else:
            answer = await client.post(f"/v1/submissions/{name}/settle-queued", json=body)
        assert answer.status_code == 200, answer.text

    await settled("done")
    await settled("failed", "failed")
    await settled("pinned")
    await settled("shared", session_key="shared")
    await make.submission(id="open", session_key="shared")
    await client.put("/v1/pins/submission/pinned")
    await age(service, client, "submissions", "settled_at")
    await run({"submissions": {"max_age_days": 30, "keep_failed": True}})
    rows = await sql(service, client, "SELECT id FROM submissions WHERE tenant_id = :tenant ORDER BY id")
    assert [row["id"] for row in rows] == ["failed", "open", "pinned"]
    assert await told(service, client, "submission.deleted") == ["done", "shared"]
    again = await client.post(
        "/v1/submissions",
        json={"id": "done", "session_key": "s", "kind": "direct", "agent": "a", "instance_id": "i", "input": 1},
    )
    assert (again.status_code, again.json()["kind"]) == (200, "retained_receipt")
    markers = await sql(service, client, "SELECT submission_id FROM attempt_markers WHERE tenant_id = :tenant")
    assert [row["submission_id"] for row in markers] == ["pinned"]
    sessions = await sql(service, client, "SELECT session_key FROM submission_sessions WHERE tenant_id = :tenant")
    assert "shared" in [row["session_key"] for row in sessions]
    assert len(sessions) == 3


async def test_conversations_leave_with_batches_checkpoint_and_attachments(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for path in ("old", "pinned", "busy"):
        identity = {"agent_name": path, "instance_id": "i"}
        assert (await client.put("/v1/conversations", json={"path": path, "identity": identity})).status_code == 201
        claim = (await client.post("/v1/conversations/acquire", json={"path": path, "producer_id": "p"})).json()
        for n in range(4):
            append = {
                "path": path, "producer_id": "p", "producer_epoch": claim["producer_epoch"],
                "incarnation": claim["incarnation"], "producer_sequence": n, "records": [{"id": str(n)}],
            }  # fmt: skip
            assert (await client.post("/v1/conversations/append", json=append)).status_code == 200
        checkpoint = {"offset": "-1", "incarnation": "i", "format_version": 1, "data": 1}
        assert (await client.put(f"/v1/conversations/checkpoint?path={path}", json=checkpoint)).status_code == 201
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    kept = await client.put(
        "/v1/attachments",
        params={
            "path": "old", "id": "a", "conversation_id": "c", "mime_type": "text/plain", "size": 3, "digest": digest,
        },
        content=b"abc",
    )  # fmt: skip
    assert kept.status_code == 201, kept.text
    await make.submission(id="open", agent="busy")
    assert (await client.put("/v1/pins/conversation/pinned")).status_code == 201
    await age(service, client, "conversation_streams", "created_at")
    await age(service, client, "conversation_streams", "updated_at")
    await age(service, client, "attachments", "created_at")
    job = await run({"conversations": {"max_age_days": 30}}, rows_max=2)
    assert await left(client, "/v1/conversations", "path") == ["busy", "pinned"]
    assert await told(service, client, "conversation.deleted") == ["old"]
    assert job["counts"] == {
        "conversation_batches": 4, "attachments": 1, "conversations": 1, "conversation_checkpoints": 1,
    }  # fmt: skip
    chunks = await sql(service, client, "SELECT count(*) AS n FROM content_chunks WHERE tenant_id = :tenant")
    assert chunks[0]["n"] == 0


async def test_sessions_jobs_letters_and_deliveries_leave_once_nothing_needs_them(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    for name, status in (("active", "active"), ("done", "completed"), ("named", "completed"), ("crashed", "crashed")):
        await make.created("/v1/sessions", id=name, status=status)
    await make.invocation(version_id=version, session_id="named")
    for column in ("created_at", "updated_at"):
        await age(service, client, "sessions", column)
    for name, status in (("lettered", "dead"), ("dead", "dead"), ("delivered", "delivered"), ("waiting", "pending")):
        await sql(
            service, client,
            "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, event_type, body, status, created_at, ended_at)"
            " VALUES (:tenant, :id, 'w', 'x', '1', :status, now() - interval '40 days',"
            " CASE WHEN :status <> 'pending' THEN now() - interval '40 days' END)", id=name, status=status,
        )  # fmt: skip
    await sql(
        service, client,
        "INSERT INTO webhook_attempts (tenant_id, delivery_id, number) VALUES (:tenant, 'dead', 1)",
    )  # fmt: skip
    for name, days in (("lettered", 1), ("gone", 40)):
        await sql(
            service, client,
            "INSERT INTO dead_letters (tenant_id, source, subject, reason, attempts, created_at)"
            " VALUES (:tenant, 'webhook', :id, 'x', 1, now() - make_interval(days => :days))", id=name, days=days,
        )  # fmt: skip
    await sql(
        service, client,
        "INSERT INTO jobs (tenant_id, id, kind, state, created_at, ended_at) VALUES (:tenant, 'old', 'x', 'completed',"
        " now() - interval '40 days', now() - interval '40 days')",
    )  # fmt: skip
    rule = {"max_age_days": 30}
    job = await run(
        {"sessions": {**rule, "keep_failed": True}, "jobs": rule, "dead_letters": rule, "webhook_deliveries": rule}
    )
    assert job["counts"] == {
        "sessions": 1, "jobs": 1, "dead_letters": 1, "webhook_deliveries": 2, "webhook_attempts": 1,
    }  # fmt: skip
    assert await left(client, "/v1/sessions") == ["active", "crashed", "named"]
    rows = await sql(service, client, "SELECT id FROM webhook_deliveries WHERE tenant_id = :tenant ORDER BY id")
    assert [row["id"] for row in rows] == ["lettered", "waiting"]


async def test_events_leave_from_the_earliest_on_and_not_before_webhooks_know_them(
    client: httpx.AsyncClient, service: Service, run: Run
) -> None:
    await sql(
        service, client,
        "INSERT INTO events (tenant_id, position, sequenced_at, id, type, subject_type, subject_id, occurred_at, data)"
        " SELECT :tenant, n, now() - make_interval(days => 50 - n), 'e' || n, 'workflow.updated', 'workflow', 'w',"
        " now(), '{}' FROM generate_series(1, 30) AS n",
    )  # fmt: skip
    await sql(
        service, client,
        "INSERT INTO event_heads (tenant_id, position) VALUES (:tenant, 30)"
        " ON CONFLICT (tenant_id) DO UPDATE SET position = 30",
    )  # fmt: skip
    await sql(service, client, "INSERT INTO webhook_heads (tenant_id, position) VALUES (:tenant, 5)")
    cursor = (await client.get("/v1/events?limit=2")).json()["next_cursor"]
    rule = {"events": {"max_age_days": 30}}
    job = await run(rule, rows_max=4)
    assert job["counts"] == {"events": 5}
    gone = await client.get("/v1/events", params={"after": cursor})
    assert problem(gone) == (410, "cursor_expired")
    await sql(service, client, "UPDATE webhook_heads SET position = 30 WHERE tenant_id = :tenant")
    tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
    assert tried.json()["would_leave"] == {"events": 15}
    assert (await run(rule, rows_max=4))["counts"] == {"events": 15}
    first = (await client.get("/v1/events?limit=1")).json()["items"][0]
    assert first["position"] == 21


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("events", {"keep_latest": 5}), ("jobs", {"keep_best": True}), ("dead_letters", {"keep_failed": True}),
        ("invocations", {"max_age_days": -1}), ("nonsense", {}),
    ],
)  # fmt: skip
async def test_a_rule_that_means_nothing_is_refused(client: httpx.AsyncClient, kind: str, rule: Any) -> None:
    refused = await client.put("/v1/retention", json={"kinds": {kind: rule}})
    assert problem(refused) == (422, "invalid_input")
    assert [found["pointer"] for found in refused.json()["errors"]] == ["/".join(["/kinds", kind, *rule])]
    assert (await client.get("/v1/retention")).headers["etag"] == '"0"'


async def test_rules_as_they_are_can_be_put_again(client: httpx.AsyncClient) -> None:
    kinds = (await client.get("/v1/retention")).json()["kinds"]
    put = await client.put("/v1/retention", json={"kinds": {kind: {"max_age_days": 9} for kind in kinds}})
    rules = {kind: told["rule"] for kind, told in put.json()["kinds"].items()}
    again = await client.put("/v1/retention", json={"kinds": rules})
    assert {kind: told["rule"] for kind, told in again.json()["kinds"].items()} == rules


async def test_what_is_not_there_is_not_pinned(client: httpx.AsyncClient) -> None:
    for kind in ("invocation", "version", "evolution_run", "conversation", "submission", "session", "backup"):
        refused = await client.put(f"/v1/pins/{kind}/absent")
        assert problem(refused) == (404, "nothing_to_pin")
        assert problem(await client.get(f"/v1/pins/{kind}/absent")) == (404, "pin_not_found")
        assert problem(await client.delete(f"/v1/pins/{kind}/absent")) == (404, "pin_not_found")
    assert problem(await client.put("/v1/pins/message/absent")) == (422, "invalid_input")
    assert (await client.get("/v1/pins")).json()["items"] == []
