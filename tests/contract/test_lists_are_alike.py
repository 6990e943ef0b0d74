"""Every list takes the same parameters, bounds them alike, and goes on from its own cursors only."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.attachments.uploads import put
from tests.conftest import Make
from tests.deadletters.letters import given_up
from tests.payloads import problem
from tests.submissions.calls import Calls

LISTS = {
    "workflows": "/v1/workflows",
    "versions": "/v1/versions",
    "versions of a workflow": "/v1/workflows/w/versions",
    "ancestors": "/v1/versions/grandchild/ancestors",
    "descendants": "/v1/versions/v/descendants",
    "common ancestors": "/v1/versions/child/common-ancestors/grandchild",
    "node versions": "/v1/node-versions",
    "node versions of a version": "/v1/versions/v/nodes",
    "invocations": "/v1/invocations",
    "node invocations": "/v1/node-invocations",
    "node invocations of an invocation": "/v1/invocations/inv/nodes",
    "summaries": "/v1/invocations/inv/summaries",
    "messages": "/v1/invocations/inv/messages",
    "actions": "/v1/invocations/inv/nodes/ni/actions",
    "sessions": "/v1/sessions",
    "pins": "/v1/pins",
    "conversations": "/v1/conversations",
    "checkpoints": "/v1/invocations/inv/checkpoints",
    "contexts": "/v1/invocations/inv/contexts",
    "mcp servers": "/v1/mcp/servers",
    "mcp versions": "/v1/mcp/servers/w/versions",
    "mcp tools": "/v1/mcp/servers/w/versions/v/tools",
    "mcp configs": "/v1/mcp/configs",
    "attachments": "/v1/attachments/references",
    "memory documents": "/v1/memory/documents",
    "memory records": "/v1/memory/records",
    "memory spaces": "/v1/memory/spaces",
    "artifacts": "/v1/artifacts",
    "artifacts of an invocation": "/v1/invocations/inv/artifacts",
    "document collections": "/v1/documents",
    "revisions of a document": "/v1/documents/w/v/revisions",
    "format stamps": "/v1/format-stamps",
    "dead letters": "/v1/dead-letters",
    "leases": "/v1/leases",
    "webhooks": "/v1/webhooks",
    "deliveries": "/v1/deliveries",
    "deliveries of a webhook": "/v1/webhooks/w/deliveries",
    "joins": "/v1/submissions/w/joins",
    "settlements": "/v1/settlements",
    "attempt markers": "/v1/attempt-markers",
    "datasets": "/v1/datasets",
    "versions of a dataset": "/v1/datasets/w/versions",
    "records of a dataset": "/v1/datasets/w/records",
    "evaluators": "/v1/evaluators",
    "lineage": "/v1/invocations/inv/lineage",
    "evaluations": "/v1/invocations/inv/evaluations",
    "failures": "/v1/invocations/inv/failures",
    "costs": "/v1/costs",
    "evolution runs": "/v1/evolution-runs",
    "generations": "/v1/evolution-runs/r/generations",
    "versions of a run": "/v1/evolution-runs/r/versions",
    "submissions": "/v1/submissions",
    "backups": "/v1/backups",
    "jobs": "/v1/jobs",
    "keys": "/v1/api-keys",
    "tenants": "/v1/tenants",
    "decisions": "/v1/schema/decisions",
}
# A tenant's own key sees its own tenant alone.
ONE = {"tenants"}


@pytest.fixture(autouse=True)
async def record(make: Make, client: httpx.AsyncClient) -> None:
    """Two of everything."""
    nodes = "/v1/invocations/inv/nodes"
    await make.workflow(id="w")
    await make.version("w", id="v", nodes=[{"node_id": "n"}, {"node_id": "o"}])
    await make.version("w", id="child", operation="mutation", parent1_id="v")
    await make.version("w", id="grandchild", operation="mutation", parent1_id="child")
    for name in ("inv", "other"):
        await make.invocation(id=name, version_id="v")
    for name in ("w", "x"):
        await make.created("/v1/sessions", id=name)
        await client.put(f"/v1/pins/session/{name}")
        assert (await put(client, b"x", id=name)).status_code == 201
        artifact = (await client.post("/v1/artifacts", content=name.encode())).json()
        await client.put(f"/v1/invocations/inv/artifacts/{name}", json={"hash": artifact["hash"]})
        await client.put(f"/v1/format-stamps/{name}", json={"value": "1"})
        await client.put(f"/v1/memory/spaces/{name}", json={"model": "m", "dimensions": 3})
        await client.put(f"/v1/documents/{name}", json={"history": 2})
        for kind in ("documents", "records"):
            await make.created(f"/v1/memory/{kind}", id=name, content="c")
        await client.post(f"/v1/leases/{name}/acquire", json={"holder": "h"})
        await given_up(client, f"given up {name}")
        await make.created("/v1/webhooks", id=name, url="http://127.0.0.1:9/")
        assert (await client.post("/v1/webhooks/w/test", json={})).status_code == 202
        identity = {"agent_name": "a", "instance_id": name}
        await client.put("/v1/conversations", json={"path": name, "identity": identity})
        await make.created("/v1/invocations/inv/checkpoints", state=name)
        assert (await client.put(f"/v1/invocations/inv/contexts/s/{name}", content=b"x")).status_code == 201
        await make.submission(id=name)
        await make.created("/v1/mcp/servers", id=name, publisher_id="p", slug=name, display_name="n")
        version = "v" if name == "w" else name
        await make.created("/v1/mcp/servers/w/versions", id=version, version=name)
        await make.created("/v1/mcp/servers/w/versions/v/tools", name=name, input_schema={})
        await make.created("/v1/mcp/configs", user_id="u", name=name, server_id="w")
        await make.created("/v1/datasets", id=name, name="d")
        await make.created("/v1/datasets/w/versions", id=name)
        await make.created("/v1/datasets/w/records", id=name)
        await make.created("/v1/evaluators", id=name, name="e")
    for _ in range(3):
        await client.put("/v1/documents/w/v", json={})
    await arrange_submissions(client)
    # Its day is not known; and it is a child.
    await make.invocation(id="waiting", version_id="v", status="queued", parent_invocation_id="inv")
    for name in ("r", "s"):
        await make.created("/v1/evolution-runs", id=name)
        await make.created("/v1/evolution-runs/r/generations", id=name)
        await make.version("w", generation_id=name)
    for name in ("ni", "nj"):
        await make.created(nodes, id=name, node_id="n")
        await make.created(f"{nodes}/ni/actions", tool="t")
        await make.created("/v1/invocations/inv/messages", role="error")
        await make.created("/v1/invocations/inv/evaluations", score=1)
        await make.created("/v1/api-keys", name=name, scopes=["*:read"])
        assert (await client.post("/v1/backups", json={"label": name})).status_code == 202
        await make.workflow(id=name)
        job = (await client.delete(f"/v1/workflows/{name}?cascade=true")).headers["location"]
        await client.post(f"{job}/cancel")


async def arrange_submissions(client: httpx.AsyncClient) -> None:
    """Two that join `w`, two whose settlement is reserved, two that were begun."""
    calls = Calls(client)
    session = (await calls.claim("w"))["session_key"]
    for name in ("j1", "j2"):
        await calls.admit(name, session=session)
        await calls.running(f"{name} ends", session=name)
        record = {"id": "r", "outcome": "failed"}
        await calls.done(f"{name} ends/settlement/reserve", attempt_id="at", record_id="r", record=record)
        await client.put("/v1/attempt-markers", params={"submission_id": name, "attempt_id": "at"})
    await calls.done("w/joins/claim", attempt_id="at", agent="a")


# The operator's list of all tenants that leave is walked in tests/offboarding, where some do.
ELSEWHERE = {"/v1/offboardings"}


async def test_every_list_of_the_document_is_tried_here(service: Any) -> None:
    paths = service.openapi()["paths"]
    lists = {
        path
        for path, item in paths.items()
        if "get" in item and "cursor" in {parameter.get("name") for parameter in item["get"].get("parameters", [])}
    }
    tried = {
        re.sub("/(w|v|child|grandchild|inv|ni|r)(?=/|$)", "/{}", path) for path in LISTS.values()
    }  # fmt: skip
    assert tried == {re.sub(r"\{\w+\}", "{}", path) for path in lists} - ELSEWHERE
    for path in lists:
        refused = paths[path]["get"]["responses"]["400"]["content"]["application/problem+json"]
        assert "bad_cursor" in refused["examples"], path


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_bounds_its_pages_and_knows_its_parameters(client: httpx.AsyncClient, name: str) -> None:
    path = LISTS[name]
    for query in ("limit=0", "limit=1001", "limit=-1", "limit=1.0", "limit=", "limit=99999999999999999999",
                  "order=up", "sort=nothing", "count=all", "offset=1", "limit=1&limit=2", "cursor=%00"):  # fmt: skip
        refused = await client.get(f"{path}?{query}")
        assert problem(refused) == (422, "invalid_input"), query
        assert refused.json()["errors"][0]["pointer"] == query.partition("=")[0]
    for query in ("limit=1000", "order=asc", "order=desc"):
        assert (await client.get(f"{path}?{query}")).status_code == 200
    counted = (await client.get(f"{path}?count=exact&limit=1")).json()
    assert counted["total"] == len((await client.get(f"{path}?limit=1000")).json()["items"]) >= 1


def _steady(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What does not change by itself: the index of a space tells what PostgreSQL estimates at that moment."""
    return [{name: value for name, value in item.items() if name != "index"} for item in items]


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_goes_on_from_its_own_cursor_only(client: httpx.AsyncClient, name: str) -> None:
    path = LISTS[name]
    first = await client.get(f"{path}?limit=1&order=asc")
    cursor = first.json()["next_cursor"]
    if name in ONE:
        assert (cursor, "link" in first.headers) == (None, False)
        return
    link = re.fullmatch(r'<([^>]*)>; rel="next"', first.headers["link"])
    assert link is not None
    assert parse_qs(urlsplit(link[1]).query) == {"limit": ["1"], "order": ["asc"], "cursor": [cursor]}
    second = await client.get(link[1])
    everything = (await client.get(f"{path}?order=asc&limit=1000")).json()["items"]
    assert _steady([*first.json()["items"], *second.json()["items"]]) == _steady(everything[:2])
    foreign = (await client.get(LISTS["jobs" if name != "jobs" else "keys"] + "?limit=1")).json()["next_cursor"]
    for query in (f"cursor={cursor}", f"order=desc&cursor={cursor}", f"order=asc&cursor={foreign}",
                  "cursor=", "cursor=x", "cursor=" + "A" * 9000, f"order=asc&cursor={cursor}A"):  # fmt: skip
        if query.startswith("cursor=W") and _steady((await client.get(path)).json()["items"]) == _steady(everything):
            continue  # its own order is ascending
        assert problem(await client.get(f"{path}?limit=1&{query}")) == (400, "bad_cursor"), query


async def test_a_page_holds_fifty_unless_told_otherwise(client: httpx.AsyncClient) -> None:
    messages = {"items": [{"role": "user"}] * 60}
    await client.post("/v1/invocations/inv/messages", json=messages)
    page = (await client.get("/v1/invocations/inv/messages")).json()
    assert (len(page["items"]), page["next_cursor"] is None) == (50, False)
