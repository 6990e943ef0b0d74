"""`python -m benchmarks.relay`: how fast due deliveries go from their rows to JetStream, of a bare publisher's rate.

The relay of the service hands out pages of rows, commits, publishes references to them and waits until each is stored.
The bare publisher is the client library alone: the same messages, as many under way at once, each acknowledged. Both
publish into streams that are declared alike, on one server, in alternating rounds. 1 when the relay reaches neither
half of the publisher's rate nor 5,000 events a second, or when a message is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

import nats
import uvloop

from app.bus.declared import declared
from app.bus.jetstream import UNDER_WAY_MAX, JetStreams
from app.bus.work import Stream
from app.db.database import Database
from app.db.migrate import migrate
from app.db.sql import Statement
from app.embedded import Servers, start_servers
from app.settings import DatabaseSettings, NatsSettings, WebhookSettings
from app.webhooks.relay import HandOut, Relay
from benchmarks.ground import FOLDER

ROUNDS = 5
# Endpoints, and deliveries of each: as many as one may have under way.
ENDPOINTS, OF_EACH = 2000, 10
EVENTS = ENDPOINTS * OF_EACH
RATIO_MIN, RATE_MIN = 0.5, 5000
AGAIN_SECONDS = 600.0
TENANT = Statement("INSERT INTO tenants (tenant_id, name) VALUES ('bench', 'bench')")
WEBHOOKS = Statement(
    "INSERT INTO webhooks (tenant_id, id, url, secret, after_position, digest)"
    " SELECT 'bench', 'endpoint ' || n, 'https://example.org', '', 0, ''"
    " FROM generate_series(1, CAST(:count AS int)) AS n"
)
DELIVERIES = Statement(
    "INSERT INTO webhook_deliveries (tenant_id, webhook_id, event_id, event_type, event_position, event_sequenced_at)"
    " SELECT 'bench', 'endpoint ' || n % CAST(:endpoints AS int) + 1, 'event', 'bench', n, now()"
    " FROM generate_series(1, CAST(:count AS int)) AS n"
)
ENDED = Statement(
    "UPDATE webhook_deliveries SET status = 'delivered', lapses_at = NULL, ended_at = now() WHERE status = 'queued'"
)
ANALYZED = Statement("ANALYZE webhook_deliveries, webhooks")


async def relayed(database: Database, streams: JetStreams) -> float:
    """Events a second, from rows that wait to messages that are stored."""
    await database.rows(DELIVERIES, endpoints=ENDPOINTS, count=EVENTS)
    await database.rows(ANALYZED)
    relay = Relay(WebhookSettings(concurrency=OF_EACH), streams, lambda _given_up: None)
    started, handed = time.perf_counter(), 0
    while moved := await relay.run(database, 1000):
        handed += moved
    seconds = time.perf_counter() - started
    if handed != EVENTS:
        raise RuntimeError(f"{handed} of {EVENTS} deliveries were handed out")
    await database.rows(ENDED)
    return EVENTS / seconds


async def published(js: nats.js.JetStreamContext, subject: str, round_: int) -> float:
    """Events a second of the library alone."""
    works = [HandOut("bench", f"dlv_{round_:016}{place:016}", 1).work() for place in range(EVENTS)]
    started = time.perf_counter()
    for first in range(0, EVENTS, UNDER_WAY_MAX):
        some = works[first : first + UNDER_WAY_MAX]
        acks = [await js.publish_async(subject, work.body, headers={"Nats-Msg-Id": work.id}) for work in some]
        await asyncio.gather(*acks)
    return EVENTS / (time.perf_counter() - started)


async def measured(servers: Servers) -> tuple[list[float], list[float], bool]:
    """The rates of both, round by round, and whether everything is stored."""
    url = servers.nats_url
    ours, bare = (declared(NatsSettings(stream_prefix=prefix), AGAIN_SECONDS) for prefix in ("relay", "bare"))
    streams, other = JetStreams(url, ours), JetStreams(url, bare)
    database = await Database.open(DatabaseSettings(url=servers.postgres_url), name="bench")
    client = await nats.connect(url)
    try:
        await streams.open()
        await other.open()
        await database.rows(TENANT)
        await database.rows(WEBHOOKS, count=ENDPOINTS)
        js, subject = client.jetstream(), bare[Stream.QUEUED].subject
        rates: dict[str, list[float]] = {"relay": [], "bare": []}
        for round_ in range(ROUNDS):
            sides: list[tuple[str, Callable[[], Awaitable[float]]]] = [
                ("relay", partial(relayed, database, streams)),
                ("bare", partial(published, js, subject, round_)),
            ]
            for name, side in sides if round_ % 2 else reversed(sides):
                rates[name].append(await side())
        stored = [(await each.look(5))[0].messages for each in (streams, other)]
        return rates["relay"], rates["bare"], stored == [ROUNDS * EVENTS] * 2
    finally:
        await client.close()
        await streams.close()
        await other.close()
        await database.close()


def main() -> int:
    """Measure and judge."""
    argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__).parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=FOLDER) as folder,
        start_servers(Path(folder), redis=False, fast=False) as servers,
    ):
        migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)
        relay, bare, complete = uvloop.run(measured(servers))
    ratios = [ours / theirs for ours, theirs in zip(relay, bare, strict=True)]
    print(f"Relay, of a bare JetStream publisher: {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} (at"
          f" least {RATIO_MIN}, or {RATE_MIN:,} events a second: {median(relay) / RATE_MIN:.1f} times that);"
          f" {'everything' if complete else 'NOT everything'} is stored", flush=True)  # fmt: skip
    return 0 if complete and (median(ratios) >= RATIO_MIN or median(relay) >= RATE_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())
