"""Data beyond what a row holds is an artifact, which the context refers to; nobody sees a difference."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from asyncio import gather
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.artifacts import store as artifacts
from app.contexts.jobs import purge_expired
from app.http.service import Service
from tests.artifacts.artifacts import files_of, folder_of, hash_of
from tests.artifacts.collecting import age, collection_of, states
from tests.conftest import Make, new_tenant
from tests.contexts.contexts import at, get, keys, post, put, sample, told
from tests.payloads import codes, problem

LARGE = 100_000
WORKFLOW = {"scope": "workflow"}


def large(number: int, size: int = LARGE) -> bytes:
    """Text that is larger than a row holds, and begins with its number."""
    return f"{number} ".encode() + b"x" * size


@contextmanager
def in_the_way(folder: Path) -> Iterator[None]:
    """A file where a folder of objects would be."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_bytes(b"")
    try:
        yield
    finally:
        folder.unlink()


async def rows(service: Service, client: httpx.AsyncClient, sql: str) -> list[dict[str, Any]]:
    """What a query about the tenant `$1` finds."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        return [dict(row) for row in await connection.fetch(sql, client.headers["x-test-tenant"])]
    finally:
        await connection.close()


async def places(service: Service, client: httpx.AsyncClient) -> list[tuple[str, bool, bool]]:
    """Each context's key, and whether its data is in the row, and in the object store."""
    found = await rows(
        service, client,
        "SELECT key, data IS NOT NULL AS inline, artifact_hash IS NOT NULL AS kept FROM contexts"
        " WHERE tenant_id = $1 ORDER BY key",
    )  # fmt: skip
    return [(row["key"], row["inline"], row["kept"]) for row in found]


async def touched(service: Service, client: httpx.AsyncClient) -> dict[str, Any]:
    """When each artifact was last needed."""
    sql = "SELECT encode(hash, 'hex') AS hash, touched_at FROM artifacts WHERE tenant_id = $1"
    found = await rows(service, client, sql)
    return {row["hash"]: row["touched_at"] for row in found}


async def test_the_size_decides_where_it_lies(service: Service, client: httpx.AsyncClient) -> None:
    limit = service.ground.inline_bytes_max
    for key, content in (("a", sample(limit)), ("b", sample(limit + 1)), ("c", sample(3 * 1024 * 1024))):
        stored = await put(client, key, content, None)
        assert (stored.status_code, stored.json()["size_bytes"]) == (201, len(content))
        assert stored.json()["summary"] == f"binary ({len(content)} bytes)"
        read = await get(client, key)
        assert read.content == content
        assert read.headers["context-digest"] == stored.json()["digest"] == hashlib.sha256(content).hexdigest()
        for start, end in ((0, 1), (limit - 1, len(content)), (len(content) - 1, len(content))):
            part = await get(client, key, headers={"range": f"bytes={start}-{end - 1}"})
            assert (part.status_code, part.content) == (206, content[start:end])
        assert (await get(client, key, method="HEAD")).headers["content-length"] == str(len(content))
    assert await places(service, client) == [("a", True, False), ("b", False, True), ("c", False, True)]
    assert (await put(client, "b", b"small")).status_code == 200
    assert (await get(client, "b")).content == b"small"
    assert (await places(service, client))[1] == ("b", True, False)


async def test_the_excerpt_of_large_text_is_its_beginning(client: httpx.AsyncClient) -> None:
    assert (await put(client, content=large(7))).json()["summary"] == "7 " + "x" * 195 + "…"
    assert (await put(client, content=large(7), summary="mine")).json()["summary"] == "mine"
    document = json.dumps({"a": "x" * LARGE, "b": 1}).encode()
    shown = (await put(client, content=document, kind="application/json")).json()
    assert shown["summary"] == f"object of 2: a, b ({len(document)} bytes)"


async def test_copies_and_moves_refer_to_the_same_bytes(
    service: Service, client: httpx.AsyncClient, make: Make
) -> None:
    await make.invocation(id="j")
    content = large(1)
    name = hashlib.sha256(content).hexdigest()
    await put(client, "a", content, summary="s")
    await put(client, "b", content, "x/y")
    for call, target in (("copy", {"invocation_id": "j"}), ("move", {"key": "c"})):
        assert (await post(client, call, source={**WORKFLOW, "key": "a"}, target=target)).status_code == 201
    assert files_of(client, service) == [name]
    for key, invocation, summary in (("c", "i", "s"), ("a", "j", "s"), ("b", "i", "1 " + "x" * 195 + "…")):
        read = await get(client, key, invocation=invocation)
        assert (read.content, told(read)["summary"]) == (content, summary)


async def test_a_reader_of_large_data_sees_one_write(client: httpx.AsyncClient) -> None:
    await put(client, content=large(0), summary="0")
    done = asyncio.Event()

    async def write(number: int) -> None:
        for turn in range(4):
            # Small and large ones take turns, and several write the same bytes.
            size = LARGE if (number + turn) % 3 else 10
            answer = await put(client, content=large(number % 3, size), summary=str(number % 3))
            assert answer.status_code == 200, answer.text

    async def read() -> None:
        while not done.is_set():
            answer = await get(client)
            heard = told(answer)
            assert answer.content.partition(b" ")[0].decode() == heard["summary"]
            assert hashlib.sha256(answer.content).hexdigest() == heard["digest"]

    readers = [asyncio.create_task(read()) for _ in range(2)]
    try:
        await gather(*(write(number) for number in range(1, 6)))
    finally:
        done.set()
    await gather(*readers)


async def test_preconditions_and_keys_hold_for_large_data_too(client: httpx.AsyncClient) -> None:
    answers = await gather(*(put(client, content=large(number), headers={"if-none-match": "*"}) for number in range(6)))
    assert codes(answers) == [201] + [412] * 5
    tag = (await get(client, method="HEAD")).headers["etag"]
    answers = await gather(*(put(client, content=large(number), headers={"if-match": tag}) for number in range(6)))
    assert codes(answers) == [200] + [412] * 5
    assert (await put(client, "other", large(1), headers={"if-match": "*"})).status_code == 412
    key = {"idempotency-key": "k"}
    first = await put(client, content=large(9), headers=key)
    await put(client, content=large(8))
    assert (await put(client, content=large(9), headers=key)).content == first.content
    assert (await get(client)).content == large(8)
    assert problem(await put(client, content=large(1), invocation="none")) == (404, "invocation_not_found")


async def test_what_lets_an_artifact_go_begins_its_grace_period(service: Service, client: httpx.AsyncClient) -> None:
    content = {number: large(number) for number in range(5)}
    name = {number: hashlib.sha256(data).hexdigest() for number, data in content.items()}
    for number, data in content.items():
        await put(client, f"k{number}", data, expires_at="2100-01-01T00:00:00Z")
    before = await touched(service, client)
    await put(client, "k0", b"small")
    await client.delete(at("k1"))
    await post(client, "move", source={**WORKFLOW, "key": "k0"}, target={"key": "k2"}, overwrite=True)
    await post(client, "clear", pattern="k3")
    await rows(service, client, "UPDATE contexts SET expires_at = 'epoch' WHERE tenant_id = $1 AND key = 'k4'")
    assert (await touched(service, client))[name[4]] == before[name[4]]
    while await purge_expired(service.ground.database, 100):
        pass
    after = await touched(service, client)
    assert {number for number in content if after[name[number]] > before[name[number]]} == set(content)
    assert await keys(client) == ["k2"]


async def test_what_a_context_refers_to_is_never_collected(fresh: Service) -> None:
    collection, database = collection_of(fresh), fresh.ground.database
    async with await new_tenant(fresh) as client:
        await Make(client).invocation(id="i")
        await put(client, content=large(1))
        await post(client, "copy", source={**WORKFLOW, "key": "k"}, target={"key": "copy"})
        await client.delete(at("k"))
        for _ in range(3):
            await age(fresh)
            await collection.collect(database, 100)
        assert (await get(client, "copy")).content == large(1)
        assert (await post(client, "clear")).json() == {"deleted": 1}
        # From here on it has the whole grace period, and is then taken in two phases.
        await collection.collect(database, 100)
        assert list((await states(fresh)).values()) == ["live"]
        for _ in range(2):
            await age(fresh)
            await collection.collect(database, 100)
        assert (await states(fresh), files_of(client, fresh)) == ({hash_of(large(1)): "gone"}, [])
        # Its bytes come back as another object.
        await put(client, content=large(1))
        assert (await get(client)).content == large(1)


async def test_writers_and_collectors_cross_and_no_data_is_lost(fresh: Service) -> None:
    collection, chance = collection_of(fresh), random.Random(5)
    names = [f"k{number}" for number in range(3)]

    seen = 0

    async def write(client: httpx.AsyncClient) -> None:
        nonlocal seen
        for _ in range(30):
            answer: httpx.Response | None = None
            key, other = chance.sample(names, 2)
            transfer = {"source": {**WORKFLOW, "key": key}, "target": {"key": other}, "overwrite": True}
            number = chance.randrange(2)
            match chance.choice(("put", "put", "delete", "copy", "move", "collect", "collect")):
                case "put":
                    answer = await put(client, key, large(number), summary=str(number))
                case "delete":
                    answer = await client.delete(at(key))
                case "collect":
                    # Hours pass, also for those who are in the middle of a write: they may have to begin anew.
                    await age(fresh)
                    await collection.collect(fresh.ground.database, 100)
                case call:
                    answer = await post(client, call, **transfer)
            assert answer is None or answer.status_code in (200, 201, 204, 404, 503), answer.text
            read = await get(client, key)
            assert read.status_code in (200, 404), read.text
            if read.status_code == 200:
                assert read.content == large(int(told(read)["summary"]))
                seen += 1

    async with await new_tenant(fresh) as client:
        await Make(client).invocation(id="i")
        await gather(*(write(client) for _ in range(4)))
    assert seen > 20


async def test_nothing_is_stored_for_whom_the_fence_refuses(service: Service, client: httpx.AsyncClient) -> None:
    for name in ("submission-attempt", "lease"):
        refused = await put(client, content=large(1), headers={name: "s;1"})
        assert refused.status_code == 409, refused.text
    assert (await keys(client), files_of(client, service)) == ([], [])


async def test_what_the_store_does_not_take_leaves_the_old_value(service: Service, client: httpx.AsyncClient) -> None:
    await put(client, content=b"old", summary="old")
    with in_the_way(folder_of(service) / client.headers["x-test-tenant"]):
        refused = await put(client, content=large(1))
        assert problem(refused) == (503, "unavailable")
    read = await get(client)
    assert (read.content, told(read)["summary"]) == (b"old", "old")
    assert (await put(client, content=large(1))).status_code == 200


async def test_damage_is_told(service: Service, client: httpx.AsyncClient) -> None:
    await put(client, content=large(1))
    (name,) = files_of(client, service)
    file = folder_of(service) / client.headers["x-test-tenant"] / name
    file.write_bytes(b"y" + file.read_bytes()[1:])
    assert problem(await get(client)) == (500, "artifact_integrity")


async def test_a_context_that_was_replaced_while_it_was_read_is_read_again(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(client, content=large(1), summary="1")
    find, waiting = artifacts.find, [True]

    async def find_late(reader: Any, tenant_id: str, digest: bytes) -> Any:
        # Between the row and the object it was replaced, and what it was is collected.
        if waiting:
            waiting.clear()
            await put(client, content=large(2), summary="2")
            raise artifacts.not_found(digest.hex())
        return await find(reader, tenant_id, digest)

    monkeypatch.setattr(artifacts, "find", find_late)
    read = await get(client)
    assert (read.content, told(read)["summary"]) == (large(2), "2")
