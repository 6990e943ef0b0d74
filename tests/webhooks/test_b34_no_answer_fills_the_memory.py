"""B34: whatever an endpoint answers, memory stays flat, the status decides, and the log gets text it can store."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from app.embedded import Servers
from app.webhooks.answers import OPAQUE
from tests.webhooks.raw_endpoint import answering, message, sending

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
# At once, as from a worker.
MANY = 20
NOT_HTTP = "What the endpoint answered is not HTTP, or has too large a head."


@pytest.fixture(scope="module")
def flood() -> Iterator[str]:
    """The URL of an endpoint that runs as a process of its own, so that its memory is not ours."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.webhooks.flood"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("path", ["plain", "zeros", "chunked", "silent", "trailers", "extension"])
async def test_an_endless_body_is_cut_and_the_status_decides(flood: str, path: str) -> None:
    async with sending(attempt_seconds=10) as sender:
        outcome, memory_bytes = await _cost(sender.send(message(f"{flood}/{path}")) for _ in range(MANY))
    assert {(one.status_code, one.error) for one in outcome} == {(200, None)}
    assert all(len(one.response or "") <= 16_384 for one in outcome)
    assert memory_bytes < MANY * MIB


@pytest.mark.parametrize("path", ["head", "line", "status", "informed"])
async def test_an_endless_head_is_a_failure_in_words(flood: str, path: str) -> None:
    async with sending(attempt_seconds=10) as sender:
        outcome, memory_bytes = await _cost(sender.send(message(f"{flood}/{path}")) for _ in range(MANY))
    assert {(one.status_code, one.error) for one in outcome} == {(None, NOT_HTTP)}
    assert memory_bytes < MANY * MIB


@pytest.fixture(scope="module")
async def postgres(servers: Servers) -> AsyncIterator[asyncpg.Connection]:
    """Where the text must be storable."""
    connection = await asyncpg.connect(servers.postgres_url)
    yield connection
    await connection.close()


def answer(body: bytes, *headers: str, status: int = 200) -> bytes:
    """An answer as an endpoint writes it."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def deflated(body: bytes, wbits: int) -> bytes:
    packing = zlib.compressobj(wbits=wbits)
    return packing.compress(body) + packing.flush()


TEXT = "It is done: 你好. " * 3000
CHUNKS = b"2\r\ndo\r\n2;a=b\r\nne\r\n0\r\nX: y\r\n\r\n"
BEGINNING = TEXT.encode()[:16_384].decode(errors="replace")
TEXTS = {
    "text": (answer(b"done"), "done"),
    "nothing": (answer(b""), ""),
    "the most that is kept": (answer(b"x" * 16_384), "x" * 16_384),
    "one byte more": (answer(b"x" * 16_385), "x" * 16_384),
    "gzip": (answer(gzip.compress(TEXT.encode()), "Content-Encoding: gzip"), BEGINNING),
    "GZIP": (answer(gzip.compress(b"done"), "content-encoding:  GZIP "), "done"),
    "zlib": (answer(deflated(b"done", 15), "Content-Encoding: deflate"), "done"),
    "bare deflate": (answer(deflated(b"done", -15), "Content-Encoding: deflate"), "done"),
    "identity": (answer(b"done", "Content-Encoding: identity"), "done"),
    "two members": (answer(gzip.compress(b"one") + gzip.compress(b"two"), "Content-Encoding: gzip"), "one"),
    "gzip cut short": (answer(gzip.compress(TEXT.encode())[:60], "Content-Encoding: gzip"), None),
    "no gzip": (answer(b"done", "Content-Encoding: gzip"), ""),
    "brotli": (answer(b"\x0b\x02\x80done\x03", "Content-Encoding: br"), OPAQUE),
    "two encodings": (answer(b"done", "Content-Encoding: gzip, br"), OPAQUE),
    "no UTF-8": (answer(b"a\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80b"), "a���(" + "�" * 7 + "b"),
    "NUL and controls": (answer(b"a\x00b\x1b[31mc\x07\r\nd\te\x7f\xc2\x9b"), "a�b�[31mc��\nd\te��"),
    "turned text": (answer("a\u202eb\u2028c\ufeff".encode()), "a�b�c�"),
    "a character cut in two": (answer(b"x" * 16_383 + "你".encode()), "x" * 16_383 + "�"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS, "done"),
    "64 kB of headers": (answer(b"done", *(f"X-{number}: {'y' * 1016}" for number in range(64))), "done"),
    "one header of 64 kB": (answer(b"done", "X: " + "y" * 65_536), "done"),
    "a header that is no text": (answer(b"done", "X: \x01 é \t"), "done"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_is_kept_as_text_and_its_status_decides(
    kind: str, status: int, postgres: asyncpg.Connection
) -> None:
    sent, expected = TEXTS[kind]
    async with answering(sent.replace(b" 200 ", b" %d " % status, 1)) as receiver, sending() as sender:
        outcome = await sender.send(message(receiver.url()))
    error = None if status == 200 else "The endpoint answered 500."
    assert (outcome.status_code, outcome.error) == (status, error)
    assert outcome.response is not None
    assert expected is None or outcome.response == expected
    assert await postgres.fetchval("SELECT $1::text", outcome.response) == outcome.response


async def test_a_kept_connection_is_used_again_and_one_that_was_cut_is_not() -> None:
    for size, connections in ((16_384, 1), (1_000_000, 3)):
        async with answering(answer(b"x" * size)) as receiver, sending() as sender:
            for _ in range(3):
                assert (await sender.send(message(receiver.url()))).status_code == 200
        assert receiver.connections == connections


async def test_nothing_is_kept_where_the_operator_wants_nothing() -> None:
    async with answering(answer(b"done")) as receiver, sending(response_bytes_max=0) as sender:
        outcome = await sender.send(message(receiver.url()))
    assert (outcome.status_code, outcome.response) == (200, "")


async def _cost(attempts):  # type: ignore[no-untyped-def]
    """What the attempts gave, and by how much they raised this process's memory at its peak."""
    process = psutil.Process()
    before = process.memory_info().rss
    tracemalloc.start()
    try:
        outcomes = await asyncio.gather(*attempts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return outcomes, max(peak, process.memory_info().rss - before)
