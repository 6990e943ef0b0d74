"""B39: an upload that is cut, lies about itself or is too large leaves nothing; a repeated one has one effect."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio import gather
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import httpx
import pytest

from app.errors import Unavailable
from app.http.service import Service
from tests.api_process import ApiProcess, serving
from tests.attachments.uploads import MIB, get, put, reference, sample
from tests.conftest import ADMIN_KEY, new_tenant, running, settings_for
from tests.payloads import codes, problem
from tests.waiting import eventually

HEADERS = {"authorization": f"Bearer {ADMIN_KEY}", "x-tenant-id": "acme"}


async def stored(service: Service, tenant_id: str) -> list[int]:
    """How many attachments, contents and chunks a tenant has."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        return [
            await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", tenant_id)
            for table in ("attachments", "contents", "content_chunks")
        ]
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"size": 4}, "size"), ({"size": 2}, "size"), ({"digest": "0" * 64}, "digest"), ({"size": 0}, "size")],
)
async def test_b39_bytes_that_are_not_what_was_said_are_refused(
    service: Service, client: httpx.AsyncClient, fields: dict[str, object], reason: str
) -> None:
    refused = await put(client, b"abc", **fields)
    assert problem(refused) == (422, "attachment_integrity")
    assert (refused.json()["reason"], refused.json()["expected"]) == (reason, fields[reason])
    assert (await get(client)).status_code == 404
    assert await stored(service, client.headers["x-test-tenant"]) == [0, 0, 0]
    assert (await put(client, b"abc")).status_code == 201
    # What is wrong with the bytes is said before what is wrong with the id.
    assert problem(await put(client, b"abc", **fields)) == (422, "attachment_integrity")


async def test_a_loser_of_a_race_leaves_no_bytes_behind(service: Service, client: httpx.AsyncClient) -> None:
    await gather(*(put(client, sample(2 * MIB)) for _ in range(4)), *(put(client, bytes(2 * MIB)) for _ in range(4)))
    assert await stored(service, client.headers["x-test-tenant"]) == [1, 1, 2]
    await client.delete("/v1/attachments", params={"path": "agents/echo/i1"})
    assert await stored(service, client.headers["x-test-tenant"]) == [0, 0, 0]


async def test_the_limit_is_its_own_and_is_named(clone: Callable[[], Awaitable[str]]) -> None:
    settings = settings_for(await clone(), http={"body_bytes_max": 1024, "upload_bytes_max": 2 * MIB})
    async with running(settings) as service, await new_tenant(service) as client:
        assert (await put(client, sample(2 * MIB))).status_code == 201

        async def chunked() -> AsyncIterator[bytes]:
            yield sample(2 * MIB)
            yield b"x"

        large = sample(2 * MIB + 1)
        for content in (large, chunked()):
            refused = await client.put("/v1/attachments", params=reference(large, id="b"), content=content)
            assert problem(refused) == (413, "payload_too_large")
            assert refused.json()["limit_bytes"] == 2 * MIB
        assert (await client.get("/v1/capabilities")).json()["limits"]["upload_bytes"] == 2 * MIB


async def test_a_folder_that_cannot_receive_uploads_is_told_at_the_start(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    settings = settings_for(await clone(), http={"uploads_folder": tmp_path / "file" / "uploads"})
    with pytest.raises(Unavailable, match="another folder in CAIRN_HTTP__UPLOADS_FOLDER"):
        async with running(settings):
            raise AssertionError("it started")


async def test_what_the_head_of_a_request_forbids_is_refused_before_its_body(service: Service) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was asked for")
        yield b""

    async with await new_tenant(service, scopes=("workflows:write",)) as stranger, await new_tenant(service) as client:
        refused = await stranger.put("/v1/attachments", params=reference(b""), content=never())
        assert problem(refused) == (403, "forbidden")
        assert problem(await client.put("/v1/attachments?path=p", content=never())) == (422, "invalid_input")


async def test_an_upload_that_stops_arriving_is_refused_and_its_connection_ends(
    clone: Callable[[], Awaitable[str]],
) -> None:
    with serving(await clone(), http__receive_seconds=0.2) as process:
        operator = {"authorization": HEADERS["authorization"]}
        async with httpx.AsyncClient(base_url=process.url, headers=operator) as client:
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
        host, _, port = process.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = [f"PUT /v1/attachments?{urlencode(reference(b'abc'))} HTTP/1.1", "Host: x", "Content-Length: 3",
                *(f"{name}: {value}" for name, value in HEADERS.items()), "", ""]  # fmt: skip
        writer.write("\r\n".join(head).encode() + b"ab")
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in told


@pytest.mark.parametrize("size", [3, 2 * MIB])
async def test_an_idempotency_key_has_one_effect(client: httpx.AsyncClient, size: int) -> None:
    key = {"idempotency-key": "k"}
    answers = await gather(*(put(client, sample(size), key) for _ in range(3)))
    assert codes(answers) == [201] * 3
    assert len({answer.content for answer in answers}) == 1
    await client.delete("/v1/attachments", params={"path": "agents/echo/i1"})
    replayed = await put(client, sample(size), key)
    assert (replayed.status_code, replayed.headers["idempotency-replayed"]) == (201, "true")
    assert (await get(client)).status_code == 404
    # Other bytes under the key are another request, although all that is said of them is the same.
    query = reference(sample(size))
    reused = await client.put("/v1/attachments", params=query, content=bytes(size), headers=key)
    assert problem(reused) == (422, "idempotency_key_reused")


async def test_a_key_of_a_deletion_replays_how_many_there_were(client: httpx.AsyncClient) -> None:
    await put(client, b"abc")
    answers = [
        await client.delete("/v1/attachments", params={"path": "agents/echo/i1"}, headers={"idempotency-key": "d"})
        for _ in range(2)
    ]
    assert [answer.json() for answer in answers] == [{"deleted": 1}] * 2


async def test_bytes_have_no_place_in_a_batch(client: httpx.AsyncClient) -> None:
    await put(client, b"abc")
    query = urlencode({"path": "agents/echo/i1", "id": "a", "conversation_id": "c"})
    for method in ("GET", "PUT"):
        operation = {"method": method, "path": f"/v1/attachments?{query}"}
        assert (await client.post("/v1/batch", json={"operations": [operation]})).status_code == 422


@pytest.fixture
async def served(clone: Callable[[], Awaitable[str]], tmp_path: Path) -> AsyncIterator[ApiProcess]:
    """The API as a process that receives in a folder below `tmp_path`, which it makes."""
    with serving(await clone(), http__uploads_folder=tmp_path / "made" / "uploads") as process:
        operator = {"authorization": HEADERS["authorization"]}
        async with httpx.AsyncClient(base_url=process.url, headers=operator) as client:
            assert (await client.put("/v1/tenants/acme", json={})).status_code == 201
        yield process


def unnamed_files(process: ApiProcess, folder: Path) -> list[str]:
    """The files without a name that a process holds in a folder."""
    links = []
    for descriptor in Path(f"/proc/{process.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(str(descriptor.readlink()))
    return [link for link in links if link.startswith(str(folder)) and link.endswith("(deleted)")]


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells of files without a name")
async def test_b39_an_upload_that_is_cut_leaves_nothing(served: ApiProcess, tmp_path: Path) -> None:
    content = sample(10 * MIB)
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    head = [
        f"PUT /v1/attachments?{urlencode(reference(content))} HTTP/1.1", "Host: x",
        *(f"{name}: {value}" for name, value in HEADERS.items()), f"Content-Length: {len(content)}", "", "",
    ]  # fmt: skip
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write("\r\n".join(head).encode() + content[: 6 * MIB])
    await writer.drain()

    async def receives() -> bool:
        return bool(unnamed_files(served, tmp_path))

    await eventually(receives, "the upload to arrive in a file")
    assert [name for _, _, names in os.walk(tmp_path) for name in names if "upload" in name] == []
    writer.transport.abort()

    async def gone() -> bool:
        return not unnamed_files(served, tmp_path)

    await eventually(gone, "the file to be gone")
    async with httpx.AsyncClient(base_url=served.url, headers=HEADERS) as client:
        assert (await get(client)).status_code == 404
        assert (await client.get("/v1/attachments/references")).json()["items"] == []
        assert (await put(client, content)).status_code == 201
        assert (await get(client)).content == content
