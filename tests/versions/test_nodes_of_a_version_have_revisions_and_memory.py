"""Node versions and their memory over HTTP."""

from __future__ import annotations

import json
from asyncio import gather
from typing import Any

import httpx
import pytest

from app.db.sql import Statement
from tests.conftest import Make
from tests.payloads import codes, problem, send

NODE = {
    "node_id": "a/b",
    "system_prompt": "p",
    "llm_model": "m",
    "tools": ["t", "é"],
    "description": "d",
    "handoffs": ["x"],
    "waiting_for": ["y"],
    "memory": {"k": [1]},
    "extras": {"e": 1.50},
}


@pytest.fixture
async def path(make: Make) -> str:
    return f"/v1/versions/{(await make.version(nodes=[]))['id']}/nodes"


async def test_the_same_configuration_is_a_replay_and_another_the_next_revision(
    client: httpx.AsyncClient, path: str
) -> None:
    made = await client.post(path, json=NODE)
    again = await client.post(path, json=NODE)
    other = await client.post(path, json={**NODE, "llm_model": "m2"})
    assert [made.status_code, again.status_code, other.status_code] == [201, 200, 201]
    assert made.json() == {
        **NODE,
        "id": made.json()["id"],
        "version_id": path.split("/")[3],
        "revision": 1,
        "config_hash": made.json()["config_hash"],
        "created_at": made.json()["created_at"],
    }
    assert (again.content, other.json()["revision"]) == (made.content, 2)
    assert len(made.json()["config_hash"]) == 64


async def test_many_are_recorded_in_one_call_and_listed(client: httpx.AsyncClient, path: str) -> None:
    items = [{"node_id": "b"}, {"node_id": "a", "llm_model": "m"}, {"node_id": "b", "llm_model": "m"}]
    made = await client.post(path, json={"items": [*items, items[0]]})
    assert made.status_code == 201
    assert [(node["node_id"], node["revision"]) for node in made.json()["items"]] == [
        ("b", 1), ("a", 1), ("b", 2), ("b", 1)
    ]  # fmt: skip
    assert (await client.post(path, json={"items": items})).status_code == 200
    listed = (await client.get(path, params={"count": "exact"})).json()
    assert (len(listed["items"]), listed["total"]) == (3, 3)
    found = (await client.get("/v1/node-versions", params={"llm_model": "m", "node_id": ["a", "c"]})).json()
    assert [node["node_id"] for node in found["items"]] == ["a"]
    page = (await client.get("/v1/node-versions", params={"limit": 2})).json()
    rest = (await client.get("/v1/node-versions", params={"limit": 2, "cursor": page["next_cursor"]})).json()
    assert len(page["items"] + rest["items"]) == 3


async def test_b09_thirty_parallel_configurations_over_http_take_dense_revisions(
    client: httpx.AsyncClient, path: str
) -> None:
    answers = await gather(*(client.post(path, json={"node_id": "n", "llm_model": str(n)}) for n in range(30)))
    assert codes(answers) == [201] * 30
    assert sorted(answer.json()["revision"] for answer in answers) == list(range(1, 31))


async def test_a_node_without_its_version_or_with_a_foreign_id_is_refused(client: httpx.AsyncClient, path: str) -> None:
    assert problem(await client.post("/v1/versions/none/nodes", json=NODE)) == (404, "version_not_found")
    assert problem(await client.get("/v1/versions/none/nodes")) == (404, "version_not_found")
    assert (await client.post(path, json={"id": "x", "node_id": "n"})).status_code == 201
    for body in ({"id": "x", "node_id": "m"}, {"id": "y", "node_id": "n"}):
        assert problem(await client.post(path, json=body)) == (409, "node_version_conflict")
    mixed = {"items": [{"node_id": "k"}, {"id": "x", "node_id": "m"}]}
    assert problem(await client.post(path, json=mixed)) == (409, "node_version_conflict")
    assert len((await client.get(path)).json()["items"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"node_id":"n","tools":"t"}',
        b'{"node_id":"n","tools":[1]}',
        b'{"node_id":"n","memory":[]}',
        b'{"node_id":"n","memory":{"a":"\\u0000"}}',
        b'{"node_id":"n","extras":{"a":1e99999}}',
        b'{"node_id":"n","system_prompt":"\\ud800"}',
        b'{"node_id":"n","revision":1}',
        b'{"node_id":"n","items":[]}',
    ],
)
async def test_what_is_not_a_node_is_refused(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    assert problem(await send(client, "POST", path, body)) == (422, "invalid_input")


async def test_a_memory_starts_as_that_of_the_newest_revision(client: httpx.AsyncClient, path: str) -> None:
    assert problem(await client.get(f"{path}/n/memory")) == (404, "node_version_missing")
    for method in ("PUT", "PATCH"):
        assert problem(await send(client, method, f"{path}/n/memory", b"{}")) == (404, "node_version_missing")
    await client.post(path, json={"node_id": "n"})
    first = await client.get(f"{path}/n/memory")
    assert (first.json(), first.headers["etag"]) == ({}, '"1"')
    await client.post(path, json={"node_id": "n", "memory": {"a": 1}})
    second = await client.get(f"{path}/n/memory")
    assert (second.json(), second.headers["etag"]) == ({"a": 1}, '"2"')
    patched = await client.patch(f"{path}/n/memory", json={"b": 2})
    assert (patched.json(), patched.headers["etag"]) == ({"a": 1, "b": 2}, '"3"')
    await client.post(path, json={"node_id": "n", "memory": {"other": 1}})
    put = await send(client, "PUT", f"{path}/n/memory", b'{"c":{"d":1.50}}')
    assert (put.status_code, put.headers["etag"]) == (200, '"4"')
    assert b"1.50" in (await client.get(f"{path}/n/memory")).content


async def test_a_memory_changed_meanwhile_is_not_overwritten(client: httpx.AsyncClient, path: str) -> None:
    await client.post(path, json=NODE)
    memory = f"{path}/a%2Fb/memory"
    answers = await gather(
        *(client.patch(memory, json={"w": n}, headers={"if-match": '"1"'}) for n in range(10)),
        *(client.put(memory, json={"w": n}, headers={"if-match": '"1"'}) for n in range(10)),
    )
    assert codes(answers) == [200] + [412] * 19
    stale = await client.put(memory, json={}, headers={"if-match": '"1"'})
    assert (problem(stale), stale.json()["current_etag"]) == ((412, "precondition_failed"), '"2"')
    free = await gather(*(client.patch(memory, json={f"k{n}": n}) for n in range(20)))
    assert codes(free) == [200] * 20
    found = (await client.get(memory)).json()
    assert [found[f"k{n}"] for n in range(20)] == list(range(20))


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'{"a":"\\u0000"}', b'{"a":"\\ud83d"}', b'{"a":1e99999}'])
async def test_what_is_no_storable_object_is_no_memory(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    await client.post(path, json={"node_id": "n"})
    for method in ("PUT", "PATCH"):
        assert problem(await send(client, method, f"{path}/n/memory", body)) == (422, "invalid_input")


async def test_a_patch_that_nests_to_the_limit_is_merged(client: httpx.AsyncClient, path: str) -> None:
    await client.post(path, json={"node_id": "n"})
    deep = b'{"a":' * 511 + b'{"x":null,"y":1}' + b"}" * 511
    for _ in range(2):
        answer = await send(client, "PATCH", f"{path}/n/memory", deep)
        assert answer.status_code == 200, answer.text
    assert answer.content.replace(b" ", b"") == b'{"a":' * 511 + b'{"y":1}' + b"}" * 511
    beyond = await send(client, "PATCH", f"{path}/n/memory", b'{"a":' * 513 + b"1" + b"}" * 513)
    assert problem(beyond) == (422, "invalid_input")


# The examples of RFC 7396, appendix A.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "merged"), MERGES)
async def test_merging_follows_the_examples_of_rfc_7396(service: Any, target: Any, patch: Any, merged: Any) -> None:
    merging = Statement(
        "SELECT cairn_merge_patch(CAST(CAST(:t AS text) AS jsonb), CAST(CAST(:p AS text) AS jsonb)) AS m"
    )
    found = await service.ground.database.row(merging, t=json.dumps(target), p=json.dumps(patch))
    assert json.loads(found["m"]) == merged


async def test_a_model_name_too_long_to_be_found_by_is_refused_by_name(client: httpx.AsyncClient, make: Make) -> None:
    version = await make.version()
    node = {"node_id": "n", "llm_model": "".join(f"{number:x}" for number in range(4000))}
    answer = await client.post(f"/v1/versions/{version['id']}/nodes", json=node)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/llm_model"]
