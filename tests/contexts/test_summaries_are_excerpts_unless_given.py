"""A summary that nobody gave is made of the bytes, the same for the same bytes, and always text."""

from __future__ import annotations

import httpx
import pytest

from app.contexts.excerpt import EXCERPT_BYTES_MAX, LOOKED_AT_BYTES, excerpt_of
from tests.contexts.contexts import put

LONG = "x" * 300


@pytest.mark.parametrize(
    ("data", "kind", "excerpt"),
    [
        (b"", "text/plain", ""),
        (b"short", "application/octet-stream", "short"),
        ("ü".encode() * 100, "text/plain", "ü" * 100),
        (b"a" * 201, "text/plain", "a" * 197 + "…"),
        # 66 characters of three bytes are 198, which with the mark is too much.
        ("€".encode() * 80, "text/plain", "€" * 65 + "…"),
        (b"a" + "€".encode() * 80, "text/plain", "a" + "€" * 65 + "…"),
        ("😀".encode() * 60, "text/plain", "😀" * 49 + "…"),
        (b"\xff\xfe", "text/plain", "binary (2 bytes)"),
        (b"a\x00b", "text/plain", "binary (3 bytes)"),
        (b"\xe2\x82", "text/plain", "binary (2 bytes)"),
        (b"\x1b[31mred\x07\r\n\tline", "text/plain", "\ufffd[31mred\ufffd\r\n\tline"),
        ("a\u202eb".encode(), "text/plain", "a\ufffdb"),
        (b'{"a":1}', "application/json", '{"a":1}'),
        (f'{{"a":"{LONG}"}}'.encode(), "application/json", "object of 1: a (308 bytes)"),
        (f'{{"a":1,"b":2,"c":3,"d":"{LONG}"}}'.encode(), "application/ld+json; charset=utf-8",
         "object of 4: a, b, c, … (326 bytes)"),
        (f'{{"\\u0000\\u001b":"{LONG}"}}'.encode(), "application/json", "object of 1: \ufffd\ufffd (319 bytes)"),
        (f'{{"{LONG}":1}}'.encode(), "application/json", f"object of 1: {'x' * 37}… (306 bytes)"),
        (f'[1,"{LONG}",[]]'.encode(), "application/json", "array of 3 (309 bytes)"),
        (f'"{LONG}"'.encode(), "application/json", '"' + "x" * 196 + "…"),
        (f'{{"a":"{LONG}'.encode(), "application/json", '{"a":"' + "x" * 191 + "…"),
        (f'{{"a":"{LONG}"}}'.encode(), "text/plain", '{"a":"' + "x" * 191 + "…"),
        (f'{{"\\ud800":"{LONG}"}}'.encode(), "application/json", '{"\\ud800":"' + "x" * 186 + "…"),
        (b"[" * 100_000, "application/json", "[" * 197 + "…"),
    ],
)  # fmt: skip
def test_an_excerpt_says_what_the_data_is(data: bytes, kind: str, excerpt: str) -> None:
    assert excerpt_of(data, len(data), kind) == excerpt
    assert len(excerpt.encode()) <= EXCERPT_BYTES_MAX


@pytest.mark.parametrize("cut", range(1, 5))
def test_the_start_of_large_text_may_end_within_a_character(cut: int) -> None:
    text = ("a" * cut + "😀" * LOOKED_AT_BYTES).encode()
    assert excerpt_of(text[:LOOKED_AT_BYTES], len(text), "text/plain").startswith("a" * cut + "😀")
    broken = text[: LOOKED_AT_BYTES - 8] + b"\xff" * 8
    assert excerpt_of(broken, len(text), "text/plain") == f"binary ({len(text)} bytes)"


async def test_a_text_column_takes_every_excerpt(client: httpx.AsyncClient) -> None:
    for number, data in enumerate((b"\x00", bytes(range(1, 128)), b'{"\\u0000":' + b'"x"' * 1 + b"}" + b" " * 300)):
        stored = await put(client, f"k{number}", data, "application/json")
        assert stored.status_code == 201, stored.text
        assert "\x00" not in stored.json()["summary"]


async def test_a_summary_that_is_given_is_kept_and_an_empty_one_is_given_too(client: httpx.AsyncClient) -> None:
    for summary in ("Was ist das?\n\t\x1b", "", "ü" * 1024):
        shown = (await put(client, summary=summary)).json()
        assert (shown["summary"], shown["summary_given"]) == (summary, True)
