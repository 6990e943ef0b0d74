"""`python -m benchmarks.live`: what idle readers cost a process, and how soon a batch reaches those of another.

Two API processes on one database and one NATS; the readers are all at the second, batches are appended at the first.
1 when a bound is missed: 5 % of a core, no connection more than without them, 100 ms at the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import time
from contextlib import ExitStack
from statistics import median

import httpx
import uvloop

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.ground import FOLDER, new_key, service_process
from benchmarks.process import cpu_seconds

READERS = 200
BATCHES = 100
IDLE_SECONDS = 10
CORE_SHARE_MAX, REACH_SECONDS_MAX = 0.05, 0.1
PAYLOAD = "measure " * 255


class Run:
    """One run over two processes: who writes, and who is read from."""

    def __init__(self, writer: httpx.AsyncClient, reader: httpx.AsyncClient, reader_pid: int) -> None:
        self.writer, self.reader, self.reader_pid = writer, reader, reader_pid
        self.sequences: dict[str, int] = {}
        self.claims: dict[str, dict[str, object]] = {}
        self.seen: dict[str, asyncio.Event] = {}
        self.opened = asyncio.Semaphore(0)

    async def connections(self) -> int:
        """The connections to PostgreSQL that are in use in the process of the readers."""
        told = (await self.reader.get("/metrics")).text
        lines = [line for line in told.splitlines() if line.startswith("cairn_database_connections{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if 'state="busy"' in line)

    async def create(self, path: str) -> None:
        """A conversation, with a producer."""
        identity = {"agent_name": "bench", "instance_id": path}
        (await self.writer.put("/v1/conversations", json={"path": path, "identity": identity})).raise_for_status()
        told = await self.writer.post("/v1/conversations/acquire", json={"path": path, "producer_id": "bench"})
        told.raise_for_status()
        self.claims[path] = told.json()
        self.sequences[path] = 0

    async def append(self, path: str, text: str) -> None:
        """One batch of two kilobytes."""
        claim = self.claims[path]
        body = {
            "path": path, "producer_id": "bench", "producer_epoch": claim["producer_epoch"],
            "incarnation": claim["incarnation"], "producer_sequence": self.sequences[path],
            "records": [{"v": 1, "id": text, "type": "note", "content": PAYLOAD}],
        }  # fmt: skip
        (await self.writer.post("/v1/conversations/append", json=body)).raise_for_status()
        self.sequences[path] += 1

    async def read(self, path: str) -> None:
        """Follow a conversation, and say of each record when it came."""
        async with self.reader.stream("GET", "/v1/conversations/events", params={"path": path}, timeout=None) as told:
            self.opened.release()
            async for line in told.aiter_lines():
                if line.startswith("data:"):
                    for record in json.loads(line.removeprefix("data:"))["records"]:
                        self.seen[record["id"]].set()


async def measured(run: Run) -> bool:
    """Measure both, and say whether the bounds hold."""
    paths = [f"bench/{place}" for place in range(READERS)]
    for path in paths:
        await run.create(path)
    before = await run.connections()
    readers = [asyncio.create_task(run.read(path)) for path in paths]
    for _ in readers:
        await run.opened.acquire()
    used, started = cpu_seconds(run.reader_pid), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    share = (cpu_seconds(run.reader_pid) - used) / (time.perf_counter() - started)
    more = await run.connections() - before
    reached = []
    for place in range(BATCHES):
        text = secrets.token_hex(8)
        run.seen[text] = asyncio.Event()
        sent = time.perf_counter()
        await run.append(paths[place % READERS], text)
        await asyncio.wait_for(run.seen[text].wait(), 30)
        reached.append(time.perf_counter() - sent)
    for reader in readers:
        reader.cancel()
    print(
        f"{READERS} idle readers: {share:.1%} of a core (at most {CORE_SHARE_MAX:.0%}), {max(more, 0)} connections more"
    )
    print(
        f"A batch reached a reader of the other process, from the request on, in {median(reached):.3f} s at the median"
        f" (at most {REACH_SECONDS_MAX}), {max(reached):.3f} s at most"
    )
    return share <= CORE_SHARE_MAX and more <= 0 and median(reached) <= REACH_SECONDS_MAX


async def _run(urls: list[str], key: str, reader_pid: int) -> bool:
    headers = {"Authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=READERS + 10)
    async with (
        httpx.AsyncClient(base_url=urls[0], headers=headers) as writer,
        httpx.AsyncClient(base_url=urls[1], headers=headers, limits=limits) as reader,
    ):
        return await measured(Run(writer, reader, reader_pid))


def main() -> int:
    """Start two processes, and measure."""
    argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__).parse_args()
    admin_key = secrets.token_urlsafe(24)
    with ExitStack() as stack:
        servers = stack.enter_context(start_servers(FOLDER, ephemeral=True, redis=False, fast=False))
        migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)
        processes = [
            stack.enter_context(service_process(servers.postgres_url, admin_key, CAIRN_NATS__URL=servers.nats_url))
            for _ in range(2)
        ]
        key = new_key(processes[0].url, admin_key, "bench")
        urls = [process.url for process in processes]
        return 0 if uvloop.run(_run(urls, key, processes[1].pid)) else 1


if __name__ == "__main__":
    sys.exit(main())
