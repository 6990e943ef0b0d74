"""Versions: named by content and ancestry, created once, never changed."""

from __future__ import annotations

import hashlib
from asyncio import gather

import httpx
import pytest
import rfc8785

from tests.conftest import Make


async def create(client: httpx.AsyncClient, content: bytes, query: str = "") -> httpx.Response:
    headers = {"content-type": "application/json"}
    return await client.post(f"/v1/workflows/w/versions{query}", content=content, headers=headers)


async def test_the_id_is_the_digest_of_content_and_ancestry(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    made = await create(client, b'{"dsl": {"b": 1.0, "a": "\\u20ac"}}')
    hashed = "jcs:" + hashlib.sha256(rfc8785.dumps({"b": 1.0, "a": "€"})).hexdigest()
    named = {"workflow_id": "w", "dsl_hash": hashed, "operation": "init", "parent1_id": None, "parent2_id": None}
    assert made.json()["dsl_hash"] == hashed
    assert made.json()["id"] == hashlib.sha256(rfc8785.dumps(named)).hexdigest()
    reordered = await create(client, b'{"dsl":{"a":"\xe2\x82\xac","b":1}, "commit_message":"later"}')
    assert (reordered.status_code, reordered.json()) == (200, made.json())
    exact = await client.get(f"/v1/versions/{made.json()['id']}/dsl")
    assert exact.content == b'{"b": 1.0, "a": "\\u20ac"}'
    assert "immutable" in exact.headers["cache-control"]
    cached = await client.get(f"/v1/versions/{made.json()['id']}/dsl", headers={"if-none-match": exact.headers["etag"]})
    assert (cached.status_code, cached.content) == (304, b"")


@pytest.mark.parametrize(
    "dsl", [b"1e400", b"9007199254740993", b'"\\ud83d"', b'{"a":1,"a":1}', b"0.1000000000000000055"]
)
async def test_what_the_canonical_form_would_change_is_hashed_raw(
    client: httpx.AsyncClient, make: Make, dsl: bytes
) -> None:
    await make.workflow(id="w")
    made = await create(client, b'{"dsl":' + dsl + b"}")
    assert made.json()["dsl_hash"] == "raw:" + hashlib.sha256(dsl).hexdigest()
    assert (await client.get(f"/v1/versions/{made.json()['id']}/dsl")).content == dsl


async def test_b09_thirty_parallel_creates_make_thirty_versions_or_one(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    bodies = [b'{"dsl":{"n":%d},"nodes":[{"node_id":"a"}]}' % n for n in range(30)]
    different = await gather(*(create(client, body) for body in bodies))
    same = await gather(*(create(client, bodies[0]) for _ in range(30)))
    assert [answer.status_code for answer in different] == [201] * 30
    assert {answer.status_code for answer in same} == {200}
    assert (await client.get("/v1/workflows/w")).json()["version_count"] == 30


async def test_parents_must_exist_and_fit_the_operation(client: httpx.AsyncClient, make: Make) -> None:
    first = await make.version("w", dsl=1, workflow={})
    second = await make.version("w", dsl=2, operation="mutation", parent1_id=first["id"])
    assert second["parent1_id"] == first["id"]
    cases: list[tuple[dict[str, object], int]] = [
        ({"operation": "init", "parent1_id": first["id"]}, 422),
        ({"operation": "mutation"}, 422),
        ({"operation": "crossover", "parent1_id": first["id"]}, 422),
        ({"operation": "mutation", "parent1_id": "missing"}, 404),
        ({"operation": "mutation", "parents_unknown": True}, 201),
        ({"id": "self", "operation": "mutation", "parent1_id": "self"}, 422),
    ]
    for fields, status in cases:
        answer = await client.post("/v1/workflows/w/versions", json={"dsl": 3, **fields})
        assert answer.status_code == status, answer.text


async def test_workflow_version_and_nodes_come_in_one_transaction(client: httpx.AsyncClient) -> None:
    body = {"dsl": {}, "workflow": {"name": "n"}, "operation": "mutation", "parent1_id": "missing"}
    assert (await client.post("/v1/workflows/new/versions", json=body)).status_code == 404
    assert (await client.get("/v1/workflows/new")).status_code == 404
    made = await client.post("/v1/workflows/new/versions", json={"dsl": {}, "workflow": {"name": "n"}})
    assert made.status_code == 201
    assert (await client.get("/v1/workflows/new")).json()["latest_version_id"] == made.json()["id"]
    absent = await client.post("/v1/workflows/absent/versions", json={"dsl": {}})
    assert (absent.status_code, absent.json()["code"]) == (404, "workflow_not_found")


async def test_an_id_given_keeps_its_content_unless_keep_is_asked_for(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    parent = (await create(client, b'{"dsl":0}')).json()["id"].encode()
    assert (await create(client, b'{"id":"v","dsl":{"a":1}}')).status_code == 201
    other = await create(client, b'{"id":"v","dsl":{"a":2}}')
    assert (other.status_code, other.json()["code"]) == (409, "version_conflict")
    mutated = b'{"id":"v","dsl":{"a":1},"operation":"mutation","parent1_id":"%s"}' % parent
    assert (await create(client, mutated)).status_code == 409
    kept = await create(client, mutated, "?on_existing=keep")
    assert (kept.status_code, kept.json()["operation"]) == (200, "init")


async def test_recorded_inputs_and_outputs_come_back_exactly(client: httpx.AsyncClient, make: Make) -> None:
    version = (await make.version())["id"]
    path = f"/v1/versions/{version}/io"
    assert (await client.get(path)).status_code == 404
    body = b'[{"input": 1.0, "output": "\\u0000"},  1e400]'
    put = await client.put(path, content=body, headers={"content-type": "application/json"})
    assert put.status_code == 201
    assert (await client.get(path)).content == body
    stale = await client.put(path, json=[], headers={"if-match": '"9"'})
    assert stale.status_code == 412
    assert (await client.put("/v1/versions/missing/io", json=[])).status_code == 404


async def test_what_a_version_names_must_be_there(client: httpx.AsyncClient, make: Make) -> None:
    path = f"/v1/workflows/{(await make.workflow())['id']}/versions"
    for fields, code in (
        ({"generation_id": "none"}, "generation_not_found"),
        ({"operation": "mutation", "parent1_id": "none"}, "version_not_found"),
    ):
        refused = await client.post(path, json={"dsl": 1, **fields})
        assert (refused.status_code, refused.json()["code"]) == (404, code)
    missing = await client.post("/v1/workflows/none/versions", json={"dsl": 1})
    assert (missing.status_code, missing.json()["code"]) == (404, "workflow_not_found")
