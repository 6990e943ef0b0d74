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


async def test_invocations_leave_with_all_below_them_but_for_what_the_rule_keeps(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    for name in ("plain", "pinned"):
        await ended(make, version, name)
    await ended(make, version, "failed", "failed")
    await make.invocation(id="running", version_id=version)
    await make.created("/v1/invocations/plain/nodes", id="n", node_id="n")
    await make.created("/v1/invocations/plain/checkpoints", node_id="n", state=1)
    await make.created("/v1/invocations/plain/evaluations", id="e", score=1)
    assert (await client.put("/v1/pins/invocation/pinned")).status_code == 201
    assert (await client.put("/v1/pins/invocation/pinned")).status_code == 200
    await age(service, client, "invocations", "ended_at")
    await ended(make, version, "young")
    job = await run({"invocations": {"max_age_days": 30, "keep_failed": True}}, rows_max=1)
    assert await left(client) == ["failed", "pinned", "running", "young"]
    assert job["counts"] == {
        "checkpoints": 1, "evaluations": 1, "invocations": 1, "messages": 1, "node_invocations": 1,
    }  # fmt: skip
    assert await told(service, client, "invocation.deleted") == ["plain"]
    standing = (await client.get("/v1/retention")).json()["kinds"]["invocations"]
    assert (standing["last_counts"]["invocations"], standing["last_error"]) == (1, None)
    assert standing["last_success_at"] is not None
    assert (await client.delete("/v1/pins/invocation/pinned")).status_code == 204
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["running", "young"]


async def test_the_latest_of_each_workflow_stay(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for workflow in ("a", "b"):
        version = (await make.version((await make.workflow(id=workflow))["id"]))["id"]
        for n in range(3):
            await ended(make, version, f"{workflow}{n}")
    await age(service, client, "invocations", "ended_at")
    await run({"invocations": {"max_age_days": 0, "keep_latest": 2}})
    assert await left(client) == ["a1", "a2", "b1", "b2"]


async def test_the_best_of_a_generation_and_those_of_its_best_version_stay(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    best, other = (await make.version())["id"], (await make.version())["id"]
    await make.created("/v1/evolution-runs", id="run", generation={"id": "g"})
    for name, version, score in (
        ("low", other, 0.1), ("high", other, 0.9), ("as_high", other, 0.9), ("of_best", best, 0.2),
    ):  # fmt: skip
        await ended(make, version, name, generation_id="g", fitness_score=score)
    answer = await client.post("/v1/generations/g/complete", json={"best_version_id": best})
    assert answer.status_code == 200, answer.text
    await age(service, client, "invocations", "ended_at")
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["as_high", "high", "of_best"]
    await run({"invocations": {"max_age_days": 30, "keep_best": False}})
    assert await left(client) == []


async def test_a_parent_stays_as_long_as_a_child_does(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    version = (await make.version())["id"]
    # The parents end first, so that a pass in the order of the ends meets them before their children.
    for family in ("kept", "gone"):
        await ended(make, version, f"{family}_1")
        await ended(make, version, f"{family}_2", parent_invocation_id=f"{family}_1")
        await ended(make, version, f"{family}_3", parent_invocation_id=f"{family}_2")
    await client.put("/v1/pins/invocation/kept_3")
    await age(service, client, "invocations", "ended_at")
    tried = await client.put("/v1/retention", json={"kinds": {"invocations": {"max_age_days": 30}}, "dry_run": True})
    assert (tried.status_code, tried.json()["would_leave"]) == (200, {"invocations": 3}), tried.text
    assert tried.json()["kinds"]["invocations"]["rule"] is None
    stale = await client.put("/v1/retention", json={"kinds": {}, "dry_run": True}, headers={"if-match": '"7"'})
    assert problem(stale) == (412, "precondition_failed")
    job = await run({"invocations": {"max_age_days": 30}}, dry_run=True)
    assert (job["counts"], len(await left(client))) == ({"invocations": 3}, 6)
    await run({"invocations": {"max_age_days": 30}})
    assert await left(client) == ["kept_1", "kept_2", "kept_3"]


async def test_a_version_that_others_descend_from_stays_without_its_content(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    workflow = (await make.workflow(id="w"))["id"]
    dsl = {"of": "root"}
    await make.version(workflow, id="root", dsl=dsl)
    await make.version(workflow, id="leaf", operation="mutation", parent1_id="root")
    await make.version(workflow, id="used", operation="mutation", parent1_id="root")
    await make.version(workflow, id="pinned")
    await make.invocation(id="i", version_id="used")
    await client.put("/v1/pins/version/pinned")
    held = (await client.get("/v1/versions/root")).headers["etag"]
    await age(service, client, "versions", "created_at")
    rule = {"versions": {"max_age_days": 30}}
    tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
    assert tried.json()["would_leave"] == {"versions": 1, "pruned_versions": 1}
    assert (await run(rule, dry_run=True))["counts"] == {"versions": 1, "pruned_versions": 1}
    job = await run(rule)
    assert job["counts"] == {"versions": 1, "pruned_versions": 1, "node_versions": 2}
    assert await left(client, "/v1/versions") == ["pinned", "root", "used"]
    root = await client.get("/v1/versions/root", headers={"if-none-match": held})
    assert (root.status_code, root.json()["dsl"]) == (200, None)
    assert root.json()["pruned_at"] is not None
    for path in ("/v1/versions/root/dsl", "/v1/versions/used/diff/root"):
        assert problem(await client.get(path)) == (410, "version_pruned")
    refused = await client.post("/v1/invocations", json={"version_id": "root"})
    assert problem(refused) == (409, "version_is_pruned")
    assert await left(client, "/v1/versions/used/ancestors") == ["root"]
    assert (await run(rule))["counts"] == {}
    tried = await client.put("/v1/retention", json={"kinds": rule, "dry_run": True})
    assert tried.json()["would_leave"] == {"versions": 0}
    again = await client.post("/v1/workflows/w/versions", json={"id": "root", "dsl": dsl, "operation": "init"})
    assert (again.status_code, again.json()["pruned_at"]) == (200, None)
    assert (await client.get("/v1/versions/root")).json()["dsl"] == dsl
    told = "SELECT type FROM outbox WHERE tenant_id = :tenant AND subject_id = 'root' ORDER BY number"
    changes = [row["type"].removeprefix("version.") for row in await sql(service, client, told)]
    assert changes == ["created", "pruned", "restored"]
    await make.invocation(version_id="root")


async def test_so_many_versions_leave_at_once_as_have_so_many_nodes(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    workflow = (await make.workflow())["id"]
    nodes = [{"node_id": f"n{number}"} for number in range(8)]
    for _ in range(6):
        await make.version(workflow, nodes=nodes)
    await age(service, client, "versions", "created_at")
    job = await run({"versions": {"max_age_days": 30}}, rows_max=20)
    assert job["counts"] == {"versions": 6, "node_versions": 48}
    batches = await sql(
        service, client,
        "SELECT count(*) AS n FROM outbox WHERE tenant_id = :tenant AND type = 'version.deleted' GROUP BY xmin",
    )  # fmt: skip
    assert [row["n"] for row in batches] == [2, 2, 2]


async def test_an_evolution_run_leaves_once_nothing_names_it(
    client: httpx.AsyncClient, make: Make, service: Service, run: Run
) -> None:
    for name in ("old", "pinned", "used"):
        await make.created("/v1/evolution-runs", id=name, generation={"id": f"g_{name}"})
        state = await client.put(f"/v1/evolution-runs/{name}/checkpoint", json={"state": 1})
        assert state.status_code in (200, 201), state.text
    await make.created("/v1/evolution-runs", id="running")
    workflow = (await make.workflow(id="w"))["id"]
    for name in ("best", "member", "other"):
        await make.version(workflow, id=name, generation_id="g_old")
    await ended(make, "other", "i", generation_id="g_used")
    members = [{"version_id": name, "rank": rank} for rank, name in enumerate(("best", "member", "other"))]
    put = await client.put("/v1/generations/g_old/members", json={"items": members})
    assert put.status_code == 200, put.text
    done = await client.post("/v1/generations/g_old/complete", json={"best_version_id": "best"})
    assert done.status_code == 200, done.text
    for name in ("old", "pinned", "used"):
        answer = await client.post(f"/v1/evolution-runs/{name}/complete", json={"status": "completed"})
        assert answer.status_code == 200, answer.text
    assert (await client.put("/v1/pins/evolution_run/pinned")).status_code == 201
    for table, column in (("evolution_runs", "started_at"), ("evolution_runs", "ended_at"), ("versions", "created_at")):
        await age(service, client, table, column)
    runs = {"evolution_runs": {"max_age_days": 30}}
    # Members leave, the best and what ran stay, and so does the run.
    job = await run({"versions": {"max_age_days": 30}, **runs}, rows_max=1)
    assert await left(client, "/v1/versions") == ["best", "other"]
    assert job["counts"]["versions"] == 1
    assert len(await left(client, "/v1/evolution-runs")) == 4
    await age(service, client, "invocations", "ended_at")
    every = {"max_age_days": 30, "keep_best": False}
    tried = await client.put("/v1/retention", json={"kinds": runs, "dry_run": True})
    assert tried.json()["would_leave"] == {"evolution_runs": 0}
    job = await run({"invocations": every, "versions": every, **runs}, rows_max=1)
    assert await left(client, "/v1/evolution-runs") == ["pinned", "running"]
    expected = {
        "versions": 2, "best_of_generations": 1, "evolution_runs": 2, "generations": 2, "run_checkpoints": 2,
        "invocations": 1,
    }  # fmt: skip
    assert {table: job["counts"].get(table) for table in expected} == expected
    assert await told(service, client, "evolution_run.deleted") == ["old", "used"]
    assert await told(service, client, "generation.updated") == ["g_old", "g_old"]


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
