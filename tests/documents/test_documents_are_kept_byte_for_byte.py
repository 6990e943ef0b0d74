"""Documents over HTTP: exact bytes, preconditions, merges, expiry, history, and what is told of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.background.runner import drain
from app.documents.store import purge
from app.events.jobs import sequencer
from app.http.service import Service
from tests.conftest import new_tenant
from tests.payloads import codes, problem
from tests.statements import one_connection, sent_by

PAST, FUTURE = "2020-01-01T00:00:00.000001Z", "2999-01-01T00:00:00.000000Z"
JOB = "/v1/documents/Job/j1"
JSON = {"content-type": "application/json"}


async def put(client: httpx.AsyncClient, path: str, body: bytes, **headers: str) -> httpx.Response:
    """Store exact bytes."""
    return await client.put(
        path, content=body, headers={**JSON, **{k.replace("_", "-"): v for k, v in headers.items()}}
    )


async def patch(client: httpx.AsyncClient, path: str, body: bytes, **headers: str) -> httpx.Response:
    """Merge exact bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.patch(path, content=body, headers={**JSON, **named})


def after(answer: httpx.Response, changes: int) -> str:
    """The ETag of what an answer told of, so many changes later."""
    return f'"{int(answer.headers["etag"].strip(chr(34))) + changes}"'


@pytest.mark.parametrize(
    ("body", "is_indexed"),
    [
        (b'{"b" : 1.0, "a":[1e2, 12345678901234567890]}', True),
        (b'{"n":1e400}', True),
        (b"null", True),
        (b'"text"', True),
        (b'{"a":"\\u0000"}', False),
        (b'{"a":"\\ud800"}', False),
        (b'{"a":1,"a":2}', False),
        (b'{"n":1e99999}', False),
    ],
)
async def test_any_json_comes_back_byte_for_byte(client: httpx.AsyncClient, body: bytes, is_indexed: bool) -> None:
    made = await put(client, JOB, body)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert {name: shown[name] for name in ("collection", "id", "indexed", "expires_at")} == {
        "collection": "Job", "id": "j1", "indexed": is_indexed, "expires_at": None,
    }  # fmt: skip
    assert "body" not in shown
    found = await client.get(JOB)
    assert (found.content, found.headers["etag"]) == (body, after(made, 0))
    again = await put(client, f"{JOB}?include=body", body)
    assert (again.status_code, again.headers["etag"]) == (200, after(made, 1))
    assert again.json()["revision"] == shown["revision"] + 1
    assert b'"body":%b}' % body in again.content
    head = await client.head(JOB)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(body)))
    assert (await client.delete(JOB)).status_code == 204
    for answer in (await client.get(JOB), await client.delete(JOB), await client.get(f"{JOB}/revisions")):
        assert problem(answer) == (404, "document_not_found")


async def test_names_may_hold_any_characters(client: httpx.AsyncClient) -> None:
    for name in ("a/b", "ünï 😀", "revisions", '"]}', "x" * 255, "%2F?#"):
        path = f"/v1/documents/{quote(name, safe='')}/{quote(name, safe='')}"
        assert (await put(client, path, b"{}")).status_code == 201
        assert (await client.get(path)).content == b"{}"
        found = await client.post(f"/v1/documents/{quote(name, safe='')}/query", json={"contains": {}})
        assert [item["id"] for item in found.json()["items"]] == [name]
    assert problem(await put(client, "/v1/documents/c/query", b"{}")) == (422, "invalid_input")
    assert problem(await put(client, "/v1/documents/c/d", b"{")) == (400, "malformed_request")


async def test_preconditions_hold(client: httpx.AsyncClient) -> None:
    refused = await put(client, JOB, b"{}", if_match='"1"')
    assert problem(refused) == (412, "precondition_failed")
    assert problem(await client.get("/v1/documents/Job")) == (404, "collection_not_found")
    made = await put(client, JOB, b"1", if_none_match="*")
    assert made.status_code == 201
    for answer in (
        await put(client, JOB, b"2", if_none_match="*"),
        await put(client, JOB, b"2", if_match='"7"'),
        await patch(client, JOB, b"{}", if_match='"7"'),
        await client.delete(JOB, headers={"if-match": '"7"'}),
    ):
        assert problem(answer) == (412, "precondition_failed")
        assert answer.json()["current_etag"] == after(made, 0)
    assert problem(await put(client, JOB, b"2", if_none_match='"1"')) == (422, "invalid_input")
    assert (await put(client, JOB, b"2", if_match=after(made, 0))).headers["etag"] == after(made, 1)
    assert (await client.delete(JOB, headers={"if-match": after(made, 1)})).status_code == 204


async def test_an_etag_of_what_was_deleted_never_comes_back(client: httpx.AsyncClient) -> None:
    first = await put(client, JOB, b'{"life":1}')
    await client.delete(JOB)
    second = await put(client, JOB, b'{"life":2}')
    assert second.json()["revision"] > first.json()["revision"]
    old = first.headers["etag"]
    for answer in (
        await put(client, JOB, b"{}", if_match=old),
        await patch(client, JOB, b"{}", if_match=old),
        await client.delete(JOB, headers={"if-match": old}),
    ):
        assert problem(answer) == (412, "precondition_failed")
    assert (await client.get(JOB)).content == b'{"life":2}'
    rules = await client.put("/v1/documents/Case", json={})
    await client.delete("/v1/documents/Case")
    await client.put("/v1/documents/Case", json={})
    stale = await client.put("/v1/documents/Case", json={"history": 1}, headers={"if-match": rules.headers["etag"]})
    assert problem(stale) == (412, "precondition_failed")


async def test_a_merge_splices_the_text(client: httpx.AsyncClient) -> None:
    made = await patch(client, f"{JOB}?merge=shallow", b'{ "status": "in_progress", "n": 1.0 }')
    assert made.status_code == 201
    assert (await client.get(JOB)).content == b'{ "status": "in_progress", "n": 1.0 }'
    changed = await patch(client, f"{JOB}?merge=shallow", b'{"status":"done","at":null}')
    assert (changed.status_code, changed.headers["etag"]) == (200, after(made, 1))
    assert (await client.get(JOB)).content == b'{ "status": "done", "n": 1.0, "at":null }'
    await patch(client, JOB, b'{"at":null,"deep":{"a":null,"b":[null]}}')
    assert (await client.get(JOB)).content == b'{ "status": "done", "n": 1.0, "deep":{"b":[null]} }'
    assert problem(await patch(client, f"{JOB}?merge=shallow", b"[]")) == (422, "invalid_input")
    await patch(client, JOB, b"[1]")
    assert (await client.get(JOB)).content == b"[1]"
    assert problem(await patch(client, f"{JOB}?merge=shallow", b"{}")) == (409, "document_not_object")
    assert problem(await patch(client, f"{JOB}?merge=other", b"{}")) == (422, "invalid_input")


@pytest.mark.parametrize("merge", ["shallow", "rfc7396"])
async def test_twenty_writers_at_once_lose_nothing(client: httpx.AsyncClient, merge: str) -> None:
    answers = await asyncio.gather(
        *(patch(client, f"{JOB}?merge={merge}", json.dumps({f"m{n}": n}).encode()) for n in range(20))
    )
    assert sorted(codes(answers)) == [200] * 19 + [201]
    found = await client.get(JOB)
    assert found.json() == {f"m{n}": n for n in range(20)}
    made = next(answer for answer in answers if answer.status_code == 201)
    assert found.headers["etag"] == after(made, 19)


async def test_writers_and_removers_of_one_document_are_never_in_each_others_way(client: httpx.AsyncClient) -> None:
    await client.put("/v1/documents/Job", json={"history": 3})
    answers = await asyncio.gather(
        *(put(client, f"{JOB}?expires_at={PAST if n % 5 == 0 else FUTURE}", b'{"n":%d}' % n) for n in range(15)),
        *(client.delete(JOB) for _ in range(15)),
        *(patch(client, JOB, b'{"m":%d}' % n) for n in range(15)),
    )
    assert set(codes(answers)) <= {200, 201, 204, 404}, codes(answers)
    last = await put(client, JOB, b"{}")
    assert last.status_code in (200, 201)
    kept = (await client.get(f"{JOB}/revisions")).json()["items"]
    newest = last.json()["revision"] - 1
    assert [item["revision"] for item in kept] == [*range(newest, newest - len(kept), -1)]
    assert len(kept) <= 3


async def test_a_merge_under_an_idempotency_key_happens_once(client: httpx.AsyncClient) -> None:
    answers = [await patch(client, JOB, b'{"a":1}', idempotency_key="k") for _ in range(2)]
    assert codes(answers) == [201, 201]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert (await client.get(JOB)).headers["etag"] == answers[0].headers["etag"]


async def test_what_is_over_is_gone_for_everybody_and_purged(client: httpx.AsyncClient, service: Service) -> None:
    await client.put("/v1/documents/Job", json={"history": 3})
    assert (await put(client, f"{JOB}?expires_at={FUTURE}", b'{"a":1}')).json()["expires_at"] == FUTURE
    assert (await patch(client, JOB, b'{"b":1}')).json()["expires_at"] == FUTURE
    assert (await put(client, JOB, b"{}")).json()["expires_at"] is None
    over = await patch(client, f"{JOB}?expires_at={PAST}", b'{"c":1}')
    assert (over.status_code, over.json()["expires_at"]) == (200, PAST)
    await put(client, "/v1/documents/Job/j2", b"{}")
    for answer in (await client.get(JOB), await client.get(f"{JOB}/revisions"), await client.delete(JOB)):
        assert problem(answer) == (404, "document_not_found")
    assert problem(await put(client, JOB, b"{}", if_match=over.headers["etag"])) == (412, "precondition_failed")
    found = await client.post("/v1/documents/Job/query", json={"contains": {}})
    assert [item["id"] for item in found.json()["items"]] == ["j2"]
    assert (await client.get("/v1/documents/Job")).json()["document_count"] == 1
    # Another is made under the id: it stands behind what came before it.
    assert (await put(client, f"{JOB}?expires_at={PAST}", b"{}", if_none_match="*")).status_code == 201
    assert (await patch(client, JOB, b'{"new":1}')).status_code == 201
    assert (await client.get(JOB)).content == b'{"new":1}'
    found = await client.post("/v1/documents/Job/query", json={})
    assert [item["id"] for item in found.json()["items"]] == ["j2", "j1"]
    await patch(client, f"{JOB}?expires_at={PAST}", b"{}")
    assert await drain(purge, service.ground.database) >= 1
    await drain(sequencer(lambda _waited: None), service.ground.database)
    events = (await client.get("/v1/events?type=document.deleted")).json()["items"]
    assert [event["subject_id"] for event in events] == ["j1"] * 3


async def test_the_last_revisions_are_kept(client: httpx.AsyncClient) -> None:
    await client.put("/v1/documents/Job", json={"history": 2})
    stored = [(await put(client, JOB, b'{"n": %d}' % n)).json() for n in range(5)]
    found = (await client.get(f"{JOB}/revisions?include=body")).content
    shown = json.loads(found)["items"]
    assert [(item["revision"], item["stored_at"]) for item in shown] == [
        (stored[n]["revision"], stored[n]["updated_at"]) for n in (3, 2)
    ]
    assert b'"body":{"n": 3}' in found
    assert "body" not in (await client.get(f"{JOB}/revisions")).json()["items"][0]
    await client.put("/v1/documents/Job", json={"history": 1})
    left = (await client.get(f"{JOB}/revisions")).json()["items"]
    assert [item["revision"] for item in left] == [stored[3]["revision"]]
    await client.put("/v1/documents/Job", json={"history": 0})
    await put(client, JOB, b"{}")
    assert (await client.get(f"{JOB}/revisions")).json()["items"] == []
    assert (await client.delete(JOB)).status_code == 204


async def test_collections_are_listed_with_counts_and_go_with_their_documents(client: httpx.AsyncClient) -> None:
    made = await client.put("/v1/documents/Job", json={"secret_paths": ["/a/*/b"], "history": 1})
    assert made.status_code == 201
    for path in ("Job/1", "Job/2", "Case/1"):
        assert (await put(client, f"/v1/documents/{path}", b"{}")).status_code == 201
    listed = (await client.get("/v1/documents?count=exact")).json()
    assert [(item["name"], item["document_count"]) for item in listed["items"]] == [("Case", 1), ("Job", 2)]
    assert listed["total"] == 2
    same = await client.put("/v1/documents/Job", json={"history": 1})
    assert (same.status_code, same.headers["etag"], same.json()["secret_paths"]) == (200, after(made, 0), ["/a/*/b"])
    refused = await client.put("/v1/documents/Job", json={"history": 2}, headers={"if-match": '"3"'})
    assert problem(refused) == (412, "precondition_failed")
    for wrong, told in (
        ({"secret_paths": ["a"]}, "/secret_paths/0: must be a JSON Pointer such as /account/api_key."),
        ({"secret_paths": ["/~2"]}, "/secret_paths/0: must be a JSON Pointer such as /account/api_key."),
        ({"secret_paths": [""]}, "/secret_paths/0: must not be empty."),
        ({"history": -1}, "/history: must be at least 0."),
    ):
        refused = await client.put("/v1/documents/Job", json=wrong)
        assert (problem(refused), refused.json()["detail"]) == ((422, "invalid_input"), told)
    gone = await client.delete("/v1/documents/Job")
    assert (gone.status_code, gone.json()) == (200, {"deleted": 2})
    for answer in (await client.delete("/v1/documents/Job"), await client.get("/v1/documents/Job")):
        assert problem(answer) == (404, "collection_not_found")
    # The rules went with it; nobody goes by those that are remembered.
    assert (await put(client, "/v1/documents/Job/1", b'{"a":[{"b":1}]}')).status_code == 201
    assert (await client.get("/v1/documents/Job/1")).content == b'{"a":[{"b":1}]}'


async def test_every_change_is_told_and_its_body_can_be_asked_for(client: httpx.AsyncClient, service: Service) -> None:
    await put(client, JOB, b'{"a": 1}')
    await patch(client, JOB, b'{"b": 2}')
    await put(client, "/v1/documents/Job/gone", b"1")
    await client.delete("/v1/documents/Job/gone")
    await drain(sequencer(lambda _waited: None), service.ground.database)
    answer = await client.get("/v1/events?include=body")
    events = [event for event in answer.json()["items"] if event["subject_type"] == "document"]
    assert [(event["type"], event["subject_parent_id"], event["subject_id"]) for event in events] == [
        ("document.created", "Job", "j1"),
        ("document.updated", "Job", "j1"),
        ("document.created", "Job", "gone"),
        ("document.deleted", "Job", "gone"),
    ]
    assert answer.content.count(b'"body":{"a": 1, "b": 2}') == 0
    assert [event["data"].get("body") for event in events[:2]] == [{"a": 1, "b": 2}] * 2
    assert events[3]["gone"] is True
    plain = (await client.get("/v1/events?type=document.created")).json()["items"]
    assert "body" not in plain[0]["data"]


async def test_a_put_is_one_statement_and_a_merge_two(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        for _ in range(2):
            await put(client, JOB, b"{}")
        for write, statements in ((put, 1), (patch, 2)):
            async with sent_by(service) as seen:
                assert (await write(client, JOB, b'{"a":1}')).status_code == 200
            assert len(seen) == statements, [each.query[:60] for each in seen]
        async with sent_by(service) as seen:
            assert (await client.get(JOB)).status_code == 200
        assert len(seen) == 1


async def test_another_process_writes_by_the_rules_as_they_are(clone: Callable[[], Awaitable[str]]) -> None:
    async with one_connection(clone) as (service, client):
        other = await new_tenant(service)
        for each in (client, other):
            await put(each, JOB, b"{}")
            await put(each, JOB, b"{}")
        async with service.ground.database.writing() as transaction:
            # As if the hint of the change had been lost.
            await transaction.connection.execute(
                "UPDATE document_collections SET secret_paths = '{/s}', revision = revision + 1 WHERE tenant_id = $1",
                client.headers["x-test-tenant"],
            )
        for each, wanted in ((client, b'{"a":1}'), (other, b'{"s":0,"a":1}')):
            await put(each, JOB, b'{"s":0,"a":1}')
            assert (await each.get(JOB)).content == wanted
        await other.aclose()


async def test_a_batch_writes_documents_and_their_rules(client: httpx.AsyncClient) -> None:
    operations: list[dict[str, Any]] = [
        {"method": "PUT", "path": "/v1/documents/Job", "body": {"secret_paths": ["/s"]}},
        {"method": "PUT", "path": JOB, "body": {"s": 1, "a": 1}},
        {"method": "PATCH", "path": JOB, "body": {"s": 2, "b": 2}},
        {"method": "GET", "path": JOB},
    ]
    answer = await client.post("/v1/batch", json={"operations": operations})
    assert answer.status_code == 200, answer.text
    assert answer.json()["results"][3]["body"] == {"a": 1, "b": 2}
