"""The lineage of an invocation: up to the root, down to the last child, each once, in pages, whatever the shape."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import httpx

from app.db.database import set_codecs
from app.db.sql import Statement
from app.http.service import Service
from app.invocations.listing import LINEAGE
from tests.conftest import Make
from tests.payloads import problem
from tests.plans import kept_plan

SEED = """
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, parent_invocation_id, status, started_at, digest)
SELECT $1, 'x' || lpad(n::text, 6, '0'), $2, $3, NULL, 'running', now(), '' FROM generate_series(1, 20000) AS n
"""


async def family(make: Make, *pairs: tuple[str, str | None]) -> None:
    version = (await make.version())["id"]
    for name, parent in pairs:
        await make.invocation(id=name, version_id=version, parent_invocation_id=parent, input={"of": name})


async def lineage(client: httpx.AsyncClient, name: str, **query: Any) -> list[tuple[str, int]]:
    """Ids and depths, page by page."""
    seen: list[tuple[str, int]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.get(f"/v1/invocations/{name}/lineage", params={**query, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        seen += [(item["id"], item["depth"]) for item in page["items"]]
        if page["next_cursor"] is None:
            return seen
        cursor = {"cursor": page["next_cursor"]}


async def test_parents_come_first_then_the_invocation_then_children(client: httpx.AsyncClient, make: Make) -> None:
    await family(make, ("root", None), ("up", "root"), ("uncle", "root"), ("me", "up"), ("sister", "up"),
                 ("c1", "me"), ("c2", "me"), ("cc", "c1"), ("stranger", None))  # fmt: skip
    whole = [("root", -2), ("up", -1), ("me", 0), ("c1", 1), ("c2", 1), ("cc", 2)]
    for limit in (1, 2, 50):
        assert await lineage(client, "me", limit=limit) == whole
    assert await lineage(client, "me", order="desc", limit=4) == sorted(
        whole, key=lambda pair: (pair[1], pair[0]), reverse=True
    )
    assert await lineage(client, "me", max_depth=1) == [("up", -1), ("me", 0), ("c1", 1), ("c2", 1)]
    assert await lineage(client, "me", max_depth=0) == [("me", 0)]
    assert await lineage(client, "stranger") == [("stranger", 0)]
    page = (await client.get("/v1/invocations/me/lineage?include=input&count=exact&limit=1")).json()
    assert (page["items"][0]["input"], page["total"]) == ({"of": "root"}, 6)


async def test_a_circle_of_parents_is_walked_once(client: httpx.AsyncClient, make: Make) -> None:
    await family(make, ("a", None), ("b", "a"), ("c", "b"), ("leaf", "b"), ("below", "c"))
    assert (await client.patch("/v1/invocations/a", json={"parent_invocation_id": "c"})).status_code == 200
    assert await lineage(client, "a") == [("b", -2), ("c", -1), ("a", 0), ("leaf", 2), ("below", 3)]
    assert await lineage(client, "below") == [("a", -3), ("b", -2), ("c", -1), ("below", 0)]
    assert await lineage(client, "leaf", max_depth=2) == [("a", -2), ("b", -1), ("leaf", 0)]


async def test_nobody_elses_lineage_is_shown(client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make) -> None:
    await family(make, ("a", None))
    for caller, name in ((client, "none"), (other, "a")):
        assert problem(await caller.get(f"/v1/invocations/{name}/lineage")) == (404, "invocation_not_found")
    for query in ("max_depth=-1", "max_depth=x", "sort=id", "include=depth"):
        assert problem(await client.get(f"/v1/invocations/a/lineage?{query}")) == (422, "invalid_input")


async def test_a_lineage_of_any_length_is_read_by_keys(service: Service, client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version()
    tenant = client.headers["x-test-tenant"]
    connection = await asyncpg.connect(service.ground.database.url)
    await set_codecs(connection)
    await connection.execute(SEED, tenant, version["id"], version["workflow_id"])
    await connection.execute(
        "UPDATE invocations SET parent_invocation_id = 'x' || lpad((substr(id, 2)::int - 1)::text, 6, '0')"
        " WHERE tenant_id = $1 AND id > 'x000001' AND id <= 'x001000'", tenant,
    )  # fmt: skip
    await connection.execute("ANALYZE invocations")
    found = await lineage(client, "x000500", limit=1000)
    assert found == [(f"x{n:06}", n - 500) for n in range(1, 1001)]
    given = {"start": "x000500", "max_depth": None}
    statement: Statement = LINEAGE._statement("depth", "asc", frozenset(given), frozenset(), "start", 64)
    values = {"tenant_id": tenant, "limit": 51, "after_key": None, "after_id_0": None, **given}
    custom = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement.text}", *statement.bind(values))
    generic = await kept_plan(connection, statement.text, len(statement.parameters))
    for text in (custom, generic):
        scans = [node for node in nodes(json.loads(text)[0]["Plan"]) if node.get("Relation Name") == "invocations"]
        assert scans
        assert {scan["Node Type"] for scan in scans} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}, text
    await connection.close()


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for below in plan.get("Plans", []) for node in nodes(below))]
