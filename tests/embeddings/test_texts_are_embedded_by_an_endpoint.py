"""Texts are embedded by an endpoint: each once, together, in bounds; what is wrong with one is said of it alone."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.cache.embedded import EmbeddedCache
from app.embeddings.embedder import EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.embeddings.endpoint import Endpoint, retry_after
from app.embeddings.remote import RemoteEmbedder, _key
from app.http.metrics import Metrics
from app.settings import EmbedderSettings
from tests.memory import embedding_server as served
from tests.memory.embedding_server import EmbeddingServer, embedding_server, vector
from tests.waiting import eventually

MODEL = "words-8"
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at once."""
    monkeypatch.setattr("app.embeddings.endpoint.PAUSE_SECONDS", 0.0)


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as started:
        yield started


@asynccontextmanager
async def embedder(url: str, metrics: Metrics | None = None, **settings: Any) -> AsyncIterator[RemoteEmbedder]:
    """An embedder with a cache of its own."""
    chosen = EmbedderSettings.model_validate({"url": url, "api_key": KEY, "attempt_seconds": 5, **settings})
    counted = metrics or Metrics()
    endpoint = Endpoint(chosen, counted.embedder_asked)
    made = RemoteEmbedder(chosen, endpoint, EmbeddedCache(counted.cache_read), counted.embedding_faulty)
    try:
        yield made
    finally:
        await made.close()


async def arrived(server: EmbeddingServer, count: int) -> bool:
    """Whether so many requests are there at a time."""
    return server.under_way >= count


async def embed(made: RemoteEmbedder, *texts: str, tenant: str = "t", dimensions: int = 8) -> list[Any]:
    """What comes of the texts."""
    return await made.embed(tenant, MODEL, dimensions, texts)


async def test_each_text_gets_its_own_embedding_in_the_order_it_was_asked(server: EmbeddingServer) -> None:
    async with embedder(server.url) as made:
        found = await embed(made, "red apple", "green pear", "red apple")
    for text, one in zip(("red apple", "green pear", "red apple"), found, strict=True):
        assert one == pytest.approx(vector(MODEL, text), abs=1e-6)
    assert server.asked == [{"model": MODEL, "input": ["red apple", "green pear"], "encoding_format": "float"}]
    assert server.keys == [f"Bearer {KEY}"]


async def test_the_dimensions_are_asked_for_where_that_is_set(server: EmbeddingServer) -> None:
    async with embedder(server.url, send_dimensions=True) as made:
        [one] = await embed(made, "red", dimensions=5)
    assert (len(one), server.asked[0]["dimensions"]) == (5, 5)


async def test_the_second_time_the_cache_answers_each_tenant_from_its_own(server: EmbeddingServer) -> None:
    async with embedder(server.url) as made:
        first = await embed(made, "red", "green")
        assert await embed(made, "green", "red") == first[::-1]
        assert len(server.asked) == 1
        await embed(made, "red", tenant="other")
        await made.embed("t", "other-8", 8, ["red"])
        assert [(asked["model"], asked["input"]) for asked in server.asked[1:]] == [
            (MODEL, ["red"]),
            ("other-8", ["red"]),
        ]


NO_EMBEDDINGS = {
    "empty": b"",
    "cut": b"\x3f" * 31,
    "longer": b"\x3f" * 36,
    "zeros": bytes(32),
    "NaN": bytes(28) + struct.pack("<f", math.nan),
    "infinite": struct.pack("<8f", *[math.inf] * 8),
}


@pytest.mark.parametrize("kept", NO_EMBEDDINGS.values(), ids=NO_EMBEDDINGS)
async def test_what_the_cache_has_that_is_no_embedding_is_made_anew(server: EmbeddingServer, kept: bytes) -> None:
    async with embedder(server.url) as made:
        first = await embed(made, "red")
        cache = made._cache
        await cache.put(_key(("t", MODEL, 8), "red"), kept, 60)
        assert await embed(made, "red") == first
        assert await embed(made, "red") == first
    assert len(server.asked) == 2


async def test_nothing_is_kept_where_that_is_set(server: EmbeddingServer) -> None:
    async with embedder(server.url, cache_seconds=0) as made:
        assert await embed(made, "red") == await embed(made, "red")
    assert len(server.asked) == 2


async def test_many_who_want_one_text_at_once_ask_once(server: EmbeddingServer) -> None:
    gate = asyncio.Event()
    server.always = served.waiting_for(gate)
    async with embedder(server.url, cache_seconds=0) as made:
        first = asyncio.create_task(embed(made, "red", "green"))
        await eventually(lambda: arrived(server, 1), "the request")
        others = [asyncio.create_task(embed(made, "green", "red")) for _ in range(20)]
        await asyncio.sleep(0)
        first.cancel()
        gate.set()
        assert len({json.dumps(found) for found in await asyncio.gather(*others)}) == 1
    assert sorted(server.texts)[:2] == ["green", "red"]
    assert len(server.texts) <= 4


async def test_what_is_wanted_at_once_travels_in_batches_and_only_so_many_at_a_time(server: EmbeddingServer) -> None:
    gate = asyncio.Event()
    server.always = served.waiting_for(gate)
    async with embedder(server.url, batch_max=4, in_flight_max=2) as made:
        asking = asyncio.gather(*(embed(made, f"a{n}", f"b{n}") for n in range(10)))
        await eventually(lambda: arrived(server, 2), "two requests")
        gate.set()
        found = await asking
    assert [len(asked["input"]) for asked in server.asked] == [4] * 5
    assert server.most_under_way == 2
    assert found[7][1] == pytest.approx(vector(MODEL, "b7"), abs=1e-6)


async def test_long_texts_are_not_sent_together(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.embeddings.remote.BATCH_BYTES_MAX", 10)
    async with embedder(server.url) as made:
        await embed(made, "a" * 6, "b" * 6, "c" * 20, "d", "e")
    assert [len(asked["input"]) for asked in server.asked] == [1, 1, 1, 2]


WRONG = {
    "null": (None, "embedding_missing"),
    "short": ([1.0] * 7, "embedding_size"),
    "long": ([1.0] * 9, "embedding_size"),
    "none": ([], "embedding_size"),
    "a null inside": ([1.0] * 7 + [None], "embedding_malformed"),
    "text inside": ([1.0] * 7 + ["1"], "embedding_malformed"),
    "true inside": ([1.0] * 7 + [True], "embedding_malformed"),
    "base64": ("AACAPwAAgD8=", "embedding_malformed"),
    "NaN": ([1.0] * 7 + [math.nan], "embedding_not_finite"),
    "infinite": ([1.0] * 7 + [-math.inf], "embedding_not_finite"),
    "too large": ([1.0] * 7 + [1e39], "embedding_not_finite"),
    "far too large": ([1.0] * 7 + [10**400], "embedding_not_finite"),
    "zeros": ([0.0, -0.0] * 4, "embedding_zero"),
    "zeros in single precision": ([1e-60] * 8, "embedding_zero"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_b25_what_is_wrong_with_one_text_is_said_of_it_alone(server: EmbeddingServer, wrong: str) -> None:
    given, code = WRONG[wrong]
    server.spoil = served.spoiling("bad", given)
    metrics = Metrics()
    async with embedder(server.url, metrics) as made:
        good, bad, fine = await embed(made, "good", "bad", "fine")
        assert good == pytest.approx(vector(MODEL, "good"), abs=1e-6)
        assert fine == pytest.approx(vector(MODEL, "fine"), abs=1e-6)
        assert isinstance(bad, EmbeddingFault)
        assert bad.code == code
        if code == "embedding_size":
            assert bad.facts == {"expected": 8, "given": len(given)}
            assert f"{len(given)} numbers" in bad.detail
        # It is not kept: once the service is well, the text has its embedding.
        server.spoil = None
        assert isinstance((await embed(made, "bad"))[0], list)
    assert f'cairn_embedding_faults_total{{code="{code}"}} 1.0' in metrics.text(None).decode()


async def test_an_answer_that_names_a_text_twice_or_not_at_all_is_known(server: EmbeddingServer) -> None:
    def index(text: str, row: dict[str, Any]) -> None:
        row["index"] = {"a": 0, "b": 0, "c": 7, "d": True, "e": 4}[text]

    server.spoil = index
    async with embedder(server.url) as made:
        found = await embed(made, "a", "b", "c", "d", "e")
    codes = [one.code if isinstance(one, EmbeddingFault) else "good" for one in found]
    assert codes == ["embedding_malformed", "embedding_missing", "embedding_missing", "embedding_missing", "good"]


PASSING = {
    "429": served.refusing(429),
    "429 that says when": served.refusing(429, retry_after="0"),
    "500": served.refusing(500),
    "503": served.refusing(503),
    "cut": served.cut,
    "no JSON": served.saying("<html>"),
    "no list": served.saying('{"data": 1}'),
    "packed": served.refusing(200, content_encoding="br"),
}


@pytest.mark.parametrize("fault", PASSING)
async def test_what_passes_is_tried_again(server: EmbeddingServer, fault: str) -> None:
    server.faults = [PASSING[fault]] * 2
    metrics = Metrics()
    async with embedder(server.url, metrics) as made:
        [one] = await embed(made, "red")
    assert one == pytest.approx(vector(MODEL, "red"), abs=1e-6)
    assert len(server.asked) == 3
    told = metrics.text(None).decode()
    assert 'cairn_embedder_request_seconds_count{outcome="failed"} 2.0' in told
    assert 'cairn_embedder_request_seconds_count{outcome="answered"} 1.0' in told


@pytest.mark.parametrize("fault", PASSING)
async def test_tries_are_counted_and_then_it_is_unavailable(server: EmbeddingServer, fault: str) -> None:
    server.always = PASSING[fault]
    async with embedder(server.url, attempts_max=3) as made:
        with pytest.raises(EmbedderUnavailable) as raised:
            await embed(made, "red")
    assert len(server.asked) == 3
    assert raised.value.headers["Retry-After"] == "1"
    assert KEY not in raised.value.detail


async def test_a_service_that_is_down_is_unavailable_and_one_that_is_back_answers(server: EmbeddingServer) -> None:
    async with embedder(server.url, attempts_max=2) as made:
        await server.stop()
        with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
            await embed(made, "red")
        await server.start()
        assert isinstance((await embed(made, "red"))[0], list)


async def test_a_service_that_hangs_is_left_in_time(server: EmbeddingServer) -> None:
    server.always = served.hanging
    async with embedder(server.url, attempt_seconds=0.1, attempts_max=2) as made:
        with pytest.raises(EmbedderUnavailable, match=r"no answer within 0\.1 seconds"):
            await embed(made, "red")
    assert len(server.asked) == 2
    async with embedder(server.url, attempt_seconds=60, wait_seconds=0.2) as made:
        with pytest.raises(EmbedderUnavailable, match=r"no answer within 0\.2 seconds"):
            await embed(made, "red")
    assert len(server.asked) == 3


async def test_who_is_asked_to_wait_for_too_long_is_told_so_at_once(server: EmbeddingServer) -> None:
    server.always = served.refusing(429, retry_after="90")
    async with embedder(server.url) as made:
        with pytest.raises(EmbedderUnavailable) as raised:
            await embed(made, "red")
    assert (len(server.asked), raised.value.headers["Retry-After"]) == (1, "90")


async def test_an_answer_larger_than_asked_for_is_not_read(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.embeddings.endpoint.ANSWER_BYTES", 1000)
    server.always = served.saying('{"data": [' + " " * 1_000_000 + "]}")
    async with embedder(server.url, attempts_max=1) as made:
        with pytest.raises(EmbedderUnavailable, match="more than was asked for"):
            await embed(made, "red")


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405])
async def test_a_refusal_is_not_tried_again_and_tells_no_secret(server: EmbeddingServer, status: int) -> None:
    server.always = served.refusing(status, f"Bad key {KEY}.", location="http://127.0.0.1:1/")
    async with embedder(server.url) as made:
        with pytest.raises(EmbedderRefused) as raised:
            await embed(made, "red")
    assert (len(server.asked), raised.value.facts) == (1, {"endpoint_status": status, "model": MODEL})
    assert KEY not in raised.value.detail
    assert f"answers {status}" in raised.value.detail


async def test_a_text_that_is_refused_does_not_take_the_others_with_it(server: EmbeddingServer) -> None:
    server.always = served.refusing_texts("endless")
    async with embedder(server.url, cache_seconds=0) as made:
        found = await embed(made, *(f"text {n}" for n in range(20)), "an endless one", "the last")
        [alone] = await embed(made, "endless")
    assert [n for n, one in enumerate(found) if isinstance(one, EmbeddingFault)] == [20]
    refused = EmbeddingFault(
        "embedding_refused", "The embedding service refuses it (400): A text is too long.", {"endpoint_status": 400}
    )
    assert found[20] == alone == refused


async def test_many_texts_that_are_refused_are_found_one_by_one(server: EmbeddingServer) -> None:
    server.always = served.refusing_texts("endless", 413)
    async with embedder(server.url) as made:
        found = await embed(made, *(f"endless {n}" for n in range(32)), "the last")
    assert [getattr(one, "code", None) for one in found] == ["embedding_refused"] * 32 + [None]


async def test_where_every_text_is_refused_it_is_not_the_texts(server: EmbeddingServer) -> None:
    server.always = served.refusing(400, f"No such model.\n{KEY}")
    async with embedder(server.url) as made:
        with pytest.raises(EmbedderRefused, match=r"refuses every text \(400\): No such model\. …") as raised:
            await embed(made, *map(str, range(64)))
    assert [len(asked["input"]) for asked in server.asked] == [64, 1]
    assert KEY not in raised.value.detail


@pytest.mark.parametrize(
    ("told", "least", "most"),
    [
        ("7", 7, 7), ("0.5", 0.5, 0.5), (None, None, None), ("soon", None, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0), ("Wed, 21 Oct 2999 07:28:00 -0000", 1e9, 1e11), ("-1", None, None),
    ],
)  # fmt: skip
def test_when_to_ask_again_is_read_as_seconds_or_a_date(
    told: str | None, least: float | None, most: float | None
) -> None:
    found = retry_after(told)
    if least is None or most is None:
        assert found is None
    else:
        assert found is not None
        assert least <= found <= most


@pytest.mark.parametrize(
    "url",
    ["api.example.com/v1", "ftp://example.com", "https://", "https://u:p@example.com/v1", "https://example.com/v1?k=v"],
)
def test_an_address_that_leads_nowhere_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        EmbedderSettings.model_validate({"url": url})
