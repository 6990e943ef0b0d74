"""A NATS that answers and stores nothing, as one with a full disk: work goes on without it until it stores again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.bus.jetstream import PUT_SECONDS
from app.bus.work import Stream
from app.embedded.process import HOST, free_port
from app.errors import Unavailable
from tests.bus.test_streams_go_on_without_nats import Told
from tests.bus.working import asking, nats_server, nothing_more, numbers, of, taken, told, works
from tests.bus.working import named as settings_named
from tests.waiting import eventually


@dataclass
class Between:
    """Stands before the server, and lets nothing through that is to be stored while it is `full`."""

    upstream: int
    port: int = 0
    full: bool = False
    dropped: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection."""
        from_server, to_server = await asyncio.open_connection(HOST, self.upstream)
        ways = [asyncio.create_task(way) for way in (self._there(reader, to_server), self._back(from_server, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_server.close()
            writer.close()

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = line.split()
            message = line
            if words and words[0] in (b"PUB", b"HPUB"):
                message += await reader.readexactly(int(words[-1]) + 2)
            if self.full and words[0] == b"HPUB":
                self.dropped += 1
                continue
            writer.write(message)
            await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()


@asynccontextmanager
async def between(url: str) -> AsyncIterator[tuple[Between, str]]:
    """Who stands before the server, and the URL there."""
    parts = urlsplit(url)
    assert parts.port is not None
    stands = Between(parts.port)
    tasks = set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(stands.serve(reader, writer)))

    server = await asyncio.start_server(begin, HOST, 0)
    stands.port = server.sockets[0].getsockname()[1]
    try:
        yield stands, url.replace(f":{parts.port}", f":{stands.port}")
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_nats_does_not_store_is_kept_here_until_it_stores_again(tmp_path: Path) -> None:
    settings = settings_named()
    with await asyncio.to_thread(nats_server, tmp_path, free_port()) as server:
        async with between(server.nats_url) as (stands, url):
            streams = Told(url, settings)
            await streams.open()
            try:
                await streams.put(Stream.QUEUED, works(1))
                assert numbers(await taken(streams, 1)) == [0]
                stands.full = True
                started = time.monotonic()
                with pytest.raises(Unavailable, match="is its disk full"):
                    await streams.put(Stream.QUEUED, works(1, 1))
                assert time.monotonic() - started < PUT_SECONDS + 1
                # It answers everything else, and is not taken for one that works: not now, not at the next try.
                changes = len(streams.away)
                for place in range(2, 5):
                    await streams.put(Stream.QUEUED, works(1, place))
                    assert numbers(await taken(streams, 1)) == [place]
                    await eventually(partial(_more, streams, changes), "another try")
                    changes = len(streams.away)
                assert set(streams.away[2:]) == {True}
                with pytest.raises(Unavailable, match="is its disk full"):
                    await streams.check(2)
                stands.full = False
                await eventually(streams.is_back, "NATS")
                await streams.put(Stream.QUEUED, works(1, 5))
                assert numbers(await taken(streams, 1)) == [5]
                # What was stored to try it is given to nobody.
                assert await nothing_more(streams)
                async with asking(server.nats_url) as client:
                    name = of(settings)[Stream.QUEUED].name
                    assert (await told(client, f"STREAM.INFO.{name}"))["state"]["messages"] == 0
            finally:
                await streams.close()


async def _more(streams: Told, changes: int) -> bool:
    return len(streams.away) > changes
