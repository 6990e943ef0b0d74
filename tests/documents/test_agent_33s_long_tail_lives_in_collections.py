"""Tables of AGENT-33 that have no resource of their own are collections: budgets, releases, reviews."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.payloads import problem, send

BUDGET = {
    "budget_id": "BDG-4f0c1b2a9d3e", "task_id": "TASK-201", "agent_id": "AGT-001", "state": "draft",
    "created_at": "2026-03-01T09:00:00+00:00", "expires_at": None, "approved_by": "",
    "in_scope": ["engine/src/**"], "out_of_scope": ["infra/**"],
    "files": {"read": ["**"], "write": ["engine/src/**"], "deny": [".env"]},
    "allowed_commands": [{"command": "pytest", "args_pattern": "-q .*", "max_calls": 5}],
    "denied_commands": ["rm"], "require_approval_commands": ["git push"],
    "network": {"enabled": False, "allowed_domains": [], "denied_domains": [], "max_requests": 0},
    "limits": {"max_iterations": 100, "max_duration_minutes": 60, "max_files_modified": 50, "max_tool_calls": 200},
    "stop_conditions": [{"condition_id": "SC-1", "description": "Scope changes", "action": "escalate"}],
    "escalation_triggers": [{"trigger_id": "ET-1", "description": "A secret", "target": "ops", "urgency": "immediate"}],
    "default_escalation_target": "orchestrator",
}  # fmt: skip
RELEASE = {
    "release_id": "REL-0c9a7d51e2b4", "version": "2.2.0", "release_type": "minor", "status": "planned",
    "created_at": "2026-03-01T09:00:00+00:00", "released_at": None, "released_by": "",
    "evidence": {"gate_passed": False, "success_rate": 0.97, "rework_rate": 0.1, "branch": "main", "build_id": "1"},
    "description": "", "rc_version": "",
}  # fmt: skip
REVIEW = {
    "id": "rev-77d2c0fe41aa", "task_id": "TASK-201", "branch": "feat/x", "pr_number": 509, "state": "draft",
    "risk_assessment": {
        "risk_level": "high", "triggers_identified": ["security", "schema"], "l1_required": True, "l2_required": True,
    },
    "l1_review": {"reviewer_id": "", "reviewer_role": "", "decision": None, "checklist_results": {}},
    "l2_review": {"reviewer_id": "", "reviewer_role": "", "decision": None, "checklist_results": {}},
    "final_signoff": {"approved_by": "", "approval_type": "", "conditions": []},
    "evidence": {"verification_log_ref": "", "evidence_capture_ref": ""}, "artifacts": [],
}  # fmt: skip


async def kept(client: httpx.AsyncClient, collection: str, name: str, row: dict[str, Any]) -> None:
    """Store a row as it is, as new."""
    stored = await client.put(f"/v1/documents/{collection}/{name}", json=row, headers={"if-none-match": "*"})
    assert (stored.status_code, stored.json()["indexed"]) == (201, True), stored.text


async def found(client: httpx.AsyncClient, collection: str, **asked: Any) -> list[str]:
    """The ids that a query finds, in its order."""
    answer = await client.post(f"/v1/documents/{collection}/query", json=asked)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_budgets_are_approved_once_and_what_was_decided_under_them_is_found(
    client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    await kept(client, "autonomy_budgets", BUDGET["budget_id"], BUDGET)
    path = f"/v1/documents/autonomy_budgets/{BUDGET['budget_id']}"
    read = await client.get(path)
    assert read.json() == BUDGET

    approval = {"state": "active", "approved_by": "ann", "limits": {"max_tool_calls": 20}}
    held = {"if-match": read.headers["etag"]}
    approved = await client.patch(f"{path}?merge=rfc7396", json=approval, headers=held)
    assert approved.status_code == 200, approved.text
    late = await client.patch(f"{path}?merge=rfc7396", json={"state": "rejected"}, headers=held)
    assert problem(late) == (412, "precondition_failed")
    now = (await client.get(path)).json()
    assert now == {**BUDGET, **approval, "limits": {**BUDGET["limits"], "max_tool_calls": 20}}

    for number, (command, result) in enumerate((("pytest", "allowed"), ("rm", "blocked"), ("git push", "escalated"))):
        event = {"budget_id": BUDGET["budget_id"], "check": "command", "command": command, "result": result}
        await kept(client, "autonomy_enforcer_events", f"{BUDGET['budget_id']}:{number}", event)
    escalation = {
        "escalation_id": "ESC-1", "budget_id": BUDGET["budget_id"], "trigger_description": "git push", "target": "ops",
        "urgency": "immediate", "acknowledged": False, "resolved": False,
    }  # fmt: skip
    await kept(client, "autonomy_escalations", "ESC-1", escalation)
    of_budget = {"budget_id": BUDGET["budget_id"]}
    events = [f"{BUDGET['budget_id']}:{number}" for number in range(3)]
    assert await found(client, "autonomy_enforcer_events", contains=of_budget) == events
    assert await found(client, "autonomy_enforcer_events", contains={**of_budget, "result": "blocked"}) == events[1:2]
    unsafe = {"result": ["blocked", "escalated"]}
    assert await found(client, "autonomy_enforcer_events", contains=of_budget, **{"in": unsafe}) == events[1:]
    assert await found(client, "autonomy_escalations", contains={**of_budget, "acknowledged": False}) == ["ESC-1"]
    assert await found(client, "autonomy_budgets", contains={"stop_conditions": [{"action": "escalate"}]}) == [
        BUDGET["budget_id"]
    ]
    assert problem(await other.get(path)) == (404, "document_not_found")
    assert await found(other, "autonomy_budgets") == []


async def test_a_release_and_the_items_of_its_checklist_change_together_or_not(client: httpx.AsyncClient) -> None:
    release = f"/v1/documents/releases/{RELEASE['release_id']}"
    await kept(client, "releases", RELEASE["release_id"], RELEASE)
    items = [f"{RELEASE['release_id']}:RL-0{number}" for number in range(1, 5)]
    for item in items:
        body = {"release_id": RELEASE["release_id"], "check_id": item[-5:], "status": "pending", "required": True}
        await kept(client, "release_checklist_items", item, body)

    def passed(item: str, version: str) -> dict[str, Any]:
        return {
            "method": "PATCH", "path": f"/v1/documents/release_checklist_items/{item}?merge=shallow",
            "headers": {"If-Match": version}, "body": {"status": "pass"},
        }  # fmt: skip

    frozen = {"method": "PATCH", "path": f"{release}?merge=shallow", "body": {"status": "frozen"}}
    stale = await client.post("/v1/batch", json={"operations": [frozen, passed(items[0], '"7"')]})
    assert (problem(stale), stale.json()["index"]) == ((412, "precondition_failed"), 1)
    assert (await client.get(release)).json()["status"] == "planned"
    versions = [(await client.get(f"/v1/documents/release_checklist_items/{item}")).headers["etag"] for item in items]
    all_three = [frozen, passed(items[0], versions[0]), passed(items[2], versions[2])]
    both = await client.post("/v1/batch", json={"operations": all_three})
    assert both.status_code == 200, both.text

    of_release = {"release_id": RELEASE["release_id"]}
    left = {"contains": {**of_release, "required": True}, "in": {"status": ["pending", "fail"]}}
    assert await found(client, "release_checklist_items", **left) == [items[1], items[3]]
    assert await found(client, "releases", contains={"status": "frozen", "evidence": {"branch": "main"}}) == [
        RELEASE["release_id"]
    ]
    counted = (await client.get("/v1/documents")).json()["items"]
    assert {item["name"]: item["document_count"] for item in counted} == {"releases": 1, "release_checklist_items": 4}


async def test_what_a_review_went_through_can_be_read_again(client: httpx.AsyncClient) -> None:
    rules = await client.put("/v1/documents/reviews", json={"history": 10, "secret_paths": ["/reviewer_token"]})
    assert rules.status_code == 201, rules.text
    path = f"/v1/documents/reviews/{REVIEW['id']}"
    # The text as the engine wrote it, spacing included: 509.0 would be another number of a pull request to a reader.
    text = json.dumps(REVIEW, indent=1)
    assert (await send(client, "PUT", path, text.encode())).status_code == 201
    assert (await client.get(path)).text == text
    steps = [
        {"state": "l1-review", "l1_review": {"reviewer_id": "AGT-006", "reviewer_role": "reviewer"}},
        {"state": "l1-approved", "l1_review": {"decision": "approved", "checklist_results": {"testing": "pass"}}},
        {"state": "merged", "final_signoff": {"approved_by": "ann", "approval_type": "l1_l2_human"}},
    ]
    for step in steps:
        assert (await client.patch(f"{path}?merge=rfc7396", json=step)).status_code == 200
    assert await found(client, "reviews", contains={"risk_assessment": {"triggers_identified": ["security"]}}) == [
        REVIEW["id"]
    ]
    history = (await client.get(f"{path}/revisions?include=body")).json()["items"]
    states = [item["body"]["state"] for item in sorted(history, key=lambda item: item["revision"])]
    assert states == ["draft", "l1-review", "l1-approved"]
