"""The client's calls about documents: exact bodies both ways, conditions that go on, preconditions."""

from __future__ import annotations

import json

import pytest

from app.client import AsyncCairn, Cairn, Json
from app.client.documents import Collection
from app.client.operations import Job
from tests.client.conftest import QUICK, Asked, ScriptedServer

MEMBERS = {"collection": "c", "revision": 1, "indexed": True, "expires_at": None}


def three_pages(asked: Asked) -> tuple[int, dict[str, str], bytes]:
    cursor = json.loads(asked.body).get("cursor") or "0"
    items = [{**MEMBERS, "id": f"d{cursor}", "body": 1.0}]
    following = str(int(cursor) + 1) if cursor != "2" else None
    return 200, {}, json.dumps({"items": items, "next_cursor": following}).encode()


async def test_a_query_goes_on_with_its_conditions(server: ScriptedServer) -> None:
    server.otherwise = three_pages
    with Cairn(server.url, retry=QUICK) as cairn:
        found = list(cairn.documents.query("c", among={"s": [1]}, contains={"a": Json("1.0")}, include=["body"]))
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        again = [document.id async for document in cairn.documents.query("c", among={"s": [1]})]
    assert [document.id for document in found] == again == ["d0", "d1", "d2"]
    assert [document.body and document.body.text for document in found] == ["1.0"] * 3
    asked = [json.loads(each.body) for each in server.asked]
    assert asked[1] == {"in": {"s": [1]}, "contains": {"a": 1.0}, "include": ["body"], "cursor": "1"}
    assert b'"contains":{"a":1.0}' in server.asked[2].body
    assert all("idempotency-key" not in each.headers for each in server.asked)


def test_bodies_go_and_come_exactly_and_preconditions_with_them(server: ScriptedServer) -> None:
    body = b'{"b": 1.0, "a":1e400}'
    server.will_answer(201, {**MEMBERS, "id": "a/b"}, ETag='"1"')
    server.will_answer(200, {**MEMBERS, "id": "a/b"}, ETag='"2"')
    server.will_answer(200, body, ETag='"2"')
    with Cairn(server.url, retry=QUICK) as cairn:
        made = cairn.documents.put("c d", "a/b", Json(body), only_new=True)
        cairn.using(if_match=made.etag).documents.patch("c d", "a/b", {"x": None}, merge="shallow")
        stored = cairn.documents.get("c d", "a/b")
    assert (stored.body.data, stored.etag, stored.body.value()["b"]) == (body, '"2"', 1.0)
    put, patch, get = server.asked
    assert (put.target, put.body, put.headers["if-none-match"]) == ("/v1/documents/c%20d/a%2Fb", body, "*")
    assert (patch.target, patch.headers["if-match"]) == ("/v1/documents/c%20d/a%2Fb?merge=shallow", '"1"')
    assert get.method == "GET"


@pytest.mark.parametrize(("status", "kind"), [(200, Collection), (201, Collection), (202, Job)])
def test_rules_answer_the_collection_or_the_job_that_cuts(server: ScriptedServer, status: int, kind: type) -> None:
    server.will_answer(status, {"id": "job_1", "name": "c"})
    server.will_answer(200, {"deleted": 3})
    with Cairn(server.url, retry=QUICK) as cairn:
        assert type(cairn.documents.put_collection("c", secret_paths=["/a"])) is kind
        assert cairn.documents.delete_collection("c") == 3
