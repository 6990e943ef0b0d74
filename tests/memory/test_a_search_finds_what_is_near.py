"""Searches by meaning, by words and by both: what they find, in which order, with which scores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest

from app.db.sql import Statement
from app.http.service import Service
from tests.conftest import http, new_tenant, running, settings_for
from tests.memory.embedding_server import EmbeddingServer, vector
from tests.memory.remembered import Item, build, cosine, remember
from tests.payloads import problem

SPACE = {"model": "words-16", "dimensions": 3, "language": "english"}
STEP = 2.0**-10
DOGS = [
    Item("food", [1, 0, 0], "The dog eats fish, and likes it."),
    Item("walk", [0.9, 0.1, 0], "A walk with the dog in the morning."),
    Item("cats", [0.8, 0.6, 0], "Cats eat fish; dogs do not."),
    Item("bill", [0, 0, 1], "An invoice for fish.", kind="record"),
    Item("none", None, "A dog that has no embedding yet."),
]


async def search(client: httpx.AsyncClient, **asked: Any) -> dict[str, Any]:
    """What a search answers; it must succeed."""
    answer = await client.post("/v1/memory/search", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ids(found: dict[str, Any]) -> list[str]:
    return [item["id"] for item in found["items"]]


@pytest.fixture
async def dogs(service: Service, client: httpx.AsyncClient) -> httpx.AsyncClient:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    await remember(service, client, "s", DOGS)
    return client


async def test_the_nearest_come_first_with_exact_scores(service: Service, client: httpx.AsyncClient) -> None:
    random = np.random.default_rng(1)
    vectors = random.standard_normal((300, 64)).astype(np.float32)
    query = random.standard_normal(64).astype(np.float32)
    await client.put("/v1/memory/spaces/s", json=SPACE | {"dimensions": 64})
    items = [Item(f"i{place:03}", row, f"text {place}", {"n": place}) for place, row in enumerate(vectors)]
    number = await remember(service, client, "s", items)
    scores = cosine(vectors, query)
    best = np.argsort(-scores)[:10]
    for indexed in (False, True):
        if indexed:
            await build(service, number, 64)
        found = await search(client, embedding=query.tolist())
        assert (found["space"], found["mode"], found["exact"]) == ("s", "vector", not indexed)
        assert ids(found) == [f"i{place:03}" for place in best]
        assert [item["score"] for item in found["items"]] == pytest.approx(scores[best], abs=1e-6)
        first = found["items"][0]
        assert {name: first[name] for name in first if name not in ("score", "created_at")} == {
            "id": f"i{best[0]:03}", "kind": "document", "content": f"text {best[0]}", "metadata": {"n": int(best[0])},
            "session_id": None, "invocation_id": None,
        }  # fmt: skip


@pytest.mark.parametrize(("metric", "score"), [("l2", -np.sqrt(8)), ("inner_product", 6.0)])
async def test_other_metrics_score_by_themselves(
    service: Service, client: httpx.AsyncClient, metric: str, score: float
) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE | {"metric": metric})
    items = [Item("near", [3, 3, 0]), Item("far", [-9, -9, 0]), Item("zero", [0, 0, 0])]
    number = await remember(service, client, "s", items)
    for indexed in (False, True):
        if indexed:
            await build(service, number, 3, metric)
        found = await search(client, embedding=[1, 1, 0])
        assert ids(found) == (["near", "zero", "far"] if metric == "inner_product" else ["zero", "near", "far"])
        scores = {item["id"]: item["score"] for item in found["items"]}
        assert scores["near"] == pytest.approx(score)


async def test_what_has_no_embedding_is_not_near_anything(service: Service, dogs: httpx.AsyncClient) -> None:
    row = await service.ground.database.row(
        Statement("SELECT number FROM memory_spaces WHERE tenant_id = :tenant"), tenant=dogs.headers["x-test-tenant"]
    )
    assert row is not None
    await build(service, row["number"], 3)
    for top_k in (3, 10):
        found = await search(dogs, embedding=[1, 0, 0], top_k=top_k, kind="document")
        assert "none" not in ids(found)
    both = await search(dogs, query="embedding dog", embedding=[1, 0, 0], explain=True, kind="document")
    assert {item["id"]: item["explain"]["vector"] for item in both["items"]}["none"] is None


async def test_ties_are_broken_by_kind_and_id(service: Service, client: httpx.AsyncClient) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    # Stored one after the other, so that nothing but the rule puts them in order.
    for name in ("c", "b", "a"):
        for kind in ("record", "document"):
            await remember(service, client, "s", [Item(name, [1, 0, 0], kind=kind)])
    # Also where it is decided which of them are among those that are asked for.
    found = await search(client, embedding=[1, 0, 0], top_k=4)
    assert [(item["kind"], item["id"]) for item in found["items"]] == [
        ("document", "a"), ("document", "b"), ("document", "c"), ("record", "a"),
    ]  # fmt: skip


async def test_words_are_found_as_in_a_web_search(dogs: httpx.AsyncClient) -> None:
    for query, expected in (
        ("eating fish", {"food", "cats"}),
        ("dog -fish", {"walk", "none"}),
        ('"eat fish"', {"food", "cats"}),
        ('"dog fish"', set()),
        ("invoice or morning", {"bill", "walk"}),
        ("the", set()),
        ("what does the dog eat in the morning", set()),
    ):
        found = await search(dogs, query=query, mode="text")
        assert (set(ids(found)), found["mode"], found["exact"]) == (expected, "text", True), query
    assert ids(await search(dogs, query="fish", kind="record")) == ["bill"]


@pytest.mark.parametrize("line", ["-" * 2000, "- " * 40, "-|(-)" * 20])
async def test_a_line_of_dashes_in_a_query_excludes_nothing(dogs: httpx.AsyncClient, line: str) -> None:
    plain = await search(dogs, query="fish dog", mode="text")
    assert ids(plain) == ["cats", "food"]
    assert await search(dogs, query=f"fish {line} dog", mode="text") == plain
    both = await search(dogs, query="fish dog", embedding=[1, 0, 0])
    assert await search(dogs, query=f"{line} fish dog", embedding=[1, 0, 0]) == both


async def test_words_that_are_nearer_to_each_other_rank_higher(service: Service, client: httpx.AsyncClient) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    texts = {"far": "red and much else that is no house", "near": "a red house", "nearer": "red house and red house"}
    await remember(service, client, "s", [Item(name, None, text) for name, text in texts.items()])
    found = await search(client, query="red house", explain=True)
    assert ids(found) == ["nearer", "near", "far"]
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True)
    assert found["items"][0]["explain"] == {"text": {"rank": 1, "score": scores[0], "words": "all"}}


async def test_both_ways_are_fused_by_reciprocal_rank(dogs: httpx.AsyncClient) -> None:
    found = await search(dogs, query="does the dog like an invoice", embedding=[1, 0, 0], explain=True)
    assert found["mode"] == "hybrid"
    assert sorted(ids(found)) == ["bill", "cats", "food", "none", "walk"]
    for item in found["items"]:
        vector_way, text_way = item["explain"]["vector"], item["explain"]["text"]
        ranks = [way["rank"] for way in (vector_way, text_way) if way]
        assert item["score"] == pytest.approx(sum(1 / (60 + rank) for rank in ranks))
        assert text_way is None or text_way["words"] == "any"
        assert vector_way is None or vector_way["by"] == "exact"
    explained = {item["id"]: item["explain"] for item in found["items"]}
    assert explained["none"]["vector"] is None
    assert explained["food"]["vector"] == {"rank": 1, "score": 1.0, "by": "exact"}
    assert [explained[name]["vector"]["rank"] for name in ("food", "walk", "cats", "bill")] == [1, 2, 3, 4]
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True)


async def test_beside_vectors_what_has_every_word_ranks_before_what_has_some(dogs: httpx.AsyncClient) -> None:
    found = await search(dogs, query="dog morning walk", embedding=[0, 1, 0], explain=True)
    text = {item["id"]: item["explain"]["text"] for item in found["items"]}
    assert (text["walk"]["rank"], text["walk"]["words"], text["food"]["words"]) == (1, "all", "any")
    # Nearly everything lacks what is excluded, so then every word must be there.
    found = await search(dogs, query="dog -walk morning", embedding=[0, 1, 0], explain=True)
    assert all(item["explain"]["text"] is None for item in found["items"])


async def test_a_filter_is_about_what_metadata_contains(service: Service, client: httpx.AsyncClient) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    await remember(service, client, "s", [
        Item("a", [1, 0, 0], "red", {"topic": {"of": "x"}, "tags": ["p", "q"]}, session_id="one"),
        Item("b", [1, 0, 0], "red", {"topic": {"of": "y"}, "tags": ["q"]}, session_id="two"),
        Item("c", [1, 0, 0], "red", {}, session_id="one", kind="record"),
    ])  # fmt: skip
    for more, expected in (
        ({"filter": {"tags": ["q"]}}, ["a", "b"]),
        ({"filter": {"topic": {"of": "y"}}}, ["b"]),
        ({"filter": {}}, ["a", "b", "c"]),
        ({"session_id": "one"}, ["a", "c"]),
        ({"session_id": "one", "kind": "record"}, ["c"]),
        ({"invocation_id": "i"}, []),
    ):
        for way in ({"embedding": [1, 0, 0]}, {"query": "red"}, {"embedding": [1, 0, 0], "query": "red"}):
            assert ids(await search(client, **way, **more)) == expected, (way, more)


async def test_what_has_expired_is_not_found(service: Service, client: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    await client.put("/v1/memory/spaces/s", json=SPACE)
    number = await remember(service, client, "s", [
        Item("past", [1, 0, 0], "red", expires_at=now - timedelta(seconds=1)),
        Item("future", [0, 1, 0], "red", expires_at=now + timedelta(hours=1)),
    ])  # fmt: skip
    for indexed in (False, True):
        if indexed:
            await build(service, number, 3)
        for way in ({"embedding": [1, 0, 0]}, {"query": "red"}, {"embedding": [1, 0, 0], "query": "red"}):
            assert ids(await search(client, **way)) == ["future"], way


async def test_a_vector_however_short_is_found_by_its_direction_at_half_precision(
    client: httpx.AsyncClient, service: Service
) -> None:
    random = np.random.default_rng(5)
    vectors = 1e-9 * random.standard_normal((40, 2001))
    await client.put("/v1/memory/spaces/s", json=SPACE | {"dimensions": 2001})
    number = await remember(service, client, "s", [Item(f"{n}", vector) for n, vector in enumerate(vectors)])
    await build(service, number, 2001)
    found = await search(client, embedding=vectors[7].tolist(), top_k=3)
    assert (found["exact"], found["items"][0]["id"], len(found["items"])) == (False, "7", 3)
    assert found["items"][0]["score"] == pytest.approx(1)


async def test_half_precision_finds_and_the_vectors_themselves_score(
    service: Service, client: httpx.AsyncClient
) -> None:
    # Half precision has no number between 1 and 1 + STEP. So twenty that are far lie where the query does, and the five
    # that are near a step beside it.
    query = np.ones(2001, np.float32)
    far = np.tile(query + np.float32(0.4 * STEP), (20, 1))
    near = np.tile(query, (5, 1))
    near[range(5), range(5)] += np.float32(STEP) * np.linspace(0.6, 0.9, 5, dtype=np.float32)
    items = [Item(f"{kind}{n:02}", row) for kind, rows in (("far", far), ("near", near)) for n, row in enumerate(rows)]
    await client.put("/v1/memory/spaces/s", json=SPACE | {"dimensions": 2001, "metric": "l2"})
    number = await remember(service, client, "s", items)
    await build(service, number, 2001, "l2")
    found = await search(client, embedding=query.tolist(), top_k=5, explain=True)
    assert ids(found) == [f"near{place:02}" for place in range(5)]
    scores = [item["score"] for item in found["items"]]
    assert scores == pytest.approx(-np.linalg.norm((near - query).astype(np.float64), axis=1), rel=1e-5)
    assert found["items"][0]["explain"] == {"vector": {"rank": 1, "score": scores[0], "by": "index"}}


async def test_very_many_matches_of_a_word_are_ranked_in_part(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), memory={"text_rows_max": 1000})
    async with running(settings) as service, await new_tenant(service) as client:
        await client.put("/v1/memory/spaces/s", json=SPACE)
        items = [Item(f"i{place}", None, "red house" if place == 1099 else "red") for place in range(1100)]
        await remember(service, client, "s", items)
        found = await search(client, query="red", top_k=1000)
        assert (len(found["items"]), found["exact"]) == (1000, False)
        # One that has both words is found, however many have one of them.
        found = await search(client, query="red house", embedding=[1, 0, 0], top_k=1)
        assert (ids(found), found["exact"]) == (["i1099"], False)


async def test_contents_end_where_they_are_sixteen_mebibytes_together(
    service: Service, client: httpx.AsyncClient
) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    items = [Item(f"i{place:02}", [1, place / 100, 0], "x" * 1_000_000) for place in range(18)]
    await remember(service, client, "s", items)
    found = await search(client, embedding=[1, 0, 0], top_k=18)
    assert ids(found) == [item.id for item in items]
    assert [item["content"] is None for item in found["items"]] == [False] * 17 + [True]


async def test_a_query_is_embedded_for_the_space(clone: Callable[[], Awaitable[str]]) -> None:
    server = EmbeddingServer()
    await server.start()
    texts = {"fish": "the dog eats fish", "walk": "a walk in the morning", "bill": "an invoice"}
    try:
        settings = settings_for(await clone(), embedder={"url": server.url})
        async with running(settings) as service, await new_tenant(service) as client:
            await client.put("/v1/memory/spaces/s", json=SPACE | {"dimensions": 16})
            items = [Item(name, vector("words-16", text), text) for name, text in texts.items()]
            await remember(service, client, "s", items)
            found = await search(client, query="morning walk", mode="vector", explain=True)
            assert (ids(found)[0], found["mode"], len(found["items"])) == ("walk", "vector", 3)
            # By itself a query is looked for both ways, as nobody has to embed it first.
            found = await search(client, query="an invoice", top_k=1)
            assert (ids(found), found["mode"]) == (["bill"], "hybrid")
            assert ids(await search(client, query="fish", mode="text")) == ["fish"]
            assert server.texts == ["morning walk", "an invoice"]
            # A batch is one transaction, which waits for nobody.
            inside = {"method": "POST", "path": "/v1/memory/search", "body": {"query": "fish", "mode": "vector"}}
            refused = await client.post("/v1/batch", json={"operations": [inside]})
            assert problem(refused) == (422, "invalid_input")
            inside["body"] = {"query": "fish"}
            answer = await client.post("/v1/batch", json={"operations": [inside]})
            assert answer.json()["results"][0]["body"]["mode"] == "text"
    finally:
        await server.stop()


async def test_what_cannot_be_searched_is_refused(client: httpx.AsyncClient) -> None:
    async def refused(**asked: Any) -> tuple[int, str]:
        return problem(await client.post("/v1/memory/search", json=asked))

    assert await refused(query="x") == (409, "memory_space_missing")
    await client.put("/v1/memory/spaces/s", json=SPACE)
    assert await refused(query="x", space="other") == (404, "memory_space_not_found")
    assert await refused(query="x", mode="vector") == (409, "embedder_missing")
    assert await refused(query="x", mode="hybrid") == (409, "embedder_missing")
    for asked in (
        {}, {"embedding": [1, 0, 0], "mode": "text"}, {"embedding": [1, 0, 0], "mode": "hybrid"}, {"mode": "vector"},
        {"embedding": [1, 0, 1e39]}, {"embedding": [0, 0, 0]}, {"embedding": []}, {"embedding": [1, None, 0]},
        {"embedding": [1, "0", 0]}, {"embedding": [True, 0, 0]}, {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 1001}, {"query": "x", "mode": "both"}, {"query": "x", "limit": 3},
        {"query": "x", "filter": []}, {"query": "x\0"}, {"query": "x", "filter": {"in": list(range(257))}},
        {"query": "x", "filter": {f"k{n}": n for n in range(257)}},
    ):  # fmt: skip
        assert await refused(**asked) == (422, "invalid_input"), asked
    most = {"query": "x", "filter": {"in": list(range(255)), "words": "a,b,c"}}
    assert (await client.post("/v1/memory/search", json=most)).status_code == 200
    wrong = (await client.post("/v1/memory/search", json={"embedding": [1, 0]})).json()
    assert (wrong["expected"], wrong["given"], wrong["errors"][0]["pointer"]) == (3, 2, "/embedding")


async def test_a_space_that_goes_away_under_a_search_is_no_defect(service: Service, client: httpx.AsyncClient) -> None:
    await client.put("/v1/memory/spaces/s", json=SPACE)
    number = await remember(service, client, "s", DOGS)
    assert ids(await search(client, query="invoice")) == ["bill"]
    await service.ground.database.execute(f"DROP TABLE memory_vectors_{number}")
    answer = await client.post("/v1/memory/search", json={"query": "invoice"})
    assert problem(answer) == (503, "unavailable")


async def test_a_search_sees_at_once_which_space_another_process_made_active(
    clone: Callable[[], Awaitable[str]],
) -> None:
    settings = settings_for(await clone())
    async with running(settings) as service, running(settings) as elsewhere, await new_tenant(service) as client:
        key = client.headers["authorization"]
        async with http(elsewhere, authorization=key) as there:
            await client.put("/v1/memory/spaces/a", json=SPACE)
            assert (await search(client, query="fish"))["space"] == "a"
            await there.put("/v1/memory/spaces/b", json=SPACE | {"dimensions": 4})
            assert (await search(client, query="fish", space="b"))["space"] == "b"
            assert (await there.post("/v1/memory/spaces/b/activate", json={})).status_code == 200
            assert (await search(client, embedding=[1, 0, 0, 0]))["space"] == "b"
            assert (await search(client, query="fish", space="a"))["space"] == "a"
            assert (await there.delete("/v1/memory/spaces/a")).status_code == 204
            gone = await client.post("/v1/memory/search", json={"query": "fish", "space": "a"})
            assert problem(gone) == (404, "memory_space_not_found")
            await there.put("/v1/memory/spaces/a", json=SPACE | {"dimensions": 5})
            assert (await search(client, embedding=[1, 0, 0, 0, 0], space="a"))["space"] == "a"


async def test_another_tenant_finds_nothing_of_it(dogs: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    asked = {"query": "fish", "space": "s"}
    assert problem(await other.post("/v1/memory/search", json=asked)) == (404, "memory_space_not_found")
    await other.put("/v1/memory/spaces/s", json=SPACE)
    assert (await search(other, query="fish", embedding=[1, 0, 0]))["items"] == []
    assert len(ids(await search(dogs, query="fish", embedding=[1, 0, 0]))) == 4
