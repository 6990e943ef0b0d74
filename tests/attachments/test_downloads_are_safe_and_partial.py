"""B39: whatever a file is called and holds, a download is one; ranges, and answers that were had before."""

from __future__ import annotations

import re
from urllib.parse import unquote

import httpx
import pytest

from tests.attachments.uploads import MIB, get, put, sample
from tests.payloads import problem

NAMES = {
    "report.pdf": "report.pdf",
    "报告.pdf": "报告.pdf",
    "\U0001f600.png": "\U0001f600.png",
    "it\u2019s.txt": "it\u2019s.txt",
    'a"b\\c.txt': "c.txt",
    'say "hi".txt': 'say "hi".txt',
    "a\r\nSet-Cookie: x=1\r\n\r\n<script>": "a__Set-Cookie: x=1____<script>",
    "../../x": "x",
    "..": None,
    "": None,
    "a/": None,
    "100%.txt": "100%.txt",
    "x\u202egpj.exe": "x_gpj.exe",
    "n" * 300 + ".txt": "n" * 251 + ".txt",
    "\U0001f600" * 300: "\U0001f600" * 63,
    "\x7f\x01": "__",
}


def told(header: str) -> str | None:
    """The file name in a Content-Disposition, as RFC 6266 has it read; the header must be well-formed."""
    found = re.fullmatch(
        r"""attachment(?:; filename="([ !#-\[\]-~]*)")?(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*))?""", header
    )
    assert found is not None, header
    return found[1] if found[2] is None else unquote(found[2], errors="strict")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_b39_any_name_is_a_download_and_no_header(client: httpx.AsyncClient, name: str) -> None:
    assert (await put(client, b"x", filename=name)).json()["filename"] == name
    shown = await get(client)
    assert (shown.status_code, "set-cookie" in shown.headers) == (200, False)
    assert told(shown.headers["content-disposition"]) == NAMES[name]
    assert unquote(shown.headers["attachment-filename"], errors="strict") == name


@pytest.mark.parametrize("mime_type", ["text/html", "image/svg+xml"])
async def test_b39_scripts_are_never_shown_in_place(client: httpx.AsyncClient, mime_type: str) -> None:
    content = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    await put(client, content, mime_type=mime_type)
    shown = await get(client)
    assert shown.content == content
    headers = {name: shown.headers[name] for name in (
        "content-type", "content-disposition", "x-content-type-options", "content-security-policy", "cache-control",
    )}  # fmt: skip
    assert headers == {
        "content-type": mime_type,
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=31536000, immutable",
    }


@pytest.mark.parametrize("size", [1000, 3 * MIB + 5])
async def test_a_range_is_exactly_the_bytes_it_names(client: httpx.AsyncClient, size: int) -> None:
    content = sample(size)
    await put(client, content)
    for asked, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, size),
        ("bytes=10-19", 10, 20),
        (f"bytes=10-{size * 9}", 10, size),
        # What clients send who know no length.
        (f"bytes=10-{2**64 - 1}", 10, size),
        ("bytes=-7", size - 7, size),
        (f"bytes=-{size * 9}", 0, size),
        (f"Bytes = {size - 1} - {size}", size - 1, size),
        (f"bytes={size // 3}-{size * 2 // 3}", size // 3, size * 2 // 3 + 1),
        (f"bytes={size // 2}-{size // 2 + 1}", size // 2, size // 2 + 2),
    ):
        part = await get(client, {"range": asked})
        assert (part.status_code, part.content == content[start:end]) == (206, True), asked
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert part.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("edge", [MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB])
async def test_a_range_may_end_and_begin_where_chunks_do(client: httpx.AsyncClient, edge: int) -> None:
    content = sample(3 * MIB)
    await put(client, content)
    assert (await get(client, {"range": f"bytes=5-{edge - 1}"})).content == content[5:edge]
    assert (await get(client, {"range": f"bytes={edge}-{edge + 9}"})).content == content[edge : edge + 10]


async def test_a_range_beyond_the_end_is_told_the_size(client: httpx.AsyncClient) -> None:
    await put(client, b"abc")
    await put(client, b"", id="empty")
    for name, asked, size in (
        ("a", "bytes=3-", 3),
        ("a", "bytes=9-12", 3),
        ("a", "bytes=-0", 3),
        ("empty", "bytes=0-", 0),
    ):
        refused = await get(client, {"range": asked}, id=name)
        assert problem(refused) == (416, "range_not_satisfiable")
        assert (refused.headers["content-range"], refused.json()["size_bytes"]) == (f"bytes */{size}", size)


@pytest.mark.parametrize(
    "asked",
    ["bytes=0-0,2-2", "items=0-1", "bytes=-", "bytes=2-1", "bytes=a-b", "0-1", "bytes=1", f"bytes=0-{'9' * 99}"],
)
async def test_what_is_no_single_range_is_answered_with_everything(client: httpx.AsyncClient, asked: str) -> None:
    await put(client, b"abc")
    shown = await get(client, {"range": asked})
    assert (shown.status_code, shown.content) == (200, b"abc")


async def test_a_range_goes_on_only_with_the_same_bytes(client: httpx.AsyncClient) -> None:
    await put(client, b"abc")
    tag = (await get(client)).headers["etag"]
    for condition, status, content in (
        (tag, 206, b"b"), ('"other"', 200, b"abc"), (f"W/{tag}", 200, b"abc"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 200, b"abc"),
    ):  # fmt: skip
        shown = await get(client, {"range": "bytes=1-1", "if-range": condition})
        assert (shown.status_code, shown.content) == (status, content), condition


async def test_who_has_it_already_is_sent_nothing(client: httpx.AsyncClient) -> None:
    await put(client, b"abc")
    tag = (await get(client)).headers["etag"]
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        for method in ("GET", "HEAD"):
            held = await get(client, {"if-none-match": given}, method)
            assert (held.status_code, held.content, held.headers["etag"]) == (304, b"", tag)
    assert (await get(client, {"if-none-match": '"x"'})).content == b"abc"


@pytest.mark.parametrize("size", [0, 3, 2 * MIB + 1])
async def test_head_says_what_get_would(client: httpx.AsyncClient, size: int) -> None:
    await put(client, sample(size))
    got, head = await get(client), await get(client, {"range": "bytes=0-0"}, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    for answer in (got, head):
        del answer.headers["x-request-id"]
    assert head.headers == got.headers
