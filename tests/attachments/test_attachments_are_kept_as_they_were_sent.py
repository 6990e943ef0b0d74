"""Put, put again, get and delete: the first write wins, and what comes back is what was sent."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import httpx
import pytest

from tests.attachments.uploads import MIB, PATH, get, put, reference, sample
from tests.payloads import codes, problem


@pytest.mark.parametrize("size", [0, 1, 4, 512 * 1024 + 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 5 * MIB + 17])
async def test_the_bytes_come_back(client: httpx.AsyncClient, size: int) -> None:
    content = sample(size)
    made = await put(client, content, filename="a b.png")
    assert made.status_code == 201, made.text
    expected = reference(content, filename="a b.png", created_at=made.json()["created_at"])
    assert made.json() == expected
    shown = await get(client)
    assert (shown.status_code, shown.content == content) == (200, True)
    assert {name: shown.headers.get(name) for name in ("content-type", "content-length", "etag")} == {
        "content-type": "image/png", "content-length": str(size), "etag": f'"{expected["digest"]}"',
    }  # fmt: skip


async def test_the_reference_stands_in_headers(client: httpx.AsyncClient) -> None:
    fields = {"id": "é /1%\r\nX-Evil: 1", "mime_type": "image/svg+xml; charset=utf-8", "filename": "ü \U0001f600.svg"}
    assert (await put(client, b"<svg/>", **fields)).status_code == 201
    shown = await get(client, id=fields["id"])
    assert "x-evil" not in shown.headers
    assert {name: value for name, value in shown.headers.items() if name.startswith("attachment-")} == {
        "attachment-id": "%C3%A9%20%2F1%25%0D%0AX-Evil%3A%201",
        "attachment-mime-type": "image/svg%2Bxml%3B%20charset%3Dutf-8",
        "attachment-size": "6",
        "attachment-digest": reference(b"<svg/>")["digest"],
        "attachment-filename": "%C3%BC%20%F0%9F%98%80.svg",
    }


@pytest.mark.parametrize(
    "mime_type",
    [
        "nonsense", "a/b\r\nX: 1", "té/xt", "text/html, x",
        # White space that is none of a header's: it would end the header, or all of them, or not be sent at all.
        'text/html;\r\n\r\na="<script>"', "text/html\r\n;a=b", "text/html;\x0ba=b", "text/html;\u2003a=b",
    ],
)  # fmt: skip
async def test_a_type_that_is_none_is_kept_but_sent_as_bytes(client: httpx.AsyncClient, mime_type: str) -> None:
    assert (await put(client, b"x", mime_type=mime_type)).json()["mime_type"] == mime_type
    assert (await get(client)).headers["content-type"] == "application/octet-stream"


async def test_the_same_again_is_the_attachment_as_it_is(client: httpx.AsyncClient) -> None:
    made = await put(client, b"abc", filename="first")
    again = await put(client, b"abc", filename="second")
    assert (again.status_code, again.content) == (200, made.content)


@pytest.mark.parametrize(
    ("content", "fields", "differing"),
    [
        (b"abd", {}, ["digest"]),
        (b"abcd", {}, ["size", "digest"]),
        (b"abc", {"conversation_id": "other"}, ["conversation_id"]),
        (b"abc", {"mime_type": "image/gif"}, ["mime_type"]),
    ],
)
async def test_anything_else_under_the_id_is_a_conflict(
    client: httpx.AsyncClient, content: bytes, fields: dict[str, Any], differing: list[str]
) -> None:
    await put(client, b"abc")
    refused = await put(client, content, **fields)
    assert problem(refused) == (409, "attachment_conflict")
    assert (refused.json()["id"], refused.json()["differing"]) == ("a", differing)
    assert (await get(client)).content == b"abc"


@pytest.mark.parametrize("size", [3, 3 * MIB])
async def test_equal_puts_at_once_all_succeed(client: httpx.AsyncClient, size: int) -> None:
    answers = await gather(*(put(client, sample(size)) for _ in range(5)))
    assert codes(answers) == [200] * 4 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert (await get(client)).content == sample(size)


@pytest.mark.parametrize("size", [3, 2 * MIB])
async def test_b39_of_other_bytes_at_once_one_wins_whole(client: httpx.AsyncClient, size: int) -> None:
    contents = [sample(size), bytes(size)]
    answers = await gather(*(put(client, content) for content in contents))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [201, 409]
    assert (await get(client)).content == contents[statuses.index(201)]


@pytest.mark.parametrize("fields", [{"path": "other"}, {"id": "b"}, {"conversation_id": "d"}])
async def test_another_path_id_or_conversation_holds_nothing(client: httpx.AsyncClient, fields: dict[str, str]) -> None:
    await put(client, b"abc")
    for method in ("GET", "HEAD"):
        assert (await get(client, method=method, **fields)).status_code == 404
    assert problem(await get(client, **fields)) == (404, "attachment_not_found")


async def test_the_list_names_what_is_there_without_bytes(client: httpx.AsyncClient) -> None:
    made = [
        (await put(client, b"x", path=path, id=name, conversation_id=conversation)).json()
        for path, name, conversation in (("p", "z", "c"), ("p", "a", "d"), ("q", "a", "c"))
    ]
    listed = "/v1/attachments/references"
    assert (await client.get(listed)).json()["items"] == made
    assert (await client.get(listed, params={"path": "p"})).json()["items"] == made[:2]
    assert (await client.get(listed, params={"path": "absent"})).json()["items"] == []
    assert (await client.get(listed, params={"path": "p", "conversation_id": "d"})).json()["items"] == [made[1]]
    assert (await client.get(listed, params={"digest": made[0]["digest"], "order": "desc"})).json()["items"] == made[
        ::-1
    ]


async def test_a_path_is_deleted_with_all_that_is_under_it(client: httpx.AsyncClient) -> None:
    for number in range(3):
        await put(client, sample(2 * MIB), id=str(number))
    await put(client, b"kept", path="other")
    deleted = await client.delete("/v1/attachments", params={"path": PATH})
    assert (deleted.status_code, deleted.json()) == (200, {"deleted": 3})
    assert (await client.delete("/v1/attachments", params={"path": PATH})).json() == {"deleted": 0}
    assert (await get(client, id="1")).status_code == 404
    assert (await get(client, path="other")).content == b"kept"
    assert (await put(client, b"new", id="1")).status_code == 201


async def test_a_put_holds_its_precondition(client: httpx.AsyncClient) -> None:
    for tag in ("*", '"x"'):
        assert problem(await put(client, b"abc", {"if-match": tag})) == (412, "precondition_failed")
    await put(client, b"abc")
    tag = (await get(client)).headers["etag"]
    for held in ("*", tag, f'"x", {tag}'):
        assert (await put(client, b"abc", {"if-match": held})).status_code == 200
    refused = await put(client, b"abc", {"if-match": f"W/{tag}"})
    assert (problem(refused), refused.json()["current_etag"]) == ((412, "precondition_failed"), tag)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", "é" * 513), ("path", ""), ("id", "x" * 256), ("id", ""), ("conversation_id", "x" * 256),
        ("mime_type", ""), ("size", "-1"), ("size", "1.0"), ("size", str(2**53)), ("digest", "A" * 64),
        ("digest", "ab"), ("filename", "€" * 683), ("unknown", "x"),
    ],
)  # fmt: skip
async def test_a_field_out_of_bounds_is_named(client: httpx.AsyncClient, name: str, value: str) -> None:
    refused = await put(client, b"abc", **{name: value})
    assert problem(refused) == (422, "invalid_input")
    assert [error["pointer"] for error in refused.json()["errors"]] == [name]
