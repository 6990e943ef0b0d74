"""Documents and records: remembered with the embedding that they are given, each once, each by itself."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import asyncpg
import httpx
import pytest

from app.background.runner import drain
from app.http.service import Service
from app.memory.jobs import drop_deleted_spaces, purge_expired_items
from app.memory.partitions import table_of
from tests.payloads import problem

DOCUMENTS, RECORDS = "/v1/memory/documents", "/v1/memory/records"
PAST, FUTURE = "2020-01-01T00:00:00.000001Z", "2999-01-01T00:00:00.000000Z"


async def space(client: httpx.AsyncClient, name: str = "a", dimensions: int = 3, **fields: Any) -> None:
    made = await client.put(f"/v1/memory/spaces/{name}", json={"model": "m", "dimensions": dimensions, **fields})
    assert made.status_code == 201, made.text


@pytest.fixture
async def vectors(client: httpx.AsyncClient, service: Service) -> Any:
    """Reads what is stored of an item in a space: its embedding as text, its words and its metadata."""
    connection = await asyncpg.connect(service.ground.database.url)

    async def read(item_id: str, name: str = "a") -> Any:
        tenant = client.headers["x-test-tenant"]
        number = await connection.fetchval(
            "SELECT number FROM memory_spaces WHERE tenant_id = $1 AND name = $2", tenant, name
        )
        row = await connection.fetchrow(
            "SELECT embedding::text, lexemes::text, metadata::text, session_id, expires_at IS NOT NULL AS expires"
            f" FROM {table_of(number)} WHERE tenant_id = $1 AND id = $2",
            tenant,
            item_id,
        )
        return None if row is None else tuple(row)

    yield read
    await connection.close()


async def test_an_item_comes_back_as_it_was_given(client: httpx.AsyncClient, vectors: Any) -> None:
    await space(client, language="english")
    sent = {
        "id": "one", "content": "Dogs eat", "metadata": {"topic": "diet"}, "session_id": "s", "invocation_id": "i",
        "expires_at": FUTURE, "embedding": [0.1, 2, -3e-5],
    }  # fmt: skip
    made = await client.post(DOCUMENTS, json=sent)
    assert made.status_code == 201, made.text
    item = made.json()
    assert item["created_at"] <= item["updated_at"]
    assert {name: item[name] for name in item if name not in ("created_at", "updated_at")} == {
        "kind": "document", "embedded": True, **{name: sent[name] for name in sent if name != "embedding"},
    }  # fmt: skip
    assert (await client.get(f"{DOCUMENTS}/one")).json() == item
    shown = await client.get(f"{DOCUMENTS}/one?include=embedding")
    assert shown.text.endswith('"embedding":[0.1,2,-3e-05]}')
    assert await vectors("one") == ("[0.1,2,-3e-05]", "'dog':1 'eat':2", '{"topic": "diet"}', "s", True)
    listed = (await client.get(DOCUMENTS)).json()["items"]
    assert listed == [{name: item[name] for name in item if name != "embedded"}]
    assert problem(await client.get(f"{RECORDS}/one")) == (404, "memory_item_not_found")
    assert problem(await client.get(f"{DOCUMENTS}/one?include=content")) == (422, "invalid_input")


async def test_without_a_space_nothing_is_remembered(client: httpx.AsyncClient) -> None:
    for body in ({"content": "x"}, {"items": [{"content": "x"}]}):
        refused = await client.post(RECORDS, json=body)
        assert problem(refused) == (409, "memory_space_missing")
        assert "PUT /v1/memory/spaces" in refused.json()["detail"]
    assert problem(await client.get(f"{RECORDS}/x"))[0] == 404


async def test_without_an_embedding_an_item_is_found_by_its_words(client: httpx.AsyncClient, vectors: Any) -> None:
    await space(client)
    made = await client.post(RECORDS, json={"content": "two words"})
    assert (made.status_code, made.json()["embedded"]) == (201, False)
    assert (await vectors(made.json()["id"]))[:2] == (None, "'two':1 'words':2")


async def test_creating_twice_is_a_replay_or_a_conflict(client: httpx.AsyncClient) -> None:
    await space(client)
    first = await client.post(RECORDS, content=b'{"id":"r","content":"x","embedding":[1,2,3]}')
    same = await client.post(RECORDS, content=b'{"id":"r","content":"x","embedding": [1.0, 2e0, 3]}')
    assert (same.status_code, same.json()) == (200, first.json())
    for other in ({"content": "y"}, {"content": "x"}, {"content": "x", "embedding": [1, 2, 4]}):
        refused = await client.post(RECORDS, json={"id": "r", **other})
        assert problem(refused) == (409, "memory_item_conflict")
    assert (await client.post(DOCUMENTS, json={"id": "r", "content": "y"})).status_code == 201
    twins = await gather(*(client.post(RECORDS, json={"id": "t", "content": "x"}) for _ in range(8)))
    assert sorted(answer.status_code for answer in twins) == [200] * 7 + [201]


@pytest.mark.parametrize("dimensions", [384, 768, 1536, 3072])
async def test_b25_an_embedding_of_another_size_is_refused_with_both(
    client: httpx.AsyncClient, dimensions: int
) -> None:
    await space(client, dimensions=768)
    made = await client.post(RECORDS, json={"id": "r", "content": "x", "embedding": [0.5] * dimensions})
    if dimensions == 768:
        assert (made.status_code, made.json()["embedded"]) == (201, True)
        return
    assert problem(made) == (422, "invalid_input")
    assert (made.json()["expected"], made.json()["given"]) == (768, dimensions)
    assert made.json()["errors"][0]["pointer"] == "/embedding"
    assert problem(await client.get(f"{RECORDS}/r"))[0] == 404


@pytest.mark.parametrize(
    "wrong",
    [b"[]", b"[1,2,null]", b"[1,2,NaN]", b'[1,2,"3"]', b"[1,2,true]", b"[0,0,0]", b"[1,2,1e400]", b'"AAAA"', b"{}",
     b"[1,2,1e39]", b"[[1,2,3]]"],
)  # fmt: skip
async def test_b25_what_is_no_embedding_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, wrong: bytes
) -> None:
    await space(client)
    refused = await client.post(RECORDS, content=b'{"id":"r","content":"x","embedding":%b}' % wrong)
    assert problem(refused) in ((422, "invalid_input"), (400, "malformed_request"))
    assert refused.status_code == (400 if b"NaN" in wrong else 422)
    assert (await client.get(RECORDS)).json()["items"] == []


async def test_b25_spaces_of_every_size_are_written_to(client: httpx.AsyncClient) -> None:
    for dimensions in (384, 1536, 3072):
        await space(client, f"of {dimensions}", dimensions)
        embedding = [place / dimensions for place in range(dimensions)]
        body = {"id": f"r{dimensions}", "content": "x", "embedding": embedding, "space": f"of {dimensions}"}
        assert (await client.post(RECORDS, json=body)).status_code == 201
    shown = (await client.get(f"{RECORDS}/r384?include=embedding")).json()
    assert shown["embedding"] == pytest.approx([place / 384 for place in range(384)], abs=1e-7)
    assert (await client.get(f"{RECORDS}/r3072")).json()["embedded"] is False


async def test_b25_of_ten_with_one_wrong_nine_are_stored(client: httpx.AsyncClient) -> None:
    await space(client)
    items = [{"id": f"r{n}", "content": f"text {n}", "embedding": [1, 2, n]} for n in range(10)]
    items[4]["embedding"] = [1, 2]
    answer = await client.post(RECORDS, json={"items": items})
    assert answer.status_code == 207, answer.text
    answers = answer.json()["items"]
    assert [one["status"] for one in answers] == [201] * 4 + [422] + [201] * 5
    assert [one["id"] for one in answers] == [f"r{n}" for n in range(10)]
    assert {name: answers[4][name] for name in ("code", "type", "expected", "given")} == {
        "code": "invalid_input", "type": "/problems/invalid_input", "expected": 3, "given": 2,
    }  # fmt: skip
    assert answers[4]["errors"][0]["pointer"] == "/items/4/embedding"
    stored = (await client.get(f"{RECORDS}?sort=id")).json()["items"]
    assert [one["id"] for one in stored] == [f"r{n}" for n in range(10) if n != 4]
    items[4]["embedding"] = [1, 2, 4]
    mended = await client.post(RECORDS, json={"items": items})
    assert (mended.status_code, [one["status"] for one in mended.json()["items"]]) == (
        201,
        [200] * 4 + [201] + [200] * 5,
    )
    assert (await client.post(RECORDS, json={"items": items})).status_code == 200


async def test_each_item_of_many_is_answered_whatever_is_wrong_with_it(client: httpx.AsyncClient) -> None:
    await space(client)
    await client.post(RECORDS, json={"id": "taken", "content": "another"})
    items: list[Any] = [
        {"id": "good", "content": "x"}, {"id": "taken", "content": "x"}, {"id": "good", "content": "x"},
        {"content": ""}, {"id": "typo", "contents": "x"}, "no object", {"content": "x", "embedding": [0, 0, 0]},
        {"content": "x", "embedding": [1, 2, 3], "space": "none"}, {"content": "x", "metadata": [1]},
    ]  # fmt: skip
    answer = await client.post(RECORDS, json={"items": items})
    assert answer.status_code == 207
    assert [(one["status"], one.get("code")) for one in answer.json()["items"]] == [
        (201, None), (409, "memory_item_conflict"), (422, "invalid_input"), (422, "invalid_input"),
        (422, "invalid_input"), (422, "invalid_input"), (422, "invalid_input"), (404, "memory_space_not_found"),
        (422, "invalid_input"),
    ]  # fmt: skip
    pointers = [one["errors"][0]["pointer"] for one in answer.json()["items"] if "errors" in one]
    assert pointers == [
        "/items/2/id", "/items/3/content", "/items/4/content", "/items/5", "/items/6/embedding", "/items/8/metadata",
    ]  # fmt: skip
    assert len((await client.get(RECORDS)).json()["items"]) == 2
    for wrong in ({"items": []}, {"items": [{"content": "x"}] * 1001}, {"items": 1}, {"items": [], "more": 1}):
        assert problem(await client.post(RECORDS, json=wrong)) == (422, "invalid_input")


async def test_an_answer_to_many_is_replayed_under_its_key(client: httpx.AsyncClient) -> None:
    await space(client)
    body = {"items": [{"content": "x"}, {"content": ""}]}
    first = await client.post(RECORDS, json=body, headers={"idempotency-key": "k"})
    again = await client.post(RECORDS, json=body, headers={"idempotency-key": "k"})
    assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (207, first.json(), "true")
    assert len((await client.get(RECORDS)).json()["items"]) == 1


async def test_a_change_reaches_every_space(client: httpx.AsyncClient, vectors: Any) -> None:
    await space(client)
    await space(client, "b", 2)
    made = await client.post(RECORDS, json={"id": "r", "content": "old words", "embedding": [1, 2, 3]})
    given = await client.patch(f"{RECORDS}/r", json={"embedding": [5, 6], "space": "b"})
    assert (given.status_code, given.json()["embedded"]) == (200, True)
    assert given.headers["etag"] > made.headers["etag"]
    assert [(await vectors("r", name))[0] for name in ("a", "b")] == ["[1,2,3]", "[5,6]"]
    copied = {"metadata": {"a": 1}, "session_id": "s", "expires_at": FUTURE}
    assert (await client.patch(f"{RECORDS}/r", json=copied)).json()["embedded"] is True
    for name, embedding in (("a", "[1,2,3]"), ("b", "[5,6]")):
        assert await vectors("r", name) == (embedding, "'old':1 'words':2", '{"a": 1}', "s", True)
    assert (await client.patch(f"{RECORDS}/r", json={"content": "old words"})).json()["embedded"] is True
    changed = await client.patch(f"{RECORDS}/r", json={"content": "new", "embedding": [7, 8], "space": "b"})
    assert (changed.json()["embedded"], changed.json()["content"]) == (False, "new")
    assert [(await vectors("r", name))[:2] for name in ("a", "b")] == [(None, "'new':1"), ("[7,8]", "'new':1")]
    cleared = await client.patch(f"{RECORDS}/r", json={"metadata": None, "session_id": None, "expires_at": None})
    assert (cleared.json()["metadata"], cleared.json()["session_id"]) == ({}, None)
    assert (await vectors("r"))[2:] == ("{}", None, False)
    reworded = await client.patch(f"{RECORDS}/r", json={"content": "newer"})
    assert [(await vectors("r", name))[:2] for name in ("a", "b")] == [(None, "'newer':1"), (None, "'newer':1")]
    assert problem(await client.patch(f"{RECORDS}/r", json={"embedding": [1]})) == (422, "invalid_input")
    assert problem(await client.patch(f"{RECORDS}/r", json={"content": None})) == (422, "invalid_input")
    unknown = await client.patch(f"{RECORDS}/r", json={"embedding": [1], "space": "none"})
    assert problem(unknown) == (404, "memory_space_not_found")
    assert problem(await client.patch(f"{RECORDS}/none", json={})) == (404, "memory_item_not_found")
    assert (await client.get(f"{RECORDS}/r")).json() == reworded.json()


async def test_deleting_forgets_in_every_space(client: httpx.AsyncClient, vectors: Any) -> None:
    await space(client)
    await space(client, "b", 2)
    item = {"id": "r", "content": "x", "embedding": [1, 2, 3]}
    old = (await client.post(RECORDS, json=item)).headers["etag"]
    now = (await client.patch(f"{RECORDS}/r", json={"embedding": [5, 6], "space": "b"})).headers["etag"]
    refused = await client.delete(f"{RECORDS}/r", headers={"if-match": old})
    assert (problem(refused), refused.json()["current_etag"]) == ((412, "precondition_failed"), now)
    assert (await client.delete(f"{RECORDS}/r", headers={"if-match": now})).status_code == 204
    assert [await vectors("r", name) for name in ("a", "b")] == [None, None]
    assert problem(await client.delete(f"{RECORDS}/r")) == (404, "memory_item_not_found")
    # Another of the same id is not taken for it.
    again = await client.post(RECORDS, json=item)
    assert (again.status_code, again.headers["etag"] in (old, now)) == (201, False)
    refused = await client.patch(f"{RECORDS}/r", json={"content": "y"}, headers={"if-match": old})
    assert problem(refused) == (412, "precondition_failed")


async def test_what_is_remembered_is_written_to_the_space_before_too(client: httpx.AsyncClient, vectors: Any) -> None:
    await space(client)
    await space(client, "b", 2)
    await client.post(RECORDS, json={"id": "old", "content": "x", "embedding": [1, 2, 3]})
    refused = await client.post("/v1/memory/spaces/b/activate")
    assert problem(refused) == (409, "memory_space_incomplete")
    assert {name: refused.json()[name] for name in ("items", "embedded", "missing")} == {
        "items": 1, "embedded": 0, "missing": 1,
    }  # fmt: skip
    await client.patch(f"{RECORDS}/old", json={"embedding": [5, 6], "space": "b"})
    assert (await client.post("/v1/memory/spaces/b/activate")).status_code == 200
    wrong = await client.post(RECORDS, json={"content": "x", "embedding": [1, 2, 3]})
    assert (problem(wrong), wrong.json()["expected"]) == ((422, "invalid_input"), 2)
    made = await client.post(RECORDS, json={"id": "new", "content": "x", "embedding": [1, 2]})
    assert (made.status_code, made.json()["embedded"]) == (201, True)
    assert [(await vectors("new", name))[0] for name in ("a", "b")] == [None, "[1,2]"]
    assert (await client.get(f"{RECORDS}/old?include=embedding")).json()["embedding"] == [5, 6]


async def test_b25_a_space_that_is_made_anew_with_another_size_is_noticed(
    client: httpx.AsyncClient, service: Service
) -> None:
    await space(client)
    await space(client, "b", 2)
    for name, size in (("b", 2), ("b", 4)):
        body = {"content": "x", "embedding": [1] * size, "space": name}
        assert (await client.post(RECORDS, json=body)).status_code == 201
        assert (await client.delete(f"/v1/memory/spaces/{name}")).status_code == 204
        await drain(drop_deleted_spaces, service.ground.database)
        assert (await client.post(RECORDS, json={"content": "x"})).status_code == 201
        await space(client, "b", 4)


async def test_what_has_expired_is_gone_and_gives_its_id_away(
    client: httpx.AsyncClient, service: Service, vectors: Any
) -> None:
    await space(client)
    for item_id in ("r", "s"):
        await client.post(RECORDS, json={"id": item_id, "content": "x", "expires_at": PAST})
    await client.post(RECORDS, json={"id": "t", "content": "x", "expires_at": FUTURE})
    for refused in (
        await client.get(f"{RECORDS}/r"),
        await client.patch(f"{RECORDS}/r", json={"expires_at": None}),
        await client.delete(f"{RECORDS}/r"),
    ):
        assert problem(refused) == (404, "memory_item_not_found")
    assert [item["id"] for item in (await client.get(f"{RECORDS}?count=exact")).json()["items"]] == ["t"]
    made = await client.post(RECORDS, json={"id": "r", "content": "y"})
    assert (made.status_code, made.json()["content"]) == (201, "y")
    assert (await client.get(f"{RECORDS}/r")).status_code == 200
    many = await client.post(RECORDS, json={"items": [{"id": "s", "content": "z"}, {"id": "t", "content": "other"}]})
    assert [one["status"] for one in many.json()["items"]] == [201, 409]
    await client.patch(f"{RECORDS}/t", json={"expires_at": PAST})
    assert await vectors("t") is not None
    await drain(purge_expired_items, service.ground.database)
    assert [await vectors(item_id) is None for item_id in ("r", "s", "t")] == [False, False, True]


async def test_the_lists_are_filtered(client: httpx.AsyncClient) -> None:
    await space(client)
    first = (await client.post(RECORDS, json={"id": "a", "content": "x", "session_id": "s"})).json()
    await client.post(RECORDS, json={"id": "b", "content": "x", "invocation_id": "i", "metadata": {"k": [1, 2]}})
    await client.post(DOCUMENTS, json={"id": "c", "content": "x", "session_id": "s"})
    for query, wanted in (
        ("", ["b", "a"]),
        ("session_id=s", ["a"]),
        ("invocation_id=i", ["b"]),
        ('metadata={"k":[2]}', ["b"]),
        ('metadata={"k":[3]}', []),
        ("sort=id", ["a", "b"]),
        (f"created_after={first['created_at']}", ["b", "a"]),
        (f"created_before={first['created_at']}", []),
    ):
        assert [item["id"] for item in (await client.get(f"{RECORDS}?{query}")).json()["items"]] == wanted, query
    for query in ("metadata=[1]", "metadata=x", "sort=content", "kind=document"):
        assert problem(await client.get(f"{RECORDS}?{query}")) == (422, "invalid_input")


async def test_content_of_many_different_words_is_stored_whole(client: httpx.AsyncClient) -> None:
    await space(client)
    content = " ".join(f"{n:05x}" for n in range(160_000))
    made = await client.post(RECORDS, json={"id": "r", "content": content})
    assert (made.status_code, made.json()["content"]) == (201, content)
    refused = await client.post(RECORDS, json={"content": "x" * 1_000_001})
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == "/content"
