"""kill -9 of a worker in the middle of a re-embedding: another one finishes it, and nothing is embedded in vain."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from tests.api_process import Command
from tests.memory import embedding_server as served
from tests.memory.embedding_server import EmbeddingServer, embedding_server
from tests.memory.reembedding import approximately, numbered, remembering
from tests.waiting import eventually

BATCH = 3
ITEMS = 30


def worker(url: str, server: EmbeddingServer) -> Command:
    """`cairn worker`, whose jobs are taken over a second after it is gone."""
    return Command(
        "worker", url=url, background__enabled=True, background__job_lease_seconds=1, background__job_idle_seconds=0.05,
        memory__reembed_batch=BATCH, embedder__url=server.url, embedder__in_flight_max=1,
    )  # fmt: skip


async def test_another_worker_finishes_it(clone: Callable[[], Awaitable[str]]) -> None:
    url, texts = await clone(), numbered(ITEMS)
    hung = asyncio.Event()

    async def hang(asking: EmbeddingServer, asked: served.Asked) -> None:
        hung.set()
        await served.hanging(asking, asked)

    async with embedding_server() as server, remembering(url, server) as memory:
        await memory.space("a")
        await memory.remember(*texts)
        path = await memory.reembed("a")
        server.faults = [served.waiting_for(done())] * 3 + [hang]
        first = second = None
        try:
            first = worker(url, server)
            await asyncio.wait_for(hung.wait(), 40)
            first.send(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
            halfway = await memory.job(path)
            assert (halfway["state"], halfway["progress"]) == ("running", {"done": 3 * BATCH, "total": ITEMS})
            assert len(await memory.embedded("a")) == 3 * BATCH, "the step that was cut off left nothing"
            second = worker(url, server)

            async def ended() -> bool:
                return (await memory.job(path))["state"] not in ("queued", "running")

            await eventually(ended, "the end of the job")
        finally:
            for one in (first, second):
                if one is not None:
                    one.close()
        finished = await memory.job(path)
        assert (finished["state"], finished["progress"]) == ("completed", {"done": ITEMS, "total": ITEMS})
        assert finished["counts"] == {"embedded": ITEMS, "failed": 0, "changed": 0}
        assert await memory.embedded("a") == approximately("a-8", *texts)
        assert len(server.texts) == ITEMS + BATCH, "only what was under way was asked for again"


def done() -> asyncio.Event:
    """An event that has happened."""
    event = asyncio.Event()
    event.set()
    return event
