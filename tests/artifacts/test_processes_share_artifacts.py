"""API processes on one folder: bounded memory both ways, one blob of many uploads, and nothing left of one killed."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import psutil

from tests.api_process import ApiProcess, of, serving, two_processes
from tests.artifacts.artifacts import MIB, hash_of, sample, store
from tests.waiting import until

PIECE = sample(MIB)
# A large artifact, and what it may cost a process: it costs this however large it is, as the benchmark shows.
LARGE_MIB, EXTRA_MIB_MAX = 128, 64
GRACE_SECONDS, COLLECT_SECONDS = 3, 0.2


async def pieces(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield number.to_bytes(4) + PIECE[4:]


async def digest_of(count: int) -> str:
    found = hashlib.sha256()
    async for piece in pieces(count):
        found.update(piece)
    return found.hexdigest()


class Memory:
    """The most memory that a process had while the block ran, in MiB beyond what it had before."""

    def __init__(self, process: ApiProcess) -> None:
        self.process = psutil.Process(process.process.pid)

    async def __aenter__(self) -> Memory:
        self.before = self.most = self.process.memory_info().rss
        self.watching = asyncio.create_task(self.watch())
        return self

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self.process.memory_info().rss)
            await asyncio.sleep(0.005)

    async def __aexit__(self, *_error: object) -> None:
        self.watching.cancel()
        self.extra_mib = (self.most - self.before) / MIB


async def downloaded(client: httpx.AsyncClient, name: str) -> str:
    found = hashlib.sha256()
    async with client.stream("GET", f"/v1/artifacts/{name}") as answer:
        async for piece in answer.aiter_bytes():
            found.update(piece)
    return found.hexdigest()


async def test_two_processes_share_a_folder_in_bounded_memory(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    async with two_processes(await clone(), blobs__folder=tmp_path) as (first, second, one, two):
        small = sample(3 * MIB)
        sides = (one, two) * 32
        replies = await asyncio.gather(*(store(client, small) for client in sides))
        assert sorted(reply.status_code for reply in replies) == [200] * 63 + [201]
        assert [file.name for file in (tmp_path / "acme").iterdir()] == [hash_of(small)]
        for client in (one, two):
            assert (await client.get(f"/v1/artifacts/{hash_of(small)}")).content == small

        large = await digest_of(LARGE_MIB)
        async with Memory(first) as sending:
            sent = await one.post("/v1/artifacts", content=pieces(LARGE_MIB))
        assert (sent.status_code, sent.json()["hash"]) == (201, large)
        async with Memory(second) as reading:
            assert await downloaded(two, large) == large
        assert (sending.extra_mib < EXTRA_MIB_MAX, reading.extra_mib < EXTRA_MIB_MAX) == (True, True), (
            sending.extra_mib, reading.extra_mib,
        )  # fmt: skip


async def test_an_upload_that_was_killed_leaves_nothing_and_the_next_one_succeeds(
    clone: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url, name = await clone(), await digest_of(LARGE_MIB)
    folder = tmp_path / "default"
    with serving(url, blobs__folder=tmp_path, auth__mode="off") as process:
        async with of(process) as client:
            sending = asyncio.create_task(client.post("/v1/artifacts", content=pieces(LARGE_MIB)))
            await asyncio.to_thread(until, lambda: any(folder.glob("*")), "a part of the object")
            process.send(signal.SIGKILL)
            assert isinstance((await asyncio.gather(sending, return_exceptions=True))[0], httpx.TransportError)
    assert [file.name.partition("#")[0] for file in folder.iterdir()] == [name]
    collecting = {
        "background__enabled": True, "blobs__grace_seconds": GRACE_SECONDS, "blobs__collect_seconds": COLLECT_SECONDS,
    }  # fmt: skip
    with serving(url, blobs__folder=tmp_path, auth__mode="off", **collecting) as process:
        async with of(process) as client:
            assert (await client.get(f"/v1/artifacts/{name}")).status_code == 404
            await asyncio.to_thread(until, lambda: not any(folder.glob("*")), "an empty folder")
            assert (await client.post("/v1/artifacts", content=pieces(LARGE_MIB))).status_code == 201
            assert await downloaded(client, name) == name
