"""B33: an attempt ends at its deadline whatever the endpoint does, and every way to fail is an outcome in words."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import pytest

from app.webhooks.sender import Message, Outcome
from tests.webhooks.raw_endpoint import BODY, OK, SECRET, Answer, answering, message, sending

SECONDS = 0.4
LATE = "No whole answer within 0.4 seconds."
NOT_HTTP = "What the endpoint answered is not HTTP, or has too large a head."
CLOSED = "The endpoint closed the connection without an answer."
CANNOT = "The headers or the secret of the webhook cannot be sent."


def dripping(first: bytes, drop: bytes) -> Answer:
    """Writes something, and then for ever a little more."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.02)

    return drip


def once(text: bytes) -> Answer:
    """Writes something and closes the connection."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return write


async def attempt(answer: Answer, **settings: float) -> Outcome:
    async with answering(answer) as receiver, sending(**{"attempt_seconds": SECONDS, **settings}) as sender:
        return await sender.send(message(receiver.url()))


@pytest.mark.parametrize(
    ("first", "drop", "status"),
    [
        (b"", b"", None),
        (b"HTTP/1.1 200 ", b"O", None),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y", None),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x", 200),
        (b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n", b"x", 500),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0", 200),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this", b"", 200),
    ],
)
async def test_an_endpoint_that_hangs_or_drips_ends_at_the_deadline(
    first: bytes, drop: bytes, status: int | None
) -> None:
    begun = time.monotonic()
    outcome = await attempt(dripping(first, drop))
    assert time.monotonic() - begun < SECONDS + 5
    assert outcome.duration_ms > SECONDS * 900
    error = {None: LATE, 200: None, 500: "The endpoint answered 500."}[status]
    assert (outcome.status_code, outcome.error) == (status, error)
    assert (outcome.response is None) == (status is None)


async def test_the_deadline_counts_from_the_look_up_of_the_name() -> None:
    async def hanging(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with sending(lookup=hanging, attempt_seconds=SECONDS) as sender:
        outcome = await sender.send(message("https://hook.example/"))
    assert (outcome.status_code, outcome.error, outcome.response) == (None, LATE, None)


async def test_the_deadline_counts_while_tls_is_agreed_on() -> None:
    async with answering(dripping(b"", b"")) as receiver, sending(attempt_seconds=SECONDS) as sender:
        outcome = await sender.send(message(receiver.url(scheme="https")))
    assert outcome.error == LATE


async def test_the_deadline_counts_while_the_endpoint_does_not_read() -> None:
    # Held here: a task that only waits for what nobody else knows is collected, and its connection with it.
    never = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await never.wait()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    port = server.sockets[0].getsockname()[1]
    async with sending(attempt_seconds=SECONDS) as sender:
        outcome = await sender.send(message(f"http://127.0.0.1:{port}/", b"x" * 50_000_000))
        assert (outcome.status_code, outcome.error) == (None, LATE)
    server.close()


async def test_many_that_hang_do_not_hold_up_one_that_answers() -> None:
    async with answering(dripping(b"", b"")) as hung, answering() as well, sending(attempt_seconds=30) as sender:
        hanging = [asyncio.create_task(sender.send(message(hung.url()))) for _ in range(300)]
        await asyncio.wait(hanging, timeout=0.3)
        outcome = await sender.send(message(well.url()))
        for task in hanging:
            task.cancel()
        ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert outcome.status_code == 200
    assert outcome.duration_ms < 5000
    assert {type(one) for one in ended} == {asyncio.CancelledError}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", CLOSED),
        (b"HTTP/1.1 200 OK\r\nContent-Le", CLOSED),
        (b"SSH-2.0-OpenSSH_9.6\r\n", NOT_HTTP),
        (b"<html>hello</html>", NOT_HTTP),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", NOT_HTTP),
        (b"HTTP/1.1 abc OK\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 99999 OK\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense", NOT_HTTP),
        (b"HTTP/2 preface\r\n\r\n", NOT_HTTP),
    ],
)
async def test_what_is_no_answer_is_a_failure_in_words(answer: bytes, error: str) -> None:
    outcome = await attempt(once(answer), attempt_seconds=5)
    assert (outcome.status_code, outcome.error, outcome.response) == (None, error, None)


@pytest.mark.parametrize(
    ("answer", "status", "response"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n", 204, ""),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200, "old"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut short", 200, "cut short"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK, 200, "ok"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 101, ""),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, ""),
        (b"HTTP/1.1 599 What\r\nContent-Length: 1\r\n\r\nx", 599, "x"),
        (OK + OK, 200, "ok"),
    ],
)
async def test_the_status_decides_whatever_becomes_of_the_body(answer: bytes, status: int, response: str) -> None:
    outcome = await attempt(once(answer), attempt_seconds=5)
    error = None if status < 300 and status >= 200 else f"The endpoint answered {status}."
    assert (outcome.status_code, outcome.error, outcome.response) == (status, error, response)


async def test_an_answer_that_comes_before_the_body_has_been_read_decides() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngone")
        await writer.drain()
        await reader.read()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024)
    async with sending() as sender:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        outcome = await sender.send(message(url, b"x" * 20_000_000))
    server.close()
    assert (outcome.status_code, outcome.response) == (410, "gone")


async def test_a_name_without_an_address_is_a_failure_in_words() -> None:
    async def nothing(_host: str, _port: int) -> Sequence[str]:
        return []

    async with sending(lookup=nothing) as sender:
        outcome = await sender.send(message("https://hook.example/"))
    assert outcome.error == "The name of the host was not found."


async def test_retry_after_is_told_with_whatever_status() -> None:
    for status in (200, 301, 429, 503):
        head = f"HTTP/1.1 {status} X\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"
        assert (await attempt(head.encode(), attempt_seconds=5)).retry_after_seconds == 120


async def test_a_kept_connection_that_the_endpoint_closed_meanwhile_costs_no_attempt() -> None:
    # It answers on the connection and closes it when the next request comes, as a server does that was idle too long.
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for text in (OK, b""):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(BODY))
            assert head
            writer.write(text)
        writer.close()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    async with sending() as sender:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        outcomes = [await sender.send(message(url)) for _ in range(6)]
    server.close()
    assert [outcome.status_code for outcome in outcomes] == [200] * 6


async def test_a_new_connection_that_is_closed_is_tried_once() -> None:
    async with answering(once(b"")) as receiver, sending() as sender:
        assert (await sender.send(message(receiver.url()))).error == CLOSED
    assert receiver.connections == 1


@pytest.mark.parametrize("headers", [{"x": "a\r\nHost: inner"}, {"x": "a\nb"}, {"x": "a\x00b"}, {"x\r\ny": "1"}])
async def test_headers_that_were_never_checked_still_inject_nothing(headers: dict[str, str]) -> None:
    async with answering() as receiver, sending() as sender:
        outcome = await sender.send(Message(receiver.url(), "dlv_1", BODY, (SECRET,), headers))
    assert outcome.status_code is None
    assert outcome.error == CANNOT
    assert receiver.arrived == []


async def test_a_damaged_secret_is_a_failure_in_words() -> None:
    async with answering() as receiver, sending() as sender:
        outcome = await sender.send(message(receiver.url(), secrets=("whsec_no",)))
    assert (outcome.error, receiver.connections) == (CANNOT, 0)


async def test_cancelling_an_attempt_ends_its_connection() -> None:
    gone = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with sending() as sender:
        sent = asyncio.create_task(sender.send(message(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")))
        await asyncio.wait([sent], timeout=0.2)
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent
        await asyncio.wait_for(gone.wait(), 5)
    server.close()
