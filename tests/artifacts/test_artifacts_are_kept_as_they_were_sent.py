"""Bytes come back under their hash, whole or in ranges; names refer to them; another tenant has none of it."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from app.http.service import Service
from tests.artifacts.artifacts import MIB, files_of, hash_of, refer, sample, store
from tests.conftest import Make
from tests.payloads import problem


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 9 * MIB + 17])
async def test_the_bytes_come_back(client: httpx.AsyncClient, service: Service, size: int) -> None:
    content = sample(size)
    made, again = await store(client, content), await store(client, content)
    assert (made.status_code, again.status_code, again.json()) == (201, 200, made.json())
    assert made.json() == {
        "hash": hash_of(content), "size_bytes": size, "created_at": made.json()["created_at"],
    }  # fmt: skip
    shown = await client.get(f"/v1/artifacts/{hash_of(content)}")
    assert (shown.status_code, shown.content == content) == (200, True)
    told = ("content-length", "etag", "content-disposition", "x-content-type-options", "cache-control", "content-type")
    assert [shown.headers[name] for name in told] == [
        str(size), f'"{hash_of(content)}"', "attachment", "nosniff", "private, max-age=31536000, immutable",
        "application/octet-stream",
    ]  # fmt: skip
    head = await client.head(f"/v1/artifacts/{hash_of(content)}")
    assert (head.content, head.headers["content-length"]) == (b"", str(size))
    assert files_of(client, service) == [hash_of(content)]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("0-0", 0, 1), (f"{MIB - 1}-{MIB}", MIB - 1, MIB + 1), ("-5", -5, None), (f"{MIB}-", MIB, None),
        ("7-6000000", 7, None),
    ],
)  # fmt: skip
async def test_a_range_is_answered(client: httpx.AsyncClient, asked: str, start: int, end: int | None) -> None:
    content = sample(5 * MIB + 9)
    path = f"/v1/artifacts/{(await store(client, content)).json()['hash']}"
    shown = await client.get(path, headers={"range": f"bytes={asked}"})
    assert (shown.status_code, shown.content == content[start:end]) == (206, True)
    beyond = await client.get(path, headers={"range": "bytes=6000000-"})
    assert (problem(beyond), beyond.json()["size_bytes"]) == ((416, "range_not_satisfiable"), len(content))
    held = await client.get(path, headers={"if-none-match": shown.headers["etag"]})
    assert (held.status_code, held.content) == (304, b"")


@pytest.mark.parametrize("name", ["0" * 64, "x", "A" * 64, "..%2F..%2Fetc", "é"])
async def test_a_hash_that_is_none_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    assert problem(await client.get(f"/v1/artifacts/{name}")) == (404, "artifact_not_found")


async def test_b39_bytes_with_another_digest_are_not_stored(client: httpx.AsyncClient, service: Service) -> None:
    refused = await store(client, b"abc", params={"hash": "0" * 64})
    assert problem(refused) == (422, "artifact_integrity")
    assert [refused.json()[name] for name in ("expected", "found")] == ["0" * 64, hash_of(b"abc")]
    assert (await client.get(f"/v1/artifacts/{hash_of(b'abc')}")).status_code == 404
    assert files_of(client, service) == []
    assert (await store(client, b"abc", params={"hash": hash_of(b"abc")})).status_code == 201


async def test_of_many_who_send_the_same_bytes_one_creates(client: httpx.AsyncClient, service: Service) -> None:
    content = sample(2 * MIB + 5)
    replies = await gather(*(store(client, content) for _ in range(64)))
    assert sorted(reply.status_code for reply in replies) == [200] * 63 + [201]
    assert files_of(client, service) == [hash_of(content)]


async def test_another_tenant_has_none_of_it(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    await store(client, b"mine")
    assert (await other.get(f"/v1/artifacts/{hash_of(b'mine')}")).status_code == 404
    assert (await other.get("/v1/artifacts")).json()["items"] == []
    assert (await store(other, b"mine")).status_code == 201


async def test_the_list_shows_what_was_stored_last_first(client: httpx.AsyncClient) -> None:
    made = [(await store(client, sample(9, seed))).json() for seed in range(5)]
    first = (await client.get("/v1/artifacts", params={"limit": 3})).json()
    rest = (await client.get("/v1/artifacts", params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert (first["items"] + rest["items"], rest["next_cursor"]) == (made[::-1], None)


async def test_a_name_stands_for_an_artifact_and_then_for_another(client: httpx.AsyncClient, make: Make) -> None:
    invocation = (await make.invocation())["id"]
    one, two = (await store(client, b"one")).json(), (await store(client, b"two")).json()
    made = await refer(client, invocation, "report", b"one", content_type="text/plain", metadata={"n": 1}, node_id="n")
    expected: dict[str, Any] = {
        "invocation_id": invocation, "name": "report", "hash": one["hash"], "size_bytes": 3,
        "content_type": "text/plain", "metadata": {"n": 1}, "node_id": "n",
    }  # fmt: skip
    shown = made.json()
    assert (made.status_code, {name: shown[name] for name in expected}) == (201, expected)
    again = await refer(client, invocation, "report", b"one", content_type="text/plain", metadata={"n": 1}, node_id="n")
    assert (again.status_code, again.headers["etag"], again.json()) == (200, made.headers["etag"], shown)
    changed = await refer(client, invocation, "report", b"two")
    assert (changed.status_code, changed.headers["etag"] > made.headers["etag"]) == (200, True)
    assert (changed.json()["hash"], changed.json()["content_type"], changed.json()["metadata"]) == (
        two["hash"],
        None,
        {},
    )
    path = f"/v1/invocations/{invocation}/artifacts"
    assert (await client.get(f"{path}/report")).json() == changed.json()
    assert (await client.get(path)).json()["items"] == [changed.json()]
    assert (await client.get(path, params={"hash": one["hash"]})).json()["items"] == []


async def test_a_reference_holds_its_precondition(client: httpx.AsyncClient, make: Make) -> None:
    invocation = (await make.invocation())["id"]
    path = f"/v1/invocations/{invocation}/artifacts/a"
    body = {"hash": (await store(client, b"x")).json()["hash"]}
    assert problem(await client.put(path, json=body, headers={"if-match": "*"})) == (412, "precondition_failed")
    etag = (await client.put(path, json=body)).headers["etag"]
    for method in ("PUT", "DELETE"):
        sent = {"json": body | {"node_id": "m"}} if method == "PUT" else {}
        refused = await client.request(method, path, headers={"if-match": '"7"'}, **sent)  # type: ignore[arg-type]
        assert (problem(refused), refused.json()["current_etag"]) == ((412, "precondition_failed"), etag)
    assert (await client.delete(path, headers={"if-match": etag})).status_code == 204
    # It never comes back, for another reference of that name either.
    await client.put(path, json=body)
    assert problem(await client.delete(path, headers={"if-match": etag})) == (412, "precondition_failed")
    assert (await client.delete(path)).status_code == 204
    assert problem(await client.get(path)) == (404, "artifact_reference_not_found")
    assert problem(await client.delete(path)) == (404, "artifact_reference_not_found")


async def test_what_is_not_there_cannot_be_referred_to(client: httpx.AsyncClient, make: Make) -> None:
    invocation = (await make.invocation())["id"]
    assert problem(await refer(client, invocation, "a", b"absent")) == (404, "artifact_not_found")
    await store(client, b"here")
    assert problem(await refer(client, "absent", "a", b"here")) == (404, "invocation_not_found")
    assert problem(await client.get("/v1/invocations/absent/artifacts")) == (404, "invocation_not_found")


@pytest.mark.parametrize("name", ["报告", "\U0001f600", "it’s", 'a"b', "a\r\nX: 1", "../../x", "<script>", "x" * 255])
async def test_b39_names_of_references_come_back_as_they_are(client: httpx.AsyncClient, make: Make, name: str) -> None:
    invocation = (await make.invocation())["id"]
    await store(client, b"x")
    path = (
        str(httpx.URL("/"))
        + f"v1/invocations/{invocation}/artifacts/"
        + "".join(f"%{byte:02X}" for byte in name.encode())
    )
    made = await client.put(path, json={"hash": hash_of(b"x")})
    assert (made.status_code, made.json()["name"], "x" in made.headers) == (201, name, False)
    assert (await client.get(path)).json() == made.json()


async def test_an_invocation_takes_its_references_with_it(client: httpx.AsyncClient, make: Make) -> None:
    invocation = (await make.invocation())["id"]
    await store(client, b"x")
    await refer(client, invocation, "a", b"x")
    await client.post(f"/v1/invocations/{invocation}/end", json={"status": "completed"})
    assert (await client.delete(f"/v1/invocations/{invocation}")).status_code == 204
    assert (await client.get(f"/v1/artifacts/{hash_of(b'x')}")).content == b"x"
