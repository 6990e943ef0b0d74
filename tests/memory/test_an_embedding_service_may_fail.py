"""The embedding service down, slow, wrong: clear errors, nothing half-stored, bounded repeats, each text asked once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from app.background.runner import drain
from app.embedded import Servers
from app.embeddings.embedder import EmbedderUnavailable
from app.embeddings.endpoint import Endpoint
from app.embeddings.remote import RemoteEmbedder
from app.settings import EmbedderSettings
from tests.cache import caching
from tests.memory import embedding_server as served
from tests.memory.embedding_server import EmbeddingServer, embedding_server, vector
from tests.memory.reembedding import Memory, remembering
from tests.payloads import problem
from tests.waiting import eventually

SPACE = {"model": "words-8", "dimensions": 8}
DOCUMENTS = "/v1/memory/documents"


@pytest.fixture(scope="module")
async def url(kept_clone: Callable[[], Awaitable[str]]) -> str:
    return await kept_clone()


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as started:
        yield started


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at once."""
    monkeypatch.setattr("app.embeddings.endpoint.PAUSE_SECONDS", 0.0)


@pytest.fixture
async def memory(url: str, server: EmbeddingServer) -> AsyncIterator[Memory]:
    """Memory with a space; a request to the embedding service is tried twice."""
    async with remembering(url, server, embedder={"attempt_seconds": 0.5}) as made:
        await made.client.put("/v1/memory/spaces/a", json=SPACE)
        yield made


async def stored(memory: Memory) -> dict[str, list[float] | None]:
    """What the tenant has, by id, with its embedding."""
    listed = (await memory.client.get(DOCUMENTS, params={"count": "exact"})).json()
    found = await memory.embedded("a")
    assert {item["id"] for item in listed["items"]} == set(found)
    assert listed["total"] == len(found)
    return found


def of(*texts: str) -> dict[str, Any]:
    """A batch of documents, each under its text as its id."""
    return {"items": [{"id": text, "content": text} for text in texts]}


async def search(client: httpx.AsyncClient, query: str) -> httpx.Response:
    return await client.post("/v1/memory/search", json={"query": query, "mode": "vector"})


AWAY: dict[str, served.Fault] = {
    "hangs": served.hanging,
    "429": served.refusing(429, retry_after="0"),
    "500": served.refusing(500),
    "cut": served.cut,
    "no JSON": served.saying("<html>"),
}


@pytest.mark.parametrize("fault", ["down", *AWAY])
async def test_while_it_is_away_nothing_is_stored_and_the_caller_is_told_when_to_come_again(
    memory: Memory, fault: str
) -> None:
    assert (await memory.client.post(DOCUMENTS, json=of("before"))).status_code == 201
    asked = len(memory.server.texts)
    if fault == "down":
        await memory.server.stop()
    else:
        memory.server.always = AWAY[fault]
    calls = (
        memory.client.post(DOCUMENTS, json={"content": "one"}),
        memory.client.post(DOCUMENTS, json=of("two", "three")),
        memory.client.patch(f"{DOCUMENTS}/before", json={"content": "four"}),
        search(memory.client, "five"),
    )
    for answer in await asyncio.gather(*calls):
        assert problem(answer) == (503, "embedder_unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "127.0.0.1" not in answer.text
    tried = Counter(memory.server.texts[asked:])
    assert tried == ({} if fault == "down" else dict.fromkeys(("one", "two", "three", "four", "five"), 2))
    assert await stored(memory) == {"before": pytest.approx(vector("words-8", "before"), abs=1e-6)}
    # What comes with its embedding, or is known already, needs nobody.
    given = {"content": "six", "embedding": [1.0] * 8}
    assert (await memory.client.post(DOCUMENTS, json=given)).status_code == 201
    assert (await search(memory.client, "before")).status_code == 200
    memory.server.always = None
    if fault == "down":
        await memory.server.start()
    again = await memory.client.post(DOCUMENTS, json=of("two", "three"))
    assert again.status_code == 201
    assert {"two", "three"} <= set(await stored(memory))


async def test_an_idempotency_key_keeps_no_refusal(memory: Memory) -> None:
    memory.server.always = served.refusing(503)
    headers = {"idempotency-key": "k"}
    refused = await memory.client.post(DOCUMENTS, json=of("one"), headers=headers)
    assert problem(refused) == (503, "embedder_unavailable")
    memory.server.always = None
    assert (await memory.client.post(DOCUMENTS, json=of("one"), headers=headers)).status_code == 201
    replayed = await memory.client.post(DOCUMENTS, json=of("one"), headers=headers)
    assert (replayed.status_code, replayed.headers["idempotency-replayed"]) == (201, "true")


async def test_a_refusal_says_where_to_look_and_is_not_repeated(memory: Memory) -> None:
    memory.server.always = served.refusing(401)
    refused = await memory.client.post(DOCUMENTS, json={"content": "one"})
    assert (problem(refused), refused.json()["endpoint_status"]) == ((409, "embedder_refused"), 401)
    assert "CAIRN_EMBEDDER__API_KEY" in refused.json()["detail"]
    assert problem(await search(memory.client, "one")) == (409, "embedder_refused")
    assert (len(memory.server.asked), await stored(memory)) == (2, {})
    given = await memory.client.post(DOCUMENTS, json={"id": "two", "content": "two", "embedding": [1] * 8})
    refused = await memory.client.patch(f"{DOCUMENTS}/two", json={"content": "three"})
    assert problem(refused) == (409, "embedder_refused")
    assert (await memory.client.get(f"{DOCUMENTS}/two")).json() == given.json()


WRONG: dict[str, tuple[Any, str]] = {
    "wrong size": ([1.0] * 9, "embedding_size"),
    "null": (None, "embedding_missing"),
    "NaN": ([1.0] * 7 + [float("nan")], "embedding_not_finite"),
    "zeros": ([0.0] * 8, "embedding_zero"),
    "text": (["1"] * 8, "embedding_malformed"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_b25_what_is_wrong_with_one_item_is_answered_for_it_and_the_others_are_stored(
    memory: Memory, wrong: str
) -> None:
    embedding, reason = WRONG[wrong]
    memory.server.spoil = served.spoiling("bad", embedding)
    answer = await memory.client.post(DOCUMENTS, json=of("good", "bad", "fine"))
    assert answer.status_code == 207
    good, bad, fine = answer.json()["items"]
    assert (good["status"], good["embedded"], fine["status"], fine["embedded"]) == (201, True, 201, True)
    assert (bad["status"], bad["code"], bad["reason"]) == (409, "embedding_faulty", reason)
    assert (bad["id"], bad["space"]) == ("bad", "a")
    if wrong == "wrong size":
        assert (bad["expected"], bad["given"]) == (8, 9)
    assert set(await stored(memory)) == {"good", "fine"}
    alone = await memory.client.post(DOCUMENTS, json={"id": "bad", "content": "bad"})
    assert (problem(alone), alone.json()["reason"]) == ((409, "embedding_faulty"), reason)
    assert problem(await search(memory.client, "bad")) == (409, "embedding_faulty")
    memory.server.spoil = None
    assert (await memory.client.post(DOCUMENTS, json=of("good", "bad", "fine"))).status_code == 201
    assert set(await stored(memory)) == {"good", "bad", "fine"}


async def test_a_text_that_is_refused_is_answered_for_it_alone(memory: Memory) -> None:
    memory.server.always = served.refusing_texts("endless")
    answer = await memory.client.post(DOCUMENTS, json=of("good", "endless", "fine"))
    assert [item["status"] for item in answer.json()["items"]] == [201, 409, 201]
    assert answer.json()["items"][1]["reason"] == "embedding_refused"
    assert set(await stored(memory)) == {"good", "fine"}


async def test_no_connection_of_the_database_is_held_while_it_is_waited_for(url: str, server: EmbeddingServer) -> None:
    gate = asyncio.Event()
    server.always = served.waiting_for(gate)
    async with remembering(url, server) as memory:
        await memory.client.put("/v1/memory/spaces/a", json=SPACE)
        calls = asyncio.gather(
            memory.client.post(DOCUMENTS, json={"content": "one"}),
            search(memory.client, "two"),
            memory.client.post(DOCUMENTS, json=of("three")),
        )

        async def only_that_is_waited_for() -> bool:
            size, idle = memory.database.connections
            return sorted(server.texts) == ["one", "three", "two"] and size == idle

        await eventually(only_that_is_waited_for, "the requests")
        gate.set()
        assert [answer.status_code for answer in await calls] == [201, 200, 201]


@pytest.mark.parametrize("kind", ["embedded", "tolerant"])
async def test_the_cache_answers_the_second_time_wherever_it_is(
    servers: Servers, server: EmbeddingServer, kind: str
) -> None:
    settings = EmbedderSettings.model_validate({"url": server.url})
    assert servers.redis_url is not None
    async with caching.cache(kind, servers.redis_url) as cache:
        for _ in range(2):
            # Another process, where the cache is one of all.
            made = RemoteEmbedder(settings, Endpoint(settings), cache)
            found = await made.embed("t", "words-8", 8, ["red", "green", "red"])
            assert found == [pytest.approx(vector("words-8", text), abs=1e-6) for text in ("red", "green", "red")]
            await made.close()
    assert [asked["input"] for asked in server.asked] == [["red", "green"]]


async def test_without_its_cache_it_is_right_all_the_same(url: str, server: EmbeddingServer) -> None:
    nobody = {"url": "redis://127.0.0.1:9/0", "wait_seconds": 0.05}
    async with remembering(url, server, redis=nobody) as memory:
        await memory.client.put("/v1/memory/spaces/a", json=SPACE)
        assert (await memory.client.post(DOCUMENTS, json=of("red", "green"))).status_code == 201
        hits = (await search(memory.client, "red")).json()["items"]
        assert hits[0]["id"] == "red"
        assert hits[0]["score"] == pytest.approx(1, abs=1e-6)
        assert server.texts == ["red", "green", "red"]


async def test_the_service_is_asked_once_for_what_many_want_at_once(memory: Memory) -> None:
    found = await asyncio.gather(*(search(memory.client, "the same") for _ in range(20)))
    assert {answer.status_code for answer in found} == {200}
    assert memory.server.texts == ["the same"]


async def test_a_filling_space_that_cannot_be_filled_fails_no_write(memory: Memory) -> None:
    await memory.space("b", 16)
    await memory.reembed("b")

    async def refuse(_server: EmbeddingServer, asked: served.Asked) -> Any:
        return await served.refusing(503)(_server, asked) if asked["model"] == "b-16" else None

    memory.server.always = refuse
    with capture_logs() as logs:
        assert (await memory.client.post(DOCUMENTS, json=of("red", "green"))).status_code == 201
        assert (await memory.client.patch(f"{DOCUMENTS}/red", json={"content": "blue"})).status_code == 200
    # No caller is told, so an operator is.
    left = [line for line in logs if line["event"] == "left for the next reembed"]
    assert [(line["log_level"], line["tenant_id"], line["space"], line["items"]) for line in left] == [
        ("warning", memory.tenant, "b", 2),
        ("warning", memory.tenant, "b", 1),
    ]
    assert await memory.embedded("b") == {"red": None, "green": None}
    refused = await memory.client.post("/v1/memory/spaces/b/activate")
    assert problem(refused) == (409, "memory_space_incomplete")
    assert (refused.json()["items"], refused.json()["missing"]) == (2, 2)
    memory.server.always = None
    assert (await memory.client.post(DOCUMENTS, json=of("last"))).status_code == 201
    assert (await memory.embedded("b"))["last"] == pytest.approx(vector("b-16", "last"), abs=1e-6)
    await drain(memory.runner().run, memory.database)
    assert (await memory.client.post("/v1/memory/spaces/b/activate")).status_code == 200


@pytest.mark.parametrize("status", [404, 503])
@pytest.mark.parametrize("call", ["remember", "change", "search"])
async def test_a_model_that_is_gone_stops_nobody_once_another_space_is_active(
    memory: Memory, call: str, status: int
) -> None:
    """A process that still knows the space before as the active one finds out, though nobody embeds for that."""
    assert (await memory.client.post(DOCUMENTS, json=of("red"))).status_code == 201
    assert (await search(memory.client, "red")).status_code == 200
    await memory.space("b", 16)
    activated = await memory.client.post("/v1/memory/spaces/b/activate", json={"allow_incomplete": True})
    assert activated.status_code == 200

    async def gone(_server: EmbeddingServer, asked: served.Asked) -> Any:
        return await served.refusing(status)(_server, asked) if asked["model"] == SPACE["model"] else None

    memory.server.always = gone
    if call == "search":
        found = await search(memory.client, "green")  # not yet in the cache
        assert (found.status_code, found.json()["space"]) == (200, "b")
    elif call == "change":
        assert (await memory.client.patch(f"{DOCUMENTS}/red", json={"content": "blue"})).status_code == 200
        assert (await memory.embedded("b"))["red"] == pytest.approx(vector("b-16", "blue"), abs=1e-6)
    else:
        assert (await memory.client.post(DOCUMENTS, json=of("green"))).status_code == 201
        assert (await memory.embedded("b"))["green"] == pytest.approx(vector("b-16", "green"), abs=1e-6)


async def test_a_wait_ends_in_time_however_slow_it_is(server: EmbeddingServer) -> None:
    server.always = served.hanging
    settings = EmbedderSettings.model_validate({"url": server.url, "attempt_seconds": 60, "wait_seconds": 0.3})
    async with caching.cache("embedded", "") as cache:
        made = RemoteEmbedder(settings, Endpoint(settings), cache)
        with pytest.raises(EmbedderUnavailable):
            await made.embed("t", "words-8", 8, ["red"])
        await made.close()
