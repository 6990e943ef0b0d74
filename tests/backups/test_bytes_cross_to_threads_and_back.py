"""Bytes that arrive on the event loop are read in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.backups.crossing import Pulled, in_thread
from app.backups.reading import Reader
from app.errors import Unavailable
from tests.backups.files import LINE_BYTES_MAX, SAMPLE, pieces_of, written


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def broken() -> AsyncIterator[bytes]:
    yield b"first"
    raise Unavailable("The store is away.")


async def test_a_file_is_read_as_its_parts_arrive() -> None:
    file = written(SAMPLE)
    source = Pulled(parts_of(*(file[at : at + 7] for at in range(0, len(file), 7))))
    pieces = [piece async for piece in in_thread(Reader(source, LINE_BYTES_MAX).pieces, source)]

    assert pieces == pieces_of(file)


async def test_what_the_parts_raise_reaches_the_reader() -> None:
    source = Pulled(broken())
    with pytest.raises(Unavailable):
        await anext(in_thread(Reader(source, LINE_BYTES_MAX).pieces, source))


async def test_a_reader_that_is_cancelled_leaves_no_thread_behind() -> None:
    waited, cut = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        waited.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        yield b""

    source = Pulled(endless())

    async def read() -> None:
        async for _ in in_thread(Reader(source, LINE_BYTES_MAX).pieces, source):
            pass

    reading = asyncio.ensure_future(read())
    await waited.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    assert cut.is_set()
