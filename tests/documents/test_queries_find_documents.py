"""Queries by containment and membership: what they find, in which order, in pages, and by which index."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.documents.listing import Among, search
from app.http.service import Service
from tests.payloads import problem
from tests.plans import kept_plan

BODIES = [
    b'{"status":"running","n":1,"tags":["a"],"deep":{"k":[{"v":true}]}}',
    b'{"status":"done","n":1.0,"tags":["b","a"]}',
    b'{"status":["running"],"n":"1"}',
    b'{"status":null,"0":"zero","a/b":-2.5e1}',
    b'["running"]',
    b'{"status":"\\u0000"}',
]


async def found(client: httpx.AsyncClient, **body: Any) -> list[str]:
    """The ids of what a query finds."""
    answer = await client.post("/v1/documents/c/query", json=body)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


@pytest.fixture
async def stored(client: httpx.AsyncClient) -> None:
    for n, body in enumerate(BODIES):
        for collection in ("c", "other"):
            answer = await client.put(
                f"/v1/documents/{collection}/{n}", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 201, answer.text


async def test_a_body_that_holds_a_value_in_several_ways_is_found_once(client: httpx.AsyncClient) -> None:
    for n, body in enumerate(([{"0": 1}, [1]], [[1], {"0": 1}], {"0": [1]}, [2, {"0": 1}, [1]])):
        assert (await client.put(f"/v1/documents/c/{n}", json=body)).status_code == 201
    assert await found(client, **{"in": {"/0/0": [1, 7]}}) == list("012")
    assert await found(client, **{"in": {"/0/0": [1]}, "limit": 2, "contains": [{"0": 1}]}) == list("01")


@pytest.mark.usefixtures("stored")
async def test_conditions_find_what_they_say(client: httpx.AsyncClient) -> None:
    for body, wanted in (
        ({}, list("012345")),
        ({"contains": {}}, list("0123")),
        ({"contains": {"status": "running"}}, ["0"]),
        ({"contains": {"tags": ["a"], "n": 1}}, ["0", "1"]),
        ({"contains": {"deep": {"k": [{"v": True}]}}}, ["0"]),
        ({"contains": ["running"]}, ["4"]),
        ({"in": {"status": ["running", "done"]}}, ["0", "1"]),
        ({"in": {"/deep/k/0/v": [True]}}, ["0"]),
        ({"in": {"/0": ["zero", "running"]}}, ["3", "4"]),
        ({"in": {"/a~1b": [-25]}}, ["3"]),
        ({"in": {"a/b": [-25]}}, ["3"]),
        ({"in": {"status": [None]}}, ["3"]),
        ({"in": {"n": ["1"]}}, ["2"]),
        ({"in": {"n": [1], "status": ["done"]}}, ["1"]),
        ({"in": {"n": [1]}, "contains": {"tags": ["b"]}}, ["1"]),
        ({"in": {"n": [1, 1.0, "1", True]}}, ["0", "1", "2"]),
        ({"in": {"/deep/k/0/v": [True, False], "n": [1]}}, ["0"]),
        ({"in": {"/tags/0": ["a", "b"], "/tags/1": ["a"]}}, ["1"]),
        ({"in": {"/tags/0/1/2/3": ["a"]}}, []),
        ({"in": {"status": ["😀", "done"]}}, ["1"]),
        ({"in": {"n": []}}, []),
        ({"in": {'q"$': ['\\" || true']}}, []),
        ({"in": {"absent": [1]}, "contains": {}}, []),
        ({"order": "desc"}, list("543210")),
        ({"sort": "created_at", "order": "desc", "limit": 2}, ["5", "4"]),
        ({"sort": "updated_at"}, list("012345")),
    ):
        assert await found(client, **body) == wanted, body
    unknown = await client.post("/v1/documents/unknown/query", json={})
    assert (unknown.status_code, unknown.json()) == (200, {"items": [], "next_cursor": None})


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "wrong",
    [
        {"in": {"status": "running"}},
        {"in": {"status": [{}]}},
        {"in": {"": ["x"], "/~": [1]}},
        {"in": []},
        {"limit": 1001},
        {"limit": 0},
        {"sort": "id"},
        {"contains": "\x00"},
        {"include": ["other"]},
        {"containing": 1},
    ],
)
async def test_what_cannot_be_asked_is_refused(client: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    assert problem(await client.post("/v1/documents/c/query", json=wrong)) == (422, "invalid_input")


@pytest.mark.usefixtures("stored")
async def test_bodies_are_shown_when_asked_for_and_pages_go_on(client: httpx.AsyncClient) -> None:
    for asked, query in (({"include": ["body"]}, ""), ({}, "?include=body")):
        answer = await client.post(f"/v1/documents/c/query{query}", json=asked)
        assert all(b'"body":%b}' % body in answer.content for body in BODIES)
    assert b'"body"' not in (await client.post("/v1/documents/c/query", json={})).content
    for conditions in ({}, {"contains": {}}, {"in": {"n": [1, "1"]}}, {"sort": "updated_at", "order": "desc"}):
        whole = await found(client, **conditions)
        pages, cursor = [], None
        while True:
            page = await client.post("/v1/documents/c/query", json={**conditions, "limit": 1, "cursor": cursor})
            pages += [item["id"] for item in page.json()["items"]]
            cursor = page.json()["next_cursor"]
            if cursor is None:
                break
        assert pages == whole
    first = (await client.post("/v1/documents/c/query", json={"limit": 1})).json()["next_cursor"]
    for path, body in (("other", {}), ("c", {"contains": {}}), ("c", {"order": "desc"})):
        refused = await client.post(f"/v1/documents/{path}/query", json={**body, "cursor": first})
        assert problem(refused) == (400, "bad_cursor")


async def test_conditions_are_found_by_the_index_among_many(client: httpx.AsyncClient, service: Service) -> None:
    tenant_id = client.headers["x-test-tenant"]
    await client.put("/v1/documents/c", json={})
    async with service.ground.database.writing() as transaction:
        connection = transaction.connection
        await connection.execute(
            "INSERT INTO documents (tenant_id, collection, id, body, indexed) SELECT $1, 'c', n::text,"
            " to_json(repeat('x', 500)),"
            " jsonb_build_object('in', jsonb_build_array($1::text, 'c'), 'body', jsonb_build_object('n', n))"
            " FROM generate_series(1, 5000) AS n",
            tenant_id,
        )
        await connection.execute("ANALYZE documents")
        among = [Among("/n", (b"1", b"2")), Among("/0/m", (b"1", b"2", b"3"))]
        for contains, members in ((b'{"n":1}', []), (None, among[:1]), (None, among), (b"{}", among)):
            listing, given = search(tenant_id, "c", contains, members)
            shown = frozenset({"body"})
            statement = listing._statement("position", "asc", frozenset(given), shown, "start", 64)
            plan = await kept_plan(connection, statement.text, len(statement.parameters))
            assert "ix_documents_indexed" in plan, plan
            assert "Seq Scan" not in plan, plan
    assert await found(client, contains={"n": 4321}) == ["4321"]
    assert await found(client, **{"in": {"n": [17, 4321, 0]}}) == ["17", "4321"]
    many = await client.post("/v1/documents/c/query", json={"in": {"n": list(range(1000))}, "limit": 1000})
    assert len(many.json()["items"]) == 999
