"""The same id with the same fields answers the row as it now is; with others it is a conflict, and nothing changes.

Fields are the same where they mean the same: only verbatim ones are compared as text.
"""

from __future__ import annotations

import re

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import problem, send

UUID7 = re.compile(r"[a-z]+_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}").fullmatch
SENT = b'"metadata":{"a":1,"b":{"c":[1.0,20]}}'
SAME = b'"metadata":{"b" : {"c":[1, 2e1]},"\\u0061":1.00}'
OTHER = b'"metadata":{"a":1,"b":{"c":[1.0,21]}}'
# What creates one, under which path; `%s` stands for the fields that are compared by their value.
CREATES = {
    "workflow": ("/v1/workflows", b'{"id":"x",%s}'),
    "invocation": ("/v1/invocations", b'{"id":"x","version_id":"v","usd_cost":%%s,"input":{"a":1.0},%s}'),
    "node invocation": ("/v1/invocations/inv/nodes", b'{"id":"x","node_id":"n","usd_cost":%%s,"output":{"a":1.0},%s}'),
    "action": ("/v1/invocations/inv/nodes/ni/actions", b'{"id":"x","tool":"t","duration_ms":%%s,"input":{"a":1.0},%s}'),
    "evaluation": ("/v1/invocations/inv/evaluations", b'{"id":"x","score":0.5,%s}'),
    "evolution run": ("/v1/evolution-runs", b'{"id":"x",%s}'),
    "node version": ("/v1/versions/v/nodes", b'{"id":"x","node_id":"new",%s}'),
    "session": ("/v1/sessions", b'{"id":"x",%s}'),
    "mcp version": ("/v1/mcp/servers/m/versions", b'{"id":"x","version":"1",%s}'),
    "mcp tool": ("/v1/mcp/servers/m/versions/mv/tools", b'{"name":"x","input_schema":{},%s}'),
    "mcp config": ("/v1/mcp/configs", b'{"id":"x","user_id":"u","name":"n","server_id":"m",%s}'),
    "dataset": ("/v1/datasets", b'{"id":"x","name":"n",%s}'),
    "dataset version": ("/v1/datasets/ds/versions", b'{"id":"x",%s}'),
    "dataset record": ("/v1/datasets/ds/records", b'{"id":"x",%s}'),
    "memory item": ("/v1/memory/records", b'{"id":"x","content":"c",%s}'),
    "evaluator": ("/v1/evaluators", b'{"id":"x","name":"n",%s}'),
}


@pytest.fixture(autouse=True)
async def record(make: Make) -> None:
    await make.workflow(id="w")
    await make.version("w", id="v")
    await make.invocation(id="inv", version_id="v")
    await make.created("/v1/invocations/inv/nodes", id="ni", node_id="n")
    await make.created("/v1/datasets", id="ds", name="d")
    await make.created("/v1/mcp/servers", id="m", publisher_id="p", slug="m", display_name="n")
    await make.created("/v1/mcp/servers/m/versions", id="mv", version="0")
    await make.created("/v1/evolution-runs", id="r")
    assert (await make.client.put("/v1/memory/spaces/m", json={"model": "m", "dimensions": 3})).status_code == 201


def body(kind: str, members: bytes = SENT, number: bytes = b"1") -> bytes:
    """The body that creates one of the kind."""
    members = {
        "action": members.replace(b"metadata", b"error"),
        "evolution run": members.replace(b"metadata", b"config"),
        "node version": members.replace(b"metadata", b"extras"),
        "dataset version": members.replace(b"metadata", b"snapshot_metadata"),
        "dataset record": members.replace(b"metadata", b"rubric"),
        "mcp version": members.replace(b"metadata", b"capabilities"),
        "mcp tool": members.replace(b"metadata", b"annotations"),
        "mcp config": members.replace(b"metadata", b"config"),
        "evaluator": members.replace(b"metadata", b"config"),
    }.get(kind, members)
    text = CREATES[kind][1] % members
    return text % number if b"%s" in text else text


@pytest.mark.parametrize("kind", CREATES)
async def test_the_same_value_written_otherwise_is_a_replay(client: httpx.AsyncClient, kind: str) -> None:
    path = CREATES[kind][0]
    made = await send(client, "POST", path, body(kind))
    assert made.status_code == 201, made.text
    again = await send(client, "POST", path, body(kind, SAME, b'"1.000"'))
    assert (again.status_code, again.content) == (200, made.content), again.text


@pytest.mark.parametrize("kind", CREATES)
async def test_another_value_is_a_conflict(client: httpx.AsyncClient, kind: str) -> None:
    path = CREATES[kind][0]
    await send(client, "POST", path, body(kind, number=b"12345678901234567890.123456789012345678"))
    refused = [await send(client, "POST", path, body(kind, OTHER, b"12345678901234567890.123456789012345678"))]
    if b"%s" in CREATES[kind][1] % b"":
        refused.append(await send(client, "POST", path, body(kind, number=b"12345678901234567890.123456789012345679")))
        exact = body(kind, number=b"12345678901234567890.123456789012345678").replace(b'{"a":1.0}', b'{"a":1}')
        refused.append(await send(client, "POST", path, exact))
    for answer in refused:
        assert problem(answer) == (409, f"{kind.replace(' ', '_')}_conflict"), answer.text


async def test_a_message_is_compared_by_its_text_and_whether_its_number_was_given(client: httpx.AsyncClient) -> None:
    path = "/v1/invocations/inv/messages"
    made = await send(client, "POST", path, b'{"id":"x","role":"user","payload":{"a":1.0}}')
    again = await send(client, "POST", path, b' {"payload" : {"a":1.0}, "role":"us\\u0065r","id":"x"}')
    assert (again.status_code, again.content) == (200, made.content)
    for other in (b'{"a":1}', b'{"a": 1.0}'):
        answer = await send(client, "POST", path, b'{"id":"x","role":"user","payload":%s}' % other)
        assert (problem(answer), answer.json()["ids"]) == ((409, "message_conflict"), ["x"])
    numbered = await client.post(path, json={"id": "x", "seq": made.json()["seq"], "role": "user"})
    assert problem(numbered) == (409, "message_conflict")


async def test_a_workflow_that_came_with_put_or_with_a_version_can_be_created_again(
    client: httpx.AsyncClient, make: Make
) -> None:
    fields = {"name": "n", "metadata": {"a": 1}}
    await client.put("/v1/workflows/put", json=fields)
    await make.version("inline", workflow=fields)
    for name in ("put", "inline"):
        assert (await client.post("/v1/workflows", json={"id": name, **fields})).status_code == 200
        refused = await client.post("/v1/workflows", json={"id": name, "name": "m"})
        assert problem(refused) == (409, "workflow_conflict")


async def test_ids_made_by_the_service_are_in_the_order_of_time(client: httpx.AsyncClient, make: Make) -> None:
    nodes = "/v1/invocations/inv/nodes"
    for path, fields in (
        ("/v1/workflows", {}),
        ("/v1/invocations", {"version_id": "v"}),
        ("/v1/versions/v/nodes", {"node_id": "made"}),
        (nodes, {"node_id": "n"}),
        (f"{nodes}/ni/actions", {"tool": "t"}),
        ("/v1/invocations/inv/evaluations", {"score": 1}),
        ("/v1/invocations/inv/messages", {"role": "user"}),
        ("/v1/evolution-runs", {}),
        ("/v1/evolution-runs/r/generations", {}),
        ("/v1/api-keys", {"name": "k", "scopes": ["*:read"]}),
        ("/v1/sessions", {}),
        ("/v1/datasets", {"name": "d"}),
        ("/v1/datasets/ds/versions", {}),
        ("/v1/datasets/ds/records", {}),
        ("/v1/evaluators", {"name": "e"}),
        ("/v1/memory/documents", {"content": "c"}),
    ):
        made = [(await make.created(path, **{**fields, **({"id": None} if n else {})}))["id"] for n in range(2)]
        assert all(map(UUID7, made)), made
        if path != "/v1/versions/v/nodes":
            assert made[0] != made[1]
