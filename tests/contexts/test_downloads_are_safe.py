"""What somebody stored does nothing to whoever opens it, and nothing in it ends a header."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.contexts.contexts import get, put, told
from tests.payloads import problem

PATH = "/v1/invocations/i/contexts/workflow/k"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("text/html", "text/html"), ("image/svg+xml; charset=utf-8", "image/svg+xml; charset=utf-8"),
        ("text/x;a=\"b'c\"", "text/x;a=\"b'c\""), ("nonsense", "application/octet-stream"),
        ("text/html\tx", "application/octet-stream"), ("a/b, text/html", "application/octet-stream"),
        ("é/ü", "application/octet-stream"), ("x/" + "y" * 253, "x/" + "y" * 253), (None, "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)  # fmt: skip
async def test_any_type_is_kept_and_a_download_is_inert(
    client: httpx.AsyncClient, given: str | None, shown: str
) -> None:
    stored = await client.put(
        PATH, content=b"<script>",
        headers=[] if given is None else [(b"content-type", given.encode("latin-1"))],
    )  # fmt: skip
    assert stored.status_code == 201, stored.text
    assert stored.json()["content_type"] == (given or "application/octet-stream")
    for method in ("GET", "HEAD"):
        read = await get(client, method=method)
        assert read.headers["content-type"] == shown
        assert told(read)["content-type"] == stored.json()["content_type"]
        assert read.headers["x-content-type-options"] == "nosniff"
        assert read.headers["content-disposition"].startswith("attachment")
        assert read.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert read.headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize("given", ["x" * 256, "é" * 128, "a\x00b"])
async def test_a_type_that_cannot_be_kept_is_refused(client: httpx.AsyncClient, given: str) -> None:
    answer = await client.put(PATH, content=b"x", headers=[(b"content-type", given.encode("latin-1"))])
    assert problem(answer) == (422, "invalid_input")
    assert answer.json()["errors"][0]["pointer"] == "Content-Type"


@pytest.mark.parametrize("text", ["a\r\nSet-Cookie: x=1", "\u2028\u202e", 'q"; filename="x.exe', "ü😀", "\x1b[2J"])
async def test_no_text_ends_a_header(client: httpx.AsyncClient, text: str) -> None:
    assert (await put(client, text, summary=text, metadata='{"a":"\\r\\nX: 1","ü":"😀"}')).status_code == 201
    read = await get(client, text)
    assert read.status_code == 200
    assert "set-cookie" not in read.headers
    assert "x" not in read.headers
    assert told(read)["summary"] == text
    for name, value in read.headers.items():
        assert re.fullmatch("[ -~]*", value), name


async def test_the_name_of_a_download_is_the_last_part_of_the_key(client: httpx.AsyncClient) -> None:
    await put(client, "../notes/plan ü.md")
    read = await get(client, "../notes/plan ü.md")
    assert read.headers["content-disposition"] == (
        "attachment; filename=\"plan _.md\"; filename*=UTF-8''plan%20%C3%BC.md"
    )
