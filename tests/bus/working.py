"""Streams of the tests: of each kind, on a server with a prefix of their own, and what is taken from them."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats

from app.bus.declared import Declared, declared
from app.bus.jetstream import JetStreams
from app.bus.tolerant_work import TolerantStreams
from app.bus.work import EmbeddedStreams, Stream, Streams, Taken, Work
from app.embedded import Servers, start_servers
from app.settings import NatsSettings
from tests.waiting import BOUND_SECONDS

KINDS = ("embedded", "jetstream", "tolerant")
AGAIN_SECONDS = 1.0
MIB = 1024 * 1024


def nats_server(folder: Path, port: int) -> Servers:
    """A server of its own, found again by the next start."""
    return start_servers(folder, postgres=False, redis=False, fast=True, ports={"nats": port})


def named(prefix: str | None = None, **more: Any) -> NatsSettings:
    """Settings of streams that no other test has, small enough for many of them on one disk."""
    return NatsSettings(stream_prefix=prefix or f"t{uuid.uuid4().hex}", **{"stream_bytes_max": 16 * MIB, **more})


def of(settings: NatsSettings, again_seconds: float = AGAIN_SECONDS) -> dict[Stream, Declared]:
    """Their declarations."""
    return declared(settings, again_seconds)


def made(kind: str, url: str, settings: NatsSettings, again_seconds: float = AGAIN_SECONDS) -> Streams:
    """The streams of one process."""
    embedded = EmbeddedStreams(again_seconds)
    if kind == "embedded":
        return embedded
    if kind == "jetstream":
        return JetStreams(url, of(settings, again_seconds))
    return TolerantStreams(lambda: JetStreams(url, of(settings, again_seconds)), embedded)


@asynccontextmanager
async def opened(
    kind: str, url: str, settings: NatsSettings | None = None, again_seconds: float = AGAIN_SECONDS
) -> AsyncIterator[tuple[Streams, Streams]]:
    """The streams of two processes; where they are embedded it is one process."""
    chosen = settings or named()
    async with AsyncExitStack() as stack:
        first = made(kind, url, chosen, again_seconds)
        second = first if kind == "embedded" else made(kind, url, chosen, again_seconds)
        for streams in {id(first): first, id(second): second}.values():
            stack.push_async_callback(streams.close)
            await streams.open()
        yield first, second
        if kind != "embedded":
            await forget(url, chosen)


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[Any]:
    """Somebody else's client of the server."""
    client = await nats.connect(url)
    try:
        yield client
    finally:
        await client.close()


async def told(client: Any, what: str, body: Any = None) -> Any:
    """What JetStream answers somebody else."""
    answer = json.loads((await client.request(f"$JS.API.{what}", json.dumps(body or {}).encode(), timeout=5)).data)
    assert "error" not in answer, answer["error"]
    return answer


async def forget(url: str, settings: NatsSettings) -> None:
    """Delete the streams, for the disk's sake."""
    async with asking(url) as client:
        for one in of(settings).values():
            await client.request(f"$JS.API.STREAM.DELETE.{one.name}", timeout=5)


def works(count: int, first: int = 0) -> list[Work]:
    """Messages that tell their place."""
    return [Work(f"w{place}", str(place).encode()) for place in range(first, first + count)]


async def taken(streams: Streams, count: int, *, done: bool = True, seconds: float = BOUND_SECONDS) -> list[bytes]:
    """Take until there are so many bodies, and say of each at once that it is done; fails after a bound."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        # Not only at the end: on a busy machine the first would have come again by then.
        for message in await taken_messages(streams, 1, most=count - len(bodies), seconds=seconds):
            bodies.append(message.body)
            if done:
                await message.done()
    return bodies


async def taken_messages(
    streams: Streams, count: int, *, most: int | None = None, seconds: float = BOUND_SECONDS
) -> list[Taken]:
    """Take at least so many messages and at most `most`, else so many, and nothing is said of them."""
    found: list[Taken] = []
    while len(found) < count:
        some = await streams.take(Stream.QUEUED, (most or count) - len(found), seconds)
        assert some, f"{len(found)} of {count} came"
        found.extend(some)
    return found


async def nothing_more(streams: Streams) -> bool:
    """Whether nothing comes within a moment."""
    return not await streams.take(Stream.QUEUED, 10, 0.2)


def numbers(bodies: Sequence[bytes]) -> list[int]:
    """The places that bodies tell."""
    return [int(body) for body in bodies]
