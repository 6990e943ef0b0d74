"""What went wrong in an invocation: of every kind, in the order of time, each once, with its error."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import problem, send

PATH = "/v1/invocations/inv"
PAYLOAD = b'{"kind":"error", "stack":[1e400,"\\u0000"]}'


@pytest.fixture(autouse=True)
async def record(make: Make, client: httpx.AsyncClient) -> None:
    """An invocation in which something of each kind fails, beside what does not."""
    await make.invocation(id="inv", started_at="2026-01-05T10:00:00Z")
    nodes = f"{PATH}/nodes"
    for name, second, status, error in (
        ("fine", 1, "completed", None),
        ("bad", 2, "failed", {"message": "The tool timed out.", "retryable": True}),
        ("odd", 3, "completed", {"message": "Half of it."}),
    ):
        times = {"started_at": f"2026-01-05T10:00:0{second}Z", "ended_at": f"2026-01-05T10:00:0{second}.5Z"}
        await make.created(nodes, id=name, node_id="n", status=status, error=error, **times)
    actions = [
        {"id": "ok", "tool": "t", "exit_code": 0, "status": "completed"},
        {"id": "code", "tool": "sh", "exit_code": 2},
        {"id": "status", "tool": "t", "status": "error"},
        {"id": "said", "tool": "t", "error": {"message": "no"}},
    ]
    for number, action in enumerate(actions):
        await make.created(f"{nodes}/bad/actions", **action, started_at=f"2026-01-05T10:00:02.{number}Z")
    message = b'{"id":"m","role":"error","from_node_id":"n","origin_node_invocation_id":"bad","payload":%b}' % PAYLOAD
    assert (await send(client, "POST", f"{PATH}/messages", message)).status_code == 201
    await make.created(f"{PATH}/messages", id="quiet", role="result", payload="fine")


async def failures(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.get(f"{PATH}/failures", params={**query, **cursor})
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        if answer.json()["next_cursor"] is None:
            return found
        cursor = {"cursor": answer.json()["next_cursor"]}


async def test_every_kind_of_failure_is_there_in_the_order_of_time(client: httpx.AsyncClient) -> None:
    await client.post(f"{PATH}/end", json={"status": "failed", "error": {"message": "gave up"}})
    found = await failures(client, limit=2)
    assert [(item["kind"], item["id"]) for item in found] == [
        ("action", "code"), ("action", "status"), ("action", "said"), ("node", "bad"), ("node", "odd"),
        ("message", "m"), ("invocation", "inv"),
    ]  # fmt: skip
    code, _, said, bad, odd, message, invocation = found
    assert (code["tool"], code["exit_code"], code["node_id"], code["node_invocation_id"]) == ("sh", 2, "n", "bad")
    assert (said["error"], said["failed_at"]) == ({"message": "no"}, "2026-01-05T10:00:02.300000Z")
    assert (bad["status"], bad["error"]["message"], bad["failed_at"]) == (
        "failed", "The tool timed out.", "2026-01-05T10:00:02.500000Z",
    )  # fmt: skip
    assert (odd["status"], odd["error"]["message"]) == ("completed", "Half of it.")
    assert (message["node_id"], message["node_invocation_id"], "payload" in message) == ("n", "bad", False)
    assert (invocation["status"], invocation["error"]) == ("failed", {"message": "gave up"})
    assert await failures(client, order="desc", limit=3) == found[::-1]
    assert await failures(client, kind="node") == [bad, odd]


async def test_the_payload_of_an_error_message_is_shown_exactly_where_it_is_asked_for(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get(f"{PATH}/failures?include=payload&kind=message")
    assert answer.content.count(b'"payload":' + PAYLOAD) == 1


async def test_an_invocation_without_failures_has_an_empty_list_and_one_that_is_not_there_has_none(
    client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="clean")
    assert (await client.get("/v1/invocations/clean/failures")).json() == {"items": [], "next_cursor": None}
    for caller, name in ((client, "none"), (other, "inv")):
        assert problem(await caller.get(f"/v1/invocations/{name}/failures")) == (404, "invocation_not_found")
