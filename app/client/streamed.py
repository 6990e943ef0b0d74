"""Bytes of any size, sent and taken in pieces: what breaks is tried again, a download from where it broke."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import httpx

from app.client.call import Call
from app.client.download import Wanted
from app.client.reply import Reply
from app.client.retry import Outcome, Retry
from app.client.transport import AsyncTransport, SyncTransport, conclude

T = TypeVar("T")
CHUNK_BYTES = 256 * 1024
RAW = "application/octet-stream"


@dataclass(frozen=True)
class Source:
    """A file that can be read again, from where it stood."""

    file: BinaryIO
    began: int
    size: int
    digest: str

    @classmethod
    def of(cls, file: BinaryIO) -> Source:
        """Measure a file from where it stands."""
        began, size, digest = file.tell(), 0, hashlib.sha256()
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            digest.update(chunk)
        return cls(file, began, size, digest.hexdigest())

    def chunks(self) -> Iterator[bytes]:
        """The bytes that were measured."""
        self.file.seek(self.began)
        while chunk := self.file.read(CHUNK_BYTES):
            yield chunk

    async def chunks_as_they_come(self) -> AsyncIterator[bytes]:
        """The same, read beside the event loop."""
        await asyncio.to_thread(self.file.seek, self.began)
        while chunk := await asyncio.to_thread(self.file.read, CHUNK_BYTES):
            yield chunk


def upload(mode: SyncTransport, call: Call[T], source: Source) -> T:
    """Send what is in a file; all tries carry one Idempotency-Key, unless the call may be repeated without."""
    headers = {**mode.manner.headers_of(call), **raw(source.size, call.content_type)}
    for attempt in itertools.count(1):
        try:
            with mode.opened(call, headers, source.chunks()) as response:
                outcome: Outcome = Reply(response.status_code, response.headers, response.read())
        except httpx.TransportError as error:
            outcome = error
        pause = mode.manner.retry.pause_seconds(attempt, outcome)
        if pause is None:
            return conclude(call, outcome)
        time.sleep(pause)
    raise AssertionError("a retry is bounded")


async def upload_async(
    mode: AsyncTransport, call: Call[T], content: Callable[[], AsyncIterable[bytes]], size: int, retry: Retry
) -> T:
    """The same for the event loop; `content` gives the bytes, from the start each time."""
    headers = {**mode.manner.headers_of(call), **raw(size, call.content_type)}
    for attempt in itertools.count(1):
        try:
            async with mode.opened(call, headers, content()) as response:
                outcome: Outcome = Reply(response.status_code, response.headers, await response.aread())
        except httpx.TransportError as error:
            outcome = error
        pause = retry.pause_seconds(attempt, outcome)
        if pause is None:
            return conclude(call, outcome)
        await asyncio.sleep(pause)
    raise AssertionError("a retry is bounded")


def download(mode: SyncTransport, call: Call[Any], wanted: Wanted) -> Iterator[bytes]:
    """What is wanted, in pieces; a connection that breaks is taken up behind what came."""
    failures = 0
    while not wanted.is_complete:
        try:
            with mode.opened(call, wanted.headers()) as response:
                if response.is_success:
                    wanted.check(response)
                    for piece in response.iter_raw():
                        failures = 0
                        wanted.start += len(piece)
                        yield piece
                    return
                outcome: Outcome = Reply(response.status_code, response.headers, response.read())
        except httpx.TransportError as error:
            outcome = error
        failures += 1
        pause = mode.manner.retry.pause_seconds(failures, outcome)
        if pause is None:
            conclude(call, outcome)
            return
        time.sleep(pause)


async def download_async(mode: AsyncTransport, call: Call[Any], wanted: Wanted) -> AsyncIterator[bytes]:
    """The same for the event loop."""
    failures = 0
    while not wanted.is_complete:
        try:
            async with mode.opened(call, wanted.headers()) as response:
                if response.is_success:
                    wanted.check(response)
                    async for piece in response.aiter_raw():
                        failures = 0
                        wanted.start += len(piece)
                        yield piece
                    return
                outcome: Outcome = Reply(response.status_code, response.headers, await response.aread())
        except httpx.TransportError as error:
            outcome = error
        failures += 1
        pause = mode.manner.retry.pause_seconds(failures, outcome)
        if pause is None:
            conclude(call, outcome)
            return
        await asyncio.sleep(pause)


def raw(size: int, content_type: str = RAW) -> dict[str, str]:
    """The headers of raw bytes."""
    return {"Content-Type": content_type, "Content-Length": str(size)}
