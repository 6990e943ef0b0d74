"""A trace: everything recorded under an invocation, once, in order, byte for byte, on one snapshot."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from app.traces import store
from tests.conftest import Make
from tests.payloads import PAYLOADS, problem, send

PATH = "/v1/invocations/inv"


@pytest.fixture
async def version(make: Make) -> dict[str, Any]:
    nodes = [{"node_id": "a", "system_prompt": "p", "tools": ["t"]}, {"node_id": "b"}]
    version = await make.version(nodes=nodes, dsl={"x": 1.5})
    await make.invocation(id="inv", version_id=version["id"], input={"q": 1})
    return version


async def run(client: httpx.AsyncClient, id: str, node_id: str, second: int, **fields: Any) -> None:
    body = {"id": id, "node_id": node_id, "started_at": f"2026-01-05T10:00:{second:02}Z", **fields}
    assert (await client.post(f"{PATH}/nodes", json=body)).status_code == 201


async def trace(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"{PATH}/trace", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_nodes_come_in_start_order_with_what_belongs_to_them(
    client: httpx.AsyncClient, version: dict[str, Any]
) -> None:
    await run(client, "second", "b", 2)
    await run(client, "first", "a", 1)
    await client.post(
        f"{PATH}/nodes/first/actions", json={"items": [{"id": "y", "tool": "t"}, {"id": "x", "tool": "u"}]}
    )
    messages = [
        {
            "id": "m2",
            "seq": 2,
            "role": "r",
            "origin_node_invocation_id": "first",
            "target_node_invocation_id": "second",
        },
        {"id": "m1", "seq": 1, "role": "r", "target_node_invocation_id": "first"},
        {
            "id": 'm"3',
            "seq": 3,
            "role": "r",
            "origin_node_invocation_id": "gone",
            "target_node_invocation_id": "second",
        },
    ]
    await client.post(f"{PATH}/messages", json={"items": messages})
    found = await trace(client)
    assert list(found) == ["invocation", "version", "workflow", "nodes", "messages", "more"]
    assert (found["invocation"]["id"], found["invocation"]["input"]) == ("inv", {"q": 1})
    assert (found["version"]["id"], found["version"]["dsl"]) == (version["id"], {"x": 1.5})
    workflow = (await client.get(f"/v1/workflows/{version['workflow_id']}")).json()
    counted = ("version_count", "latest_version_id")
    assert found["workflow"] == {name: value for name, value in workflow.items() if name not in counted}
    first, second = found["nodes"]
    assert (first["id"], second["id"]) == ("first", "second")
    assert first["node_version"]["system_prompt"] == "p"
    assert first["node_version_id"] == first["node_version"]["id"]
    assert [action["id"] for action in first["actions"]] == ["y", "x"]
    assert (first["messages_in"], first["messages_out"]) == (["m1"], ["m2"])
    assert (second["actions"], second["messages_in"], second["messages_out"]) == ([], ["m2", 'm"3'], [])
    assert [message["id"] for message in found["messages"]] == ["m1", "m2", 'm"3']
    assert found["more"] == {"nodes": None, "actions": [], "messages": None}
    listed = (await client.get(f"{PATH}/nodes", params={"include": "output"})).json()["items"]
    keys = ("node_version", "actions", "messages_in", "messages_out")
    assert [{name: node[name] for name in node if name not in keys} for node in found["nodes"]] == listed


async def test_an_invocation_with_nothing_under_it_has_an_empty_trace(
    client: httpx.AsyncClient, other: httpx.AsyncClient, version: dict[str, Any]
) -> None:
    found = await trace(client)
    assert (found["nodes"], found["messages"]) == ([], [])
    for caller, path in ((client, "/v1/invocations/none/trace"), (other, f"{PATH}/trace")):
        assert problem(await caller.get(path)) == (404, "invocation_not_found")
        assert problem(await caller.get(f"{path}/metrics")) == (404, "invocation_not_found")


@pytest.mark.parametrize("name", PAYLOADS)
async def test_b01_every_payload_stands_in_the_trace_byte_for_byte(
    client: httpx.AsyncClient, make: Make, name: str
) -> None:
    payload = PAYLOADS[name]
    workflow = await make.workflow()
    made = await send(
        client, "POST", f"/v1/workflows/{workflow['id']}/versions",
        b'{"id":"v","dsl":%s,"operation":"init","nodes":[{"node_id":"n"}]}' % payload,
    )  # fmt: skip
    assert made.status_code == 201, made.text
    invocation = b'{"id":"inv","version_id":"v","input":%s,"output":%s,"fitness":%s}' % (payload, payload, payload)
    assert (await send(client, "POST", "/v1/invocations", invocation)).status_code == 201
    node = b'{"id":"ni","node_id":"n","status":"completed","output":%s}' % payload
    assert (await send(client, "POST", f"{PATH}/nodes", node)).status_code == 201
    action = b'{"tool":"t","input":%s,"output":%s}' % (payload, payload)
    assert (await send(client, "POST", f"{PATH}/nodes/ni/actions", action)).status_code == 201
    assert (await send(client, "POST", f"{PATH}/messages", b'{"role":"r","payload":%s}' % payload)).status_code == 201
    answer = await client.get(f"{PATH}/trace")
    for member, times in ((b"dsl", 1), (b"input", 2), (b"output", 3), (b"fitness", 1), (b"payload", 1)):
        assert answer.content.count(b'"%s":' % member + payload) == times, member
    batch = {"operations": [{"method": "GET", "path": f"{PATH}/trace"}]}
    assert answer.content in (await client.post("/v1/batch", json=batch)).content


async def test_a_trace_beyond_its_limit_says_how_to_go_on(client: httpx.AsyncClient, version: dict[str, Any]) -> None:
    for number in range(3):
        await run(client, f"n{number}", "a", 1)
    await client.post(f"{PATH}/nodes/n0/actions", json={"items": [{"tool": "t"}] * 3})
    messages = [{"id": f"m{n}", "seq": 1, "role": "r", "target_node_invocation_id": "n0"} for n in range(5)]
    await client.post(f"{PATH}/messages", json={"items": messages})
    found = await trace(client, limit=2)
    assert [len(found["nodes"]), len(found["nodes"][0]["actions"]), len(found["messages"])] == [2, 2, 2]
    assert found["nodes"][0]["messages_in"] == ["m0", "m1"]
    assert found["more"]["actions"] == ["n0"]
    nodes = await client.get(f"{PATH}/nodes", params={"cursor": found["more"]["nodes"]})
    assert [node["id"] for node in nodes.json()["items"]] == ["n2"]
    rest = await client.get(f"{PATH}/messages", params={"cursor": found["more"]["messages"], "include": "payload"})
    assert [message["id"] for message in rest.json()["items"]] == ["m2", "m3", "m4"]
    assert (await trace(client, limit=5))["more"] == {"nodes": None, "actions": [], "messages": None}
    for limit in (0, 10_001, "x"):
        assert problem(await client.get(f"{PATH}/trace", params={"limit": limit})) == (422, "invalid_input")


async def test_a_trace_stops_before_its_payloads_outgrow_the_budget(
    client: httpx.AsyncClient, version: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BYTES_MAX", 10_000)
    texts = ["x" * 20_000, "short", "y" * 4_000, "z" * 4_000]
    await client.post(f"{PATH}/messages", json={"items": [{"role": "r", "payload": text} for text in texts]})
    for number in range(3):
        await run(client, f"n{number}", "a", number)
        await client.post(f"{PATH}/nodes/n{number}/actions", json={"tool": "t", "output": "x" * 6_000})
    found = await trace(client)
    assert ([node["id"] for node in found["nodes"]], len(found["messages"])) == (["n0", "n1"], 1)
    seen = found["messages"]
    rest = await client.get(f"{PATH}/messages", params={"cursor": found["more"]["messages"], "include": "payload"})
    seen += rest.json()["items"]
    assert [message["payload"] for message in seen] == texts
    assert found["more"]["nodes"] is not None


async def test_a_trace_takes_three_statements_on_one_snapshot(
    client: httpx.AsyncClient, version: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        await run(client, f"n{number:03}", "a", number % 60)
    for start in (0, 1000):
        items = [{"id": f"m{start + n}", "role": "r", "payload": "x" * 100} for n in range(1000)]
        assert (await client.post(f"{PATH}/messages", json={"items": items})).status_code == 201
    ran: list[str] = []
    original = Statement.bind

    def bind(statement: Any, arguments: Any) -> Any:
        ran.append(statement.name)
        return original(statement, arguments)

    monkeypatch.setattr(Statement, "bind", bind)
    answer = await client.get(f"{PATH}/trace")
    assert [name for name in ran if name in store._SQL] == ["head", "nodes", "messages"]
    found = json.loads(answer.content)
    assert (len(found["nodes"]), len(found["messages"])) == (200, 2000)


async def test_metrics_say_what_was_slow_dear_and_wrong(client: httpx.AsyncClient, version: dict[str, Any]) -> None:
    end = {"status": "completed", "input_tokens": 10}
    for number, (node_id, seconds, cost) in enumerate((("a", 1, 0.1), ("b", 5, 0.2), ("a", 4, 0.3))):
        await run(
            client, f"n{number}", node_id, 10, **end, usd_cost=cost, ended_at=f"2026-01-05T10:00:{10 + seconds}.5Z"
        )
    await run(client, "bad", "b", 20, status="failed", ended_at="2026-01-05T10:00:20Z", error={"message": "no"})
    await run(client, "still", "b", 30)
    calls = [
        {"tool": "search", "duration_ms": 10.5},
        {"tool": "search", "duration_ms": 4, "exit_code": 1},
        {"tool": "read", "status": "failed"},
    ]
    await client.post(f"{PATH}/nodes/n0/actions", json={"items": calls})
    sent = [("a", "b", "r"), ("b", "a", "error"), ("a", "b", "r"), (None, "a", "r")]
    messages = [{"role": role, "from_node_id": from_, "to_node_id": to} for from_, to, role in sent]
    await client.post(f"{PATH}/messages", json={"items": messages})
    answer = await client.get(f"{PATH}/trace/metrics")
    assert answer.status_code == 200, answer.text
    assert b'"usd_cost":0.6,' in answer.content
    assert answer.json() == {
        "invocation_id": "inv",
        "status": "running",
        "duration_seconds": None,
        "usd_cost": 0.6,
        "node_invocation_count": 5,
        "completed_count": 3,
        "failed_count": 1,
        "message_count": 4,
        "error_message_count": 1,
        "bottleneck": {"node_invocation_id": "n1", "node_id": "b", "duration_seconds": 5.5},
        "dearest_node": {"node_id": "a", "usd_cost": 0.4},
        "avg_usd_cost_per_node": 0.3,
        "nodes": [
            {
                "node_id": "a", "runs": 2, "failed_runs": 0, "duration_seconds": 6, "usd_cost": 0.4,
                "input_tokens": 20, "output_tokens": None,
            },
            {
                "node_id": "b", "runs": 3, "failed_runs": 1, "duration_seconds": 5.5, "usd_cost": 0.2,
                "input_tokens": 10, "output_tokens": None,
            },
        ],
        "tools": [
            {"tool": "search", "calls": 2, "failed_calls": 1, "duration_ms": 14.5},
            {"tool": "read", "calls": 1, "failed_calls": 1, "duration_ms": None},
        ],
        "flow": [
            {"from_node_id": "a", "to_node_id": "b", "messages": 2},
            {"from_node_id": "b", "to_node_id": "a", "messages": 1},
            {"from_node_id": None, "to_node_id": "a", "messages": 1},
        ],
        "error_count": 1,
        "errors": [{"node_invocation_id": "bad", "node_id": "b", "error": {"message": "no"}}],
        "error": None,
    }  # fmt: skip
    await client.post(f"{PATH}/end", json={"status": "completed", "usd_cost": 2})
    assert (await client.get(f"{PATH}/trace/metrics")).json()["usd_cost"] == 2
