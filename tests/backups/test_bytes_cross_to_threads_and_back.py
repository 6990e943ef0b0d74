"""Bytes that arrive on the event loop are read in threads, and encrypted as they pass."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import pyrage
import pytest

from app.backups.crossing import Pulled, Tallied, encrypted, in_thread
from app.backups.reading import Reader
from app.errors import InvalidInput, Unavailable
from tests.backups.files import LINE_BYTES_MAX, SAMPLE, end_of, pieces_of, written


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def broken() -> AsyncIterator[bytes]:
    yield b"first"
    raise Unavailable("The store is away.")


async def gathered(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


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


async def test_whoever_has_an_identity_reads_what_was_encrypted() -> None:
    mine, theirs, strange = (pyrage.x25519.Identity.generate() for _ in range(3))
    content = bytes(range(256)) * 20_000
    tallied = Tallied(encrypted(parts_of(*(content[at : at + 100_000] for at in range(0, len(content), 100_000))),
                                [str(mine.to_public()), str(theirs.to_public())]))  # fmt: skip
    sealed = await gathered(aiter(tallied))

    assert tallied.size_bytes == len(sealed)
    for identity in (mine, theirs):
        opened = io.BytesIO()
        pyrage.decrypt_io(io.BytesIO(sealed), opened, [identity])
        assert opened.getvalue() == content
    with pytest.raises(pyrage.DecryptError):
        pyrage.decrypt(sealed, [strange])


async def test_what_cannot_be_read_is_not_encrypted_as_if_it_were_whole() -> None:
    key = str(pyrage.x25519.Identity.generate().to_public())
    with pytest.raises(Unavailable):
        await gathered(encrypted(broken(), [key]))


async def test_encryption_that_is_given_up_ends() -> None:
    key = str(pyrage.x25519.Identity.generate().to_public())

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000_000)

    encrypting = encrypted(endless(), [key])
    await anext(encrypting)
    await encrypting.aclose()  # type: ignore[attr-defined]


async def test_a_key_that_is_none_is_named() -> None:
    with pytest.raises(InvalidInput) as refusal:
        await gathered(encrypted(parts_of(b"x"), [str(pyrage.x25519.Identity.generate().to_public()), "age1nothing"]))

    assert refusal.value.facts["errors"][0]["pointer"] == "/recipients/1"


async def test_a_file_may_be_encrypted_as_it_is_written() -> None:
    identity = pyrage.x25519.Identity.generate()
    sealed = await gathered(encrypted(parts_of(written(SAMPLE)), [str(identity.to_public())]))

    assert end_of(pieces_of(pyrage.decrypt(sealed, [identity]))).manifest.rows == 9
