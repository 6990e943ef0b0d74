"""Three servers with a copy of each stream: one of them dies, and nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.bus.work import Stream, Streams, Work
from app.embedded.binaries import find_nats
from app.embedded.process import HOST, Process, Step, free_port
from app.errors import Unavailable
from tests.bus.working import asking, made, named, numbers, taken, told, works
from tests.waiting import eventually

SERVERS = 3
CONFIGURATION = """
server_name: "n{place}"
host: "{host}"
port: {port}
jetstream {{ store_dir: ".", max_file_store: 1GB }}
cluster {{ name: "c", host: "{host}", port: {route}, routes: [{routes}] }}
"""


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[list[Process], str]]:
    """Three servers, and the URL that names them all."""
    ports, routes = [free_port() for _ in range(SERVERS)], [free_port() for _ in range(SERVERS)]
    among = ", ".join(f"nats-route://{HOST}:{route}" for route in routes)
    processes: list[Process] = []
    try:
        for place, (port, route) in enumerate(zip(ports, routes, strict=True)):
            work = folder / f"n{place}"
            work.mkdir()
            (work / "nats.conf").write_text(
                CONFIGURATION.format(place=place, host=HOST, port=port, route=route, routes=among)
            )
            steps = (Step(signal.SIGTERM, 10), Step(signal.SIGKILL, 5))
            processes.append(Process("NATS", [find_nats(), "--config", "nats.conf"], work=work, port=port, steps=steps))
        yield processes, ", ".join(f"nats://{HOST}:{port}" for port in ports)
    finally:
        for process in processes:
            process.stop()


async def test_one_of_three_servers_dies_and_nothing_is_lost(tmp_path: Path) -> None:
    with cluster(tmp_path) as (processes, url):
        settings = named("copies", stream_replicas=SERVERS)
        first, second = (made("tolerant", url, settings, again_seconds=5) for _ in range(2))
        try:
            for streams in (first, second):
                await streams.open()

            async def copied() -> bool:
                return await _copies(first) == await _copies(second) == SERVERS

            await eventually(copied, "three copies")
            await first.put(Stream.QUEUED, works(200))
            async with asking(url.partition(",")[0]) as client:
                leader = (await told(client, "STREAM.INFO.copies_webhook_queued"))["cluster"]["leader"]
            processes[int(leader.removeprefix("n"))].stop()
            assert sorted(numbers(await taken(second, 200))) == list(range(200))
            dispatch = 0

            async def stored() -> bool:
                nonlocal dispatch
                dispatch += 1
                try:
                    await first.put(Stream.QUEUED, [Work(f"after {dispatch}", b"200")])
                except Unavailable:
                    return False
                return (await first.look(2))[0].mode == "connected"

            await eventually(stored, "a new leader")

            async def came() -> bool:
                # To the one that kept it, if that was before it had its line again.
                for streams in (second, first):
                    for message in await streams.take(Stream.QUEUED, 1, 0.5):
                        return message.body == b"200"
                return False

            await eventually(came, "what was put in then")
        finally:
            for streams in (first, second):
                await streams.close()


async def _copies(streams: Streams) -> int:
    """How many copies are at hand."""
    try:
        queued = (await streams.look(2))[0]
    except Unavailable:
        return 0
    return 0 if queued.faults else queued.replicas or 0
