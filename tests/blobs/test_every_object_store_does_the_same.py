"""One suite for the folder and the bucket."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.blobs.blobs import BlobMissing, Blobs
from app.blobs.objects import CHUNK_BYTES, READ_BYTES
from app.errors import Unavailable
from app.main import blobs_of
from app.settings import Settings
from tests.conftest import settings_for

MIB = 1024 * 1024
LARGE = 2 * CHUNK_BYTES + 5
NAME = "ab" * 32


def sample(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def parts_of(content: bytes, cut_at: int | None = None) -> AsyncIterator[bytes]:
    for start in range(0, len(content), MIB):
        if cut_at is not None and start >= cut_at:
            raise ConnectionResetError("the sender is gone")
        yield content[start : start + MIB]


async def read(blobs: Blobs, start: int, end: int, name: str = NAME) -> bytes:
    return b"".join([piece async for piece in blobs.open("t", name, start, end)])


@pytest.mark.parametrize("size", [0, 1, MIB, CHUNK_BYTES, LARGE])
async def test_the_bytes_come_back(blobs: Blobs, size: int) -> None:
    content = sample(size)
    await blobs.put("t", NAME, parts_of(content))
    assert await read(blobs, 0, size) == content
    assert await blobs.size("t", NAME) == size
    for start, end in ((size // 3, size // 2), (max(0, size - 7), size), (0, min(size, READ_BYTES + 1))):
        assert await read(blobs, start, end) == content[start:end]


async def test_what_is_not_there_is_said(blobs: Blobs) -> None:
    await blobs.put("t", NAME, parts_of(b"x"))
    for tenant, name in (("t", "cd" * 32), ("u", NAME)):
        assert await blobs.size(tenant, name) is None
        with pytest.raises(BlobMissing):
            await anext(aiter(blobs.open(tenant, name, 0, 1)))
        await blobs.delete(tenant, name)
    await blobs.delete("t", NAME)
    assert await blobs.size("t", NAME) is None


@pytest.mark.parametrize("cut_at", [0, MIB, CHUNK_BYTES, LARGE - 5])
async def test_b39_a_writer_that_is_cut_leaves_nothing_to_read(blobs: Blobs, cut_at: int) -> None:
    with pytest.raises(Unavailable):
        await blobs.put("t", NAME, parts_of(sample(LARGE), cut_at))
    assert await blobs.size("t", NAME) is None
    assert [found async for found in blobs.names()] == []


async def test_a_writer_that_is_cancelled_leaves_nothing_to_read(blobs: Blobs) -> None:
    waiting = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        async for part in parts_of(sample(LARGE)):
            yield part
        waiting.set()
        await asyncio.Event().wait()

    writing = asyncio.create_task(blobs.put("t", NAME, parts()))
    await waiting.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await blobs.size("t", NAME) is None
    await blobs.put("t", NAME, parts_of(b"again"))
    assert await read(blobs, 0, 5) == b"again"


async def test_many_write_one_object_while_it_is_read(blobs: Blobs, another: Callable[[], Blobs]) -> None:
    content, other = sample(LARGE), another()
    await blobs.put("t", NAME, parts_of(content))
    writing = [asyncio.create_task(side.put("t", NAME, parts_of(content))) for side in (blobs, other) * 3]
    while not all(task.done() for task in writing):
        assert await read(other, 3, LARGE) == content[3:]
    await asyncio.gather(*writing)
    assert [found.name async for found in blobs.names()] == [NAME]


async def test_all_that_is_there_is_listed(blobs: Blobs) -> None:
    names = {("t", NAME), ("t", f"{NAME}.2"), ("u-1_", NAME)}
    for tenant, name in names:
        await blobs.put(tenant, name, parts_of(b"abc"))
    found = [one async for one in blobs.names()]
    assert {(one.tenant_id, one.name) for one in found} == names
    for one in found:
        assert (one.size_bytes, one.unfinished) == (3, False)
        assert abs(datetime.now(UTC) - one.modified_at) < timedelta(minutes=1)


async def test_it_says_that_it_is_well(blobs: Blobs, settings: Settings) -> None:
    assert await blobs.check(5) == ("folder" if settings.blobs.bucket is None else "bucket")


@pytest.mark.parametrize("kind", ["folder", "bucket that is not there", "bucket of nobody"])
async def test_a_store_that_is_away_is_unavailable(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    (tmp_path / "file").write_bytes(b"")
    where: dict[str, object] = {"folder": tmp_path / "file" / "objects"}
    if kind != "folder":
        bucket = request.getfixturevalue("bucket")
        where = bucket | {"bucket": "absent"} if "there" in kind else bucket | {"endpoint": "http://127.0.0.1:1"}
    blobs = blobs_of(settings_for("postgresql://127.0.0.1:1/none", blobs=where | {"wait_seconds": 1}))
    for call in (blobs.put("t", NAME, parts_of(b"x")), blobs.check(2)):
        with pytest.raises(Unavailable) as refused:
            await call
        assert "CAIRN_BLOBS__" in refused.value.detail
        assert str(tmp_path) not in refused.value.detail


async def test_what_a_tenant_has_is_listed_by_itself(blobs: Blobs) -> None:
    for tenant in ("t", "t-2", "u"):
        await blobs.put(tenant, NAME, parts_of(b"abc"))
    assert [(one.tenant_id, one.name) async for one in blobs.names("t")] == [("t", NAME)]
    await blobs.leave("t")
    assert await blobs.size("t", NAME) == 3
    await blobs.delete("t", NAME)
    await blobs.leave("t")
    await blobs.leave("t")
    assert sorted([one.tenant_id async for one in blobs.names()]) == ["t-2", "u"]
