"""INodePersistence and IMessagePersistence, method by method."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx

from tests.conftest import Make

CONFIG: dict[str, Any] = {
    "node_id": "plan",
    "llm_model": "m-1",
    "system_prompt": "Plan.",
    "tools": ["mcp_search", "code_run"],
    "description": "Plans.",
    "memory": {"k": "v"},
    "handoffs": ["search"],
    "waiting_for": ["start"],
    "extras": {"handOffType": "parallel", "maxSteps": 3, "gateway": "g"},
}


async def test_save_node_version_is_one_revision_for_each_configuration_whoever_is_first(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.version(id="v", nodes=[])
    answers = await gather(*(client.post("/v1/versions/v/nodes", json=CONFIG) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    stored = answers[0].json()
    for name, value in CONFIG.items():
        assert stored[name] == value
    other = await client.post("/v1/versions/v/nodes", json={**CONFIG, "llm_model": "m-2"})
    assert (other.status_code, other.json()["revision"]) == (201, stored["revision"] + 1)
    empty = await client.post("/v1/versions/v/nodes", json={**CONFIG, "node_id": ""})
    assert (empty.status_code, empty.json()["code"]) == (422, "invalid_input")


async def test_create_node_invocation_start_is_linked_to_its_node_version_and_repeats_safely(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version(nodes=[CONFIG])
    await make.invocation(id="inv", version_id=version["id"])
    body = {"id": "ni", "node_id": "plan", "model": "m-1", "started_at": "2026-01-05T10:00:00.000001Z", "attempt_no": 2}
    made = await client.post("/v1/invocations/inv/nodes", json=body)
    again = await client.post("/v1/invocations/inv/nodes", json=body)
    assert (made.status_code, again.status_code) == (201, 200)
    node_version = (await client.get(f"/v1/versions/{version['id']}/nodes")).json()["items"][0]
    assert made.json()["node_version_id"] == node_version["id"]
    assert (made.json()["status"], made.json()["attempt_no"], made.json()["started_at"]) == (
        "running", 2, "2026-01-05T10:00:00.000001Z",
    )  # fmt: skip


async def test_update_node_invocation_end_wins_once_and_never_succeeds_on_nothing(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version(nodes=[CONFIG])
    await make.invocation(id="inv", version_id=version["id"])
    await make.created("/v1/invocations/inv/nodes", id="ni", node_id="plan", extras={"kept": 1})
    end = {
        "status": "failed", "output": {"a": 1.0}, "summary": "It broke.", "usd_cost": 0.002, "files": ["a.txt"],
        "error": {"message": "late", "category": "tool", "severity": "high", "retryable": True},
    }  # fmt: skip
    first = await client.post("/v1/invocations/inv/nodes/ni/end", json=end)
    assert (first.status_code, first.json()["extras"], first.json()["files"]) == (200, {"kept": 1}, ["a.txt"])
    zombie = await client.post("/v1/invocations/inv/nodes/ni/end", json={"status": "completed"})
    assert (zombie.status_code, zombie.json()["current_status"]) == (409, "failed")
    nobody = await client.post("/v1/invocations/inv/nodes/nobody/end", json=end)
    assert nobody.status_code == 404


async def test_save_node_invocation_in_one_records_also_errors_as_what_they_are(
    client: httpx.AsyncClient, make: Make
) -> None:
    version = await make.version(nodes=[CONFIG])
    await make.created(f"/v1/versions/{version['id']}/nodes", **{**CONFIG, "llm_model": "m-2"})
    await make.invocation(id="inv", version_id=version["id"])
    body = {
        "id": "ni", "node_id": "plan", "status": "failed", "started_at": "2026-01-05T10:00:00Z",
        "ended_at": "2026-01-05T10:00:01Z", "error": {"message": "no"}, "summary": "Nothing.",
        "extras": {"agentSteps": [], "message_id": "m"},
    }  # fmt: skip
    made = await client.post("/v1/invocations/inv/nodes", json=body)
    assert (made.status_code, made.json()["status"]) == (201, "failed")
    missing = await client.post("/v1/invocations/inv/nodes", json={**body, "id": "n2", "node_id": "nobody"})
    assert (missing.status_code, missing.json()["code"]) == (404, "node_version_missing")
    lost = await client.post("/v1/invocations/nobody/nodes", json=body)
    assert lost.json()["code"] == "invocation_not_found"


async def test_retrieve_node_summaries_paged_by_start_and_of_one_node(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version(nodes=[CONFIG, {**CONFIG, "node_id": "search"}])
    await make.invocation(id="inv", version_id=version["id"])
    for number, node in ((3, "plan"), (1, "search"), (2, "plan")):
        await make.created(
            "/v1/invocations/inv/nodes", id=f"n{number}", node_id=node, summary=f"s{number}",
            started_at=f"2026-01-05T10:00:0{number}Z",
        )  # fmt: skip
    every = (await client.get("/v1/invocations/inv/summaries")).json()["items"]
    assert [(item["node_id"], item["summary"]) for item in every] == [("search", "s1"), ("plan", "s2"), ("plan", "s3")]
    one = (await client.get("/v1/invocations/inv/summaries?node_id=plan&limit=1")).json()
    assert ([item["summary"] for item in one["items"]], one["next_cursor"] is None) == (["s2"], False)
    assert (await client.get("/v1/invocations/nobody/summaries")).json()["code"] == "invocation_not_found"


async def test_update_node_memory_replaces_it_once_for_the_node_and_names_one_that_is_not_there(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.version(id="v", nodes=[CONFIG])
    await make.created("/v1/versions/v/nodes", **{**CONFIG, "llm_model": "m-2"})
    path = "/v1/versions/v/nodes/plan/memory"
    put = await client.put(path, json={"learned": "all"})
    assert (put.status_code, (await client.get(path)).json()) == (200, {"learned": "all"})
    revisions = (await client.get("/v1/versions/v/nodes")).json()["items"]
    assert [item["memory"] for item in revisions] == [{"k": "v"}, {"k": "v"}]
    nobody = await client.put("/v1/versions/v/nodes/nobody/memory", json={})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "node_version_missing")


async def test_message_save_keeps_the_keys_of_the_payload_and_repeats_safely(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="inv")
    payload = b'{"kind":"aggregated","messages":[{"fromNodeId":"a","payload":{"workDone":1.0}}]}'
    body = b'{"id":"m","seq":1,"from_node_id":"start","to_node_id":"end","role":"aggregated","payload":%b}' % payload
    path, headers = "/v1/invocations/inv/messages", {"content-type": "application/json"}
    made = await client.post(path, content=body, headers=headers)
    again = await client.post(path, content=body, headers=headers)
    assert (made.status_code, again.status_code) == (201, 200)
    assert b'"payload":' + payload in (await client.get(f"{path}/m?include=payload")).content
    same_seq = await client.post(path, json={"id": "m2", "seq": 1, "role": "result"})
    other = await client.post(path, json={"id": "m", "seq": 2, "role": "result"})
    assert (same_seq.status_code, other.status_code, other.json()["code"]) == (201, 409, "message_conflict")
    nobody = await client.post("/v1/invocations/nobody/messages", json={"role": "result"})
    assert nobody.json()["code"] == "invocation_not_found"


async def test_message_update_says_who_read_it_and_cannot_be_lost_in_a_batch_with_its_save(
    client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="inv")
    early = await client.patch("/v1/invocations/inv/messages/m", json={"target_node_invocation_id": "ni"})
    assert early.status_code == 404
    both = await client.post(
        "/v1/batch",
        json={
            "operations": [
                {"method": "POST", "path": "/v1/invocations/inv/messages", "body": {"id": "m", "role": "result"}},
                {
                    "method": "PATCH",
                    "path": "/v1/invocations/inv/messages/m",
                    "body": {"target_node_invocation_id": "ni"},
                },
            ]
        },
    )
    assert both.status_code == 200
    assert (await client.get("/v1/invocations/inv/messages/m")).json()["target_node_invocation_id"] == "ni"
