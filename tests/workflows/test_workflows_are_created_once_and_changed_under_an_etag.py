"""Workflows: create, ensure, change, list, delete."""

from __future__ import annotations

from asyncio import gather

import httpx

from tests.conftest import Make


async def test_fifty_parallel_creates_with_one_id_make_one_row(client: httpx.AsyncClient) -> None:
    body = {"id": "w", "name": "n", "metadata": {"b": 1.0, "a": [1, 2]}}
    answers = await gather(*(client.post("/v1/workflows", json=body) for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert len((await client.get("/v1/workflows")).json()["items"]) == 1


async def test_another_body_under_the_same_id_is_a_conflict_even_after_an_update(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/workflows", json={"id": "w", "name": "a"})).status_code == 201
    assert (await client.patch("/v1/workflows/w", json={"name": "b"})).status_code == 200
    replay = await client.post("/v1/workflows", json={"id": "w", "name": "a"})
    assert (replay.status_code, replay.json()["name"]) == (200, "b")
    conflict = await client.post("/v1/workflows", json={"id": "w", "name": "b"})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "workflow_conflict")


async def test_ensure_creates_then_updates_only_the_fields_given(client: httpx.AsyncClient) -> None:
    made = await client.put("/v1/workflows/w", json={"name": "n", "description": "d"})
    changed = await client.put("/v1/workflows/w", json={"name": "m"})
    same = await client.put("/v1/workflows/w", json={"name": "m"})
    assert [made.status_code, changed.status_code, same.status_code] == [201, 200, 200]
    assert (changed.json()["name"], changed.json()["description"]) == ("m", "d")
    assert (made.headers["etag"], changed.headers["etag"], same.headers["etag"]) == ('"1"', '"2"', '"2"')


async def test_a_change_under_an_old_etag_is_refused(client: httpx.AsyncClient) -> None:
    await client.put("/v1/workflows/w", json={"name": "n"})
    first = await client.patch("/v1/workflows/w", json={"name": "a"}, headers={"if-match": '"1"'})
    second = await client.patch("/v1/workflows/w", json={"name": "b"}, headers={"if-match": '"1"'})
    weak = await client.patch("/v1/workflows/w", json={"name": "b"}, headers={"if-match": 'W/"2"'})
    absent = await client.put("/v1/workflows/x", json={}, headers={"if-match": '"1"'})
    assert [first.status_code, second.status_code, weak.status_code, absent.status_code] == [200, 412, 412, 412]
    assert second.json()["code"] == "precondition_failed"


async def test_a_refused_change_tells_the_etag_that_would_do(client: httpx.AsyncClient) -> None:
    await client.put("/v1/workflows/w", json={"name": "n"})
    old = {"if-match": '"7"'}
    told = [
        (await client.patch("/v1/workflows/w", json={"name": "a"}, headers=old)).json(),
        (await client.put("/v1/workflows/w", json={"name": "a"}, headers=old)).json(),
        (await client.delete("/v1/workflows/w", headers=old)).json(),
    ]
    assert [answer["current_etag"] for answer in told] == ['"1"'] * 3
    assert (await client.patch("/v1/workflows/w", json={}, headers={"if-match": told[0]["current_etag"]})).is_success


async def test_ids_with_any_character_are_routed_to_their_own_row(client: httpx.AsyncClient) -> None:
    for name in ("a/versions", "%", 'a b?#["', "é€", "a%2Fb"):
        path = "/v1/workflows/" + "".join(f"%{byte:02X}" for byte in name.encode())
        made = await client.put(path, json={"name": name})
        assert (made.status_code, made.json()["id"]) == (201, name)
        assert (await client.get(path)).json()["name"] == name
    for reserved in ("%2E%2E", "%2E", "latest", "summary"):
        assert (await client.put(f"/v1/workflows/{reserved}", json={})).status_code == 422


async def test_a_workflow_without_versions_can_be_deleted_once(client: httpx.AsyncClient) -> None:
    await client.put("/v1/workflows/w", json={})
    assert (await client.delete("/v1/workflows/w")).status_code == 204
    gone = await client.delete("/v1/workflows/w")
    assert (gone.status_code, gone.json()["code"]) == (404, "workflow_not_found")


async def test_a_workflow_with_versions_is_not_deleted(client: httpx.AsyncClient, make: Make) -> None:
    await make.workflow(id="w")
    await make.version("w")
    refused = await client.delete("/v1/workflows/w")
    assert (refused.status_code, refused.json()["code"]) == (409, "workflow_not_empty")
    assert (await client.get("/v1/workflows/w")).json()["version_count"] == 1
