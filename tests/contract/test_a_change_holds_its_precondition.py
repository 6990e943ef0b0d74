"""`If-Match` on every resource that has an ETag: the current one lets the change through, every other is 412."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import codes, problem

CHECKPOINT = {"offset": "-1", "incarnation": "i", "format_version": 1, "data": "old"}
CHANGES = [
    ("PUT", "/v1/workflows/w", {"name": "new"}),
    ("PATCH", "/v1/workflows/w", {"name": "new"}),
    ("PUT", "/v1/versions/v/io", [1]),
    ("PUT", "/v1/versions/v/nodes/n/memory", {"a": 1}),
    ("PATCH", "/v1/versions/v/nodes/n/memory", {"a": 1}),
    ("PATCH", "/v1/invocations/inv", {"feedback": "new"}),
    ("PATCH", "/v1/invocations/inv/messages/m", {"target_node_invocation_id": "ni"}),
    ("PUT", "/v1/format-stamps/f", {"value": "new"}),
    ("PUT", "/v1/maintenance/schedule", {"every_seconds": 120}),
    ("PUT", "/v1/retention", {"kinds": {"jobs": {"max_age_days": 2}}}),
    ("PUT", "/v1/documents/c", {"history": 1}),
    ("PUT", "/v1/documents/c/d", [1]),
    ("PATCH", "/v1/documents/c/d", {"a": 1}),
    ("PATCH", "/v1/sessions/s", {"status": "suspended"}),
    ("PATCH", "/v1/mcp/servers/m", {"display_name": "new"}),
    ("PATCH", "/v1/mcp/servers/m/versions/mv", {"listed": False}),
    ("PATCH", "/v1/mcp/configs/c", {"enabled": False}),
    ("PUT", "/v1/mcp/configs/c", {"user_id": "u", "name": "new"}),
    ("PUT", "/v1/mcp/users/u/configs", {"items": [{"name": "new", "server_id": "m"}]}),
    ("PATCH", "/v1/memory/records/m", {"content": "new"}),
    ("PATCH", "/v1/datasets/d", {"name": "new"}),
    ("PATCH", "/v1/evaluators/e", {"name": "new"}),
    ("PATCH", "/v1/evolution-runs/r", {"notes": "new"}),
    ("PUT", "/v1/evolution-runs/r/checkpoint", [1]),
    ("PATCH", "/v1/generations/g", {"comment": "new"}),
    ("PUT", "/v1/conversations/checkpoint?path=c", {**CHECKPOINT, "data": "new"}),
    ("PATCH", "/v1/webhooks/h", {"description": "new"}),
    ("PUT", "/v1/generations/g/members", {"items": [{"version_id": "v"}]}),
    ("PUT", "/v1/invocations/inv/contexts/s/k", {"a": 1}),
]


@pytest.fixture(autouse=True)
async def record(make: Make, client: httpx.AsyncClient) -> None:
    await make.workflow(id="w")
    await make.version("w", id="v")
    await make.invocation(id="inv", version_id="v")
    await make.created("/v1/invocations/inv/nodes", id="ni", node_id="n")
    await make.created("/v1/invocations/inv/messages", id="m", role="user", payload={"a": 1})
    await client.put("/v1/versions/v/io", json=[0])
    await client.put("/v1/invocations/inv/contexts/s/k", json=[0])
    await make.created("/v1/sessions", id="s")
    await client.put("/v1/documents/c/d", json={})
    await client.put("/v1/memory/spaces/m", json={"model": "m", "dimensions": 3})
    await make.created("/v1/memory/records", id="m", content="old")
    await client.put("/v1/format-stamps/f", json={"value": "old"})
    await client.put("/v1/maintenance/schedule", json={"every_seconds": 60})
    await client.put("/v1/retention", json={"kinds": {"jobs": {"max_age_days": 1}}})
    await make.created("/v1/mcp/servers", id="m", publisher_id="p", slug="m", display_name="old")
    await make.created("/v1/mcp/servers/m/versions", id="mv", version="1")
    await make.created("/v1/mcp/configs", id="c", user_id="u", name="old", server_id="m")
    await make.created("/v1/datasets", id="d", name="old")
    await make.created("/v1/evaluators", id="e", name="old")
    await make.created("/v1/webhooks", id="h", url="http://127.0.0.1:9/")
    await make.created("/v1/evolution-runs", id="r", generation={"id": "g"})
    await client.put("/v1/evolution-runs/r/checkpoint", json=[0])
    await client.put("/v1/conversations/checkpoint?path=c", json=CHECKPOINT)


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_only_the_current_etag_lets_a_change_through(
    client: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    before = await client.get(path)
    current = before.headers["etag"]
    for stale in ('"99"', f"W/{current}", '"x"', '""', "nonsense"):
        refused = await client.request(method, path, json=body, headers={"if-match": stale})
        assert problem(refused) == (412, "precondition_failed"), stale
        assert refused.json()["current_etag"] == current
    after = await client.get(path)
    assert (after.content, after.headers["etag"]) == (before.content, current)
    changed = await client.request(method, path, json=body, headers={"if-match": f'"99", {current}'})
    assert changed.status_code == 200, changed.text
    assert changed.headers["etag"] == (await client.get(path)).headers["etag"] != current
    again = await client.request(method, path, json=body, headers={"if-match": current})
    assert again.status_code == 412
    assert (await client.request(method, path, json=body, headers={"if-match": "*"})).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/workflows/w", "/v1/invocations/inv", "/v1/versions/v/io", "/v1/versions/v/nodes/n/memory"),
        "/v1/invocations/inv/contexts/s/k",
    ],
)
async def test_what_may_change_is_never_answered_304(client: httpx.AsyncClient, path: str) -> None:
    etag = (await client.get(path)).headers["etag"]
    for tag in (etag, "*"):
        assert (await client.get(path, headers={"if-none-match": tag})).status_code == 200


@pytest.mark.parametrize("path", ["/v1/versions/v", "/v1/versions/v/dsl"])
async def test_what_never_changes_is_answered_304(client: httpx.AsyncClient, path: str) -> None:
    shown = await client.get(path)
    held = await client.get(path, headers={"if-none-match": f'"other", {shown.headers["etag"]}'})
    assert (held.status_code, held.content, held.headers["etag"]) == (304, b"", shown.headers["etag"])
    assert (await client.get(path, headers={"if-none-match": '"other"'})).content == shown.content


@pytest.mark.parametrize("tag", ["*", '"1"'])
async def test_nothing_is_made_under_a_precondition(
    client: httpx.AsyncClient, operator: httpx.AsyncClient, make: Make, tag: str
) -> None:
    await make.version("w", id="bare")
    await make.created("/v1/evolution-runs", id="bare")
    for caller, path in (
        (client, "/v1/workflows/absent"),
        (client, "/v1/versions/bare/io"),
        (client, "/v1/documents/absent"),
        (client, "/v1/documents/absent/d"),
        (client, "/v1/documents/c/absent"),
        (client, "/v1/evolution-runs/bare/checkpoint"),
        (operator, "/v1/tenants/absent"),
    ):
        refused = await caller.put(path, json={}, headers={"if-match": tag})
        assert problem(refused) == (412, "precondition_failed")
        assert (await caller.get(path)).status_code == 404


async def test_a_tenant_and_its_limits_change_under_their_etag(
    client: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    tenant = f"/v1/tenants/{client.headers['x-test-tenant']}"
    for method, path in (("PUT", tenant), ("PATCH", tenant), ("PUT", f"{tenant}/limits")):
        current = (await operator.get(path)).headers["etag"]
        refused = await operator.request(method, path, json={}, headers={"if-match": '"99"'})
        assert (problem(refused), refused.json()["current_etag"]) == ((412, "precondition_failed"), current)
        assert (await operator.request(method, path, json={}, headers={"if-match": current})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/workflows/empty"),
        ("DELETE", "/v1/workflows/empty?cascade=true"),
        ("DELETE", "/v1/sessions/s"),
        ("DELETE", "/v1/format-stamps/f"),
        ("DELETE", "/v1/maintenance/schedule"),
        ("DELETE", "/v1/invocations/inv/contexts/s/k"),
        ("DELETE", "/v1/documents/c"),
        ("DELETE", "/v1/documents/c/d"),
        ("DELETE", "/v1/mcp/servers/m"),
        ("DELETE", "/v1/mcp/servers/m/versions/mv"),
        ("DELETE", "/v1/mcp/configs/c"),
        ("DELETE", "/v1/datasets/d"),
        ("DELETE", "/v1/evaluators/e"),
        ("DELETE", "/v1/webhooks/h"),
    ],
)
async def test_a_removal_holds_its_precondition_too(
    client: httpx.AsyncClient, make: Make, method: str, path: str
) -> None:
    await make.workflow(id="empty")
    refused = await client.request(method, path, headers={"if-match": '"2"'})
    assert problem(refused) == (412, "precondition_failed")
    assert (await client.get("/v1/jobs")).json()["items"] == []
    assert (await client.get(path.partition("?")[0])).status_code == 200


async def test_signs_of_life_and_what_is_derived_move_no_etag(client: httpx.AsyncClient, make: Make) -> None:
    before = [await client.get(path) for path in ("/v1/workflows/w", "/v1/invocations/inv")]
    runs = [(await client.get(path)).headers["etag"] for path in ("/v1/evolution-runs/r", "/v1/generations/g")]
    await make.version("w")
    for _ in range(2):
        await client.post("/v1/invocations/inv/heartbeat")
        await client.post("/v1/evolution-runs/r/heartbeat")
    await make.invocation(version_id="v", generation_id="g")
    after_it = [await client.get(path) for path in ("/v1/evolution-runs/r", "/v1/generations/g")]
    assert [answer.headers["etag"] for answer in after_it] == runs
    assert [answer.json()["invocation_count"] for answer in after_it] == [1, 1]
    after = [await client.get(path) for path in ("/v1/workflows/w", "/v1/invocations/inv")]
    for was, now in zip(before, after, strict=True):
        assert (now.headers["etag"], now.json()["updated_at"]) == (was.headers["etag"], was.json()["updated_at"])
    assert after[0].json()["version_count"] == 2
    assert after[1].json()["heartbeat_at"] is not None


async def test_a_job_is_cancelled_again_and_again(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="empty")
    job = (await client.delete("/v1/workflows/empty?cascade=true")).headers["location"]
    answers = [await client.post(f"{job}/cancel") for _ in range(2)]
    assert codes(answers) == [200, 200]
    assert answers[0].content == answers[1].content
