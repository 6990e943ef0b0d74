"""Data, summary and metadata of a key are written, read, replaced and removed together."""

from __future__ import annotations

import asyncio
import hashlib
import json
from asyncio import gather
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.conftest import Make
from tests.contexts.contexts import at, get, keys, put, sample, told
from tests.payloads import problem

METADATA = '{"tags":["a","ü"],"n":1.50}'


async def test_what_is_stored_is_read_back(client: httpx.AsyncClient) -> None:
    before = datetime.now(UTC)
    stored = await put(client, content=b"abc", summary="Three letters: ä", metadata=METADATA, node_id="n")
    assert stored.status_code == 201, stored.text
    shown = stored.json()
    for name in ("created_at", "updated_at"):
        assert abs(datetime.fromisoformat(shown[name]) - before) < timedelta(seconds=30)
    times = {name: shown.pop(name) for name in ("created_at", "updated_at")}
    digest = hashlib.sha256(b"abc").hexdigest()
    assert shown == {
        "invocation_id": "i", "scope": "workflow", "node_id": "n", "key": "k", "summary": "Three letters: ä",
        "summary_given": True, "metadata": {"tags": ["a", "ü"], "n": 1.50}, "content_type": "text/plain",
        "size_bytes": 3, "digest": digest, "expires_at": None,
    }  # fmt: skip
    read = await get(client, node_id="n")
    assert (read.status_code, read.content, read.headers["content-type"]) == (200, b"abc", "text/plain")
    assert read.headers["etag"] == stored.headers["etag"]
    heard = told(read)
    assert json.loads(heard.pop("metadata")) == json.loads(METADATA)
    assert heard == {
        "summary": "Three letters: ä", "content-type": "text/plain", "size": "3", "digest": digest,
        "created-at": times["created_at"], "updated-at": times["updated_at"],
    }  # fmt: skip
    known = await get(client, method="HEAD", node_id="n")
    assert (known.status_code, known.content, told(known)) == (200, b"", told(read))
    assert known.headers["content-length"] == "3"
    listed = (await client.get("/v1/invocations/i/contexts")).json()["items"]
    assert listed == [{**shown, **times}]


async def test_a_write_replaces_everything_and_keeps_the_time_of_the_first(client: httpx.AsyncClient) -> None:
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    first = await put(client, content=b"abc", summary="s", metadata="{}", expires_at=expires)
    second = await put(client, content=b"x" * 300, kind=None)
    assert (first.status_code, second.status_code) == (201, 200)
    shown = second.json()
    assert (shown["content_type"], shown["size_bytes"], shown["expires_at"]) == ("application/octet-stream", 300, None)
    assert (shown["summary"], shown["summary_given"], shown["metadata"]) == ("x" * 197 + "…", False, {})
    assert shown["created_at"] == first.json()["created_at"] < shown["updated_at"]
    assert first.headers["etag"] != second.headers["etag"]
    assert (await get(client)).content == b"x" * 300


async def test_a_reader_never_sees_one_writers_data_with_anothers_summary(client: httpx.AsyncClient) -> None:
    await put(client, content=b"0" * 1000, summary="0", metadata='{"by":0}')
    done = asyncio.Event()

    async def write(number: int) -> None:
        for _ in range(10):
            digit = str(number)
            answer = await put(
                client, content=digit.encode() * 1000, summary=digit, metadata=f'{{"by":{digit}}}', kind=f"x/{digit}"
            )
            assert answer.status_code == 200

    async def read() -> int:
        seen = set()
        while not done.is_set():
            answer = await get(client)
            heard, digit = told(answer), answer.content[:1].decode()
            assert answer.content == digit.encode() * 1000
            assert (heard["summary"], json.loads(heard["metadata"])) == (digit, {"by": int(digit)})
            assert hashlib.sha256(answer.content).hexdigest() == heard["digest"]
            (item,) = (await client.get("/v1/invocations/i/contexts")).json()["items"]
            assert item["summary"] == str(item["metadata"]["by"])
            seen.add(digit)
        return len(seen)

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await gather(*(write(number) for number in range(1, 5)))
    done.set()
    assert max(await gather(*readers)) > 1


@pytest.mark.parametrize(
    "key",
    ["a/b", "../../etc/passwd", "..%2f", "100%", "a b", "🗝️", "latest", "summary", "query", "*", "[a]", "a\\b",
     "x" * 255, "ü" * 127, '"', "a\nb", "?q=1#f", ";", "%00"],
)  # fmt: skip
async def test_a_key_may_hold_anything(client: httpx.AsyncClient, key: str) -> None:
    assert (await put(client, key, key.encode())).status_code == 201
    read = await get(client, key)
    assert (read.status_code, read.content) == (200, key.encode())
    assert "\n" not in read.headers["content-disposition"]
    assert await keys(client) == [key]
    assert (await client.delete(at(key))).status_code == 204
    assert await keys(client) == []


@pytest.mark.parametrize("key", ["x" * 256, "é" * 128, ".", "..", "a\x00b"])
async def test_a_key_that_cannot_be_is_refused(client: httpx.AsyncClient, key: str) -> None:
    path = at(key) if key.strip(".") else f"/v1/invocations/i/contexts/workflow/{'%2E' * len(key)}"
    answer = await client.put(path, content=b"x")
    assert problem(answer) == (422, "invalid_input")


async def test_keys_are_apart_by_scope_node_and_invocation(client: httpx.AsyncClient, make: Make) -> None:
    await make.invocation(id="j")
    places = [
        {"scope": scope, "invocation": invocation, "node_id": node}
        for scope in ("workflow", "node")
        for invocation in ("i", "j")
        for node in ("", "n", "m")
    ]
    for number, place in enumerate(places):
        assert (await put(client, content=b"%d" % number, **place)).status_code == 201
    for number, place in enumerate(places):
        assert (await get(client, **place)).content == b"%d" % number
    assert (await client.delete(at("k", "node", "j"), params={"node_id": "n"})).status_code == 204
    assert (await get(client, scope="node", invocation="j", node_id="n")).status_code == 404
    assert (await get(client, scope="node", invocation="j", node_id="m")).status_code == 200


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 10 * 1024 * 1024 + 1])
async def test_any_bytes_come_back(client: httpx.AsyncClient, size: int) -> None:
    content = sample(size)
    stored = await put(client, content=content, kind=None)
    assert (stored.status_code, stored.json()["size_bytes"]) == (201, size)
    read = await get(client)
    assert read.content == content
    assert read.headers["context-digest"] == hashlib.sha256(content).hexdigest()
    if size:
        part = await get(client, headers={"range": f"bytes={size // 2}-"})
        assert (part.status_code, part.content) == (206, content[size // 2 :])
        assert part.headers["content-range"] == f"bytes {size // 2}-{size - 1}/{size}"
        beyond = await get(client, headers={"range": f"bytes={size}-"})
        assert (problem(beyond), beyond.headers["content-range"]) == ((416, "range_not_satisfiable"), f"bytes */{size}")


async def test_a_range_of_what_has_changed_is_answered_with_everything(client: httpx.AsyncClient) -> None:
    tag = (await put(client, content=b"abcdef")).headers["etag"]
    held = {"range": "bytes=3-", "if-range": tag}
    assert (await get(client, headers=held)).content == b"def"
    # Gone and there again, it is another one.
    await client.delete(at("k"))
    await put(client, content=b"ABCDEF")
    answer = await get(client, headers=held)
    assert (answer.status_code, answer.content) == (200, b"ABCDEF")
    assert answer.headers["etag"] != tag


async def test_what_is_not_there_says_whether_its_invocation_is(client: httpx.AsyncClient) -> None:
    assert problem(await get(client)) == (404, "context_not_found")
    assert (await get(client, method="HEAD")).status_code == 404
    assert problem(await client.delete(at("k"))) == (404, "context_not_found")
    for answer in (
        await get(client, invocation="none"),
        await put(client, invocation="none"),
        await put(client, invocation="none", headers={"if-match": "*"}),
        await client.delete(at("k", invocation="none")),
        await client.get("/v1/invocations/none/contexts"),
        await client.post("/v1/invocations/none/contexts/clear", json={}),
    ):
        assert problem(answer) == (404, "invocation_not_found")


async def test_another_tenant_sees_none_of_it(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    await put(client)
    for answer in (await get(other), await other.get("/v1/invocations/i/contexts"), await put(other)):
        assert problem(answer) == (404, "invocation_not_found")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"metadata": "[]"}, "metadata"), ({"metadata": "{"}, "metadata"),
        ({"metadata": '{"a":"\\u0000"}'}, "metadata"),
        ({"metadata": '{"a":1e99999}'}, "metadata"), ({"metadata": '{"a":1,"a":2}'}, "metadata"),
        # As text it is short; as it is shown, each of its numbers is a thousand digits.
        ({"metadata": f'{{"a":[{",".join(["1e999"] * 9)}]}}'}, "metadata"),
        ({"metadata": f'{{"a":"{"x" * 4096}"}}'}, "metadata"), ({"summary": "x" * 2049}, "summary"),
        ({"summary": "a\x00"}, "summary"), ({"expires_at": "tomorrow"}, "expires_at"),
        ({"node_id": "a\x00"}, "node_id"),
        ({"node_id": "x" * 256}, "node_id"), ({"nodeId": "n"}, "nodeId"),
    ],
)  # fmt: skip
async def test_what_cannot_be_kept_is_refused_by_name(
    client: httpx.AsyncClient, query: dict[str, str], pointer: str
) -> None:
    refused = await put(client, **query)
    assert problem(refused) == (422, "invalid_input")
    assert refused.json()["errors"][0]["pointer"] == pointer
    assert await keys(client) == []
