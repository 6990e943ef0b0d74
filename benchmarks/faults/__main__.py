"""`python -m benchmarks.faults`: nothing is lost while everything but PostgreSQL is broken again and again.

Events are written through two API processes and go to fifty endpoints, of which some fail and some hang, while
nats-server, Valkey and one of the API processes are killed, paused, flushed and started again at random. Afterwards
what the endpoints were sent is held against PostgreSQL. 1 when anything is missing, or when the process that nobody
killed answered with a 5xx. It ends within five minutes.

Example: python -m benchmarks.faults --seed 7 --report benchmarks/faults.md
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import redis
import uvloop
from cryptography.fernet import Fernet

from benchmarks.faults.breaking import Breaking
from benchmarks.faults.judging import UNFINISHED, Endpoint, Verdict, judge
from benchmarks.faults.stage import Stage, receiving, standing
from benchmarks.faults.writing import Writing
from benchmarks.ground import new_key, post
from benchmarks.process import free_port

FOLDER = Path("var/faults")
ADMIN_KEY = "operator-key-of-the-fault-run"
RUN_SECONDS = 300
BREAK_SECONDS, JUDGE_SECONDS = 120, 40
PROGRESS_SECONDS = 10
SETTINGS = {
    "CAIRN_AUTH__ADMIN_KEY": ADMIN_KEY,
    "CAIRN_LOG__LEVEL": "WARNING",
    "CAIRN_WEBHOOKS__ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "CAIRN_WEBHOOKS__ALLOW_PRIVATE": "127.0.0.0/8",
    "CAIRN_WEBHOOKS__ATTEMPT_SECONDS": "3",
    # Long enough for a healthy endpoint to outlast every fault, short enough for the others to be given up in time.
    "CAIRN_WEBHOOKS__SCHEDULE": "0.5,1,2,4",
    "CAIRN_WEBHOOKS__DISABLE_AFTER_SECONDS": "30",
}


def kinds(endpoints: int) -> list[str]:
    """How each endpoint behaves: one in ten fails, one in ten hangs."""
    return [{0: "failing", 5: "hanging"}.get(place % 10, "healthy") for place in range(endpoints)]


def subscribed(stage: Stage, given: argparse.Namespace) -> tuple[dict[str, str], list[Endpoint]]:
    """The tenants' keys, and a webhook for each endpoint."""
    url = stage.steady.url
    keys = {name: new_key(url, ADMIN_KEY, name) for name in (f"t{place}" for place in range(given.tenants))}
    found = []
    for place, kind in enumerate(kinds(given.endpoints)):
        tenant_id, port = f"t{place % given.tenants}", free_port()
        body = {"url": f"http://127.0.0.1:{port}/", "event_types": ["workflow.created"]}
        made = post(url, "/v1/webhooks", body, Authorization=f"Bearer {keys[tenant_id]}")
        found.append(Endpoint(tenant_id, made["id"], port, kind))
    return keys, found


def flush(stage: Stage) -> None:
    """Empty Valkey."""
    with redis.Redis.from_url(stage.redis_url) as valkey:
        valkey.flushall()


def say(words: str) -> None:
    """Tell what happens, as it does."""
    print(f"  {words}", flush=True)


async def flowing(stage: Stage, writing: Writing, breaking: Breaking, ends_at: float) -> None:
    """Write and break; then mend, and wait until everything is done with or the time is up."""
    enough = asyncio.Event()
    connection = await asyncpg.connect(stage.database_url)
    breaks = asyncio.create_task(breaking.until(min(ends_at, time.monotonic() + BREAK_SECONDS), enough))
    writes = asyncio.create_task(writing.run())
    told = time.monotonic()
    try:
        while time.monotonic() < ends_at:
            left = await connection.fetchrow(UNFINISHED)
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                say(f"{writing.written:,} of {writing.events:,} written, {left['ended']:,} deliveries ended,"
                    f" {left['deliveries']:,} open")  # fmt: skip
            if writes.done() and not left["outbox"] + left["events"] + left["deliveries"]:
                break
            await asyncio.sleep(1)
    finally:
        enough.set()
        await breaks
        writes.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writes
        await connection.close()


def reported(verdict: Verdict, writing: Writing, breaking: Breaking, given: argparse.Namespace) -> str:
    """The report."""
    lines = [
        "# The fault run",
        "",
        "Made by `make faults`: events flow from two API processes to endpoints of webhooks while everything but"
        " PostgreSQL is broken again and again; afterwards what each endpoint was sent is held against PostgreSQL.",
        "",
        f"**{'Nothing is missing.' if not verdict.wrong else 'Something is wrong.'}**",
        "",
        *(f"- WRONG: {words}" for words in verdict.wrong),
        *([""] if verdict.wrong else []),
        "| what | how many |",
        "|---|---|",
        f"| endpoints (of {given.tenants} tenants) | {given.endpoints} |",
        *(f"| of these {kind} | {kinds(given.endpoints).count(kind)} |" for kind in ("healthy", "failing", "hanging")),
        *(f"| {name} | {number:,} |" for name, number in verdict.counts.items()),
        f"| batches that were sent again after a fault | {writing.repeated:,} |",
        f"| answers of the steady process that were a 5xx | {len(writing.faults)} |",
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {name} | {number} |" for name, number in sorted(breaking.done.items())),
        "",
        f"Seed {given.seed}; the same seed breaks the same things in the same order.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run, judge and report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000, help="events written in all")
    parser.add_argument("--endpoints", type=int, default=50, help="endpoints, a tenth failing and a tenth hanging")
    parser.add_argument(
        "--tenants", type=int, default=2, help="an event goes to the endpoints of its tenant; 1: each to all of them"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of what is broken, and when")
    parser.add_argument("--report", type=Path, help="write the report to this file too")
    given = parser.parse_args()
    ends_at = time.monotonic() + RUN_SECONDS - JUDGE_SECONDS
    # However it is told to end, it stops what it has started.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    print(f"Seed {given.seed}. Starting the servers …", flush=True)
    with tempfile.TemporaryDirectory() as folder, standing(FOLDER, SETTINGS) as stage:
        keys, endpoints = subscribed(stage, given)
        writing = Writing(stage.steady, stage.shaky, keys, given.events)
        breaking = Breaking(stage, random.Random(given.seed), lambda: flush(stage), say)
        file = Path(folder, "seen")
        with receiving(file, {endpoint.port: endpoint.kind for endpoint in endpoints}):
            uvloop.run(flowing(stage, writing, breaking, ends_at))
        seen = {int(port): sent for port, sent in json.loads(file.read_text(encoding="utf-8")).items()}
        verdict = asyncio.run(judged(stage, endpoints, seen, {tenant_id: writing.ids(tenant_id) for tenant_id in keys}))
    verdict.must(writing.written == given.events, f"Only {writing.written:,} of the events were written in time.")
    verdict.must(not writing.faults, f"The steady process failed: {writing.faults[:3]}")
    text = reported(verdict, writing, breaking, given)
    print("\n" + text)
    if given.report:
        given.report.write_text(text, encoding="utf-8")
    return 1 if verdict.wrong else 0


async def judged(
    stage: Stage, endpoints: list[Endpoint], seen: dict[int, dict[str, list[str]]], written: dict[str, list[str]]
) -> Verdict:
    """The verdict, asked of the database."""
    connection = await asyncpg.connect(stage.database_url)
    try:
        async with asyncio.timeout(JUDGE_SECONDS):
            return await judge(connection, endpoints, seen, written)
    finally:
        await connection.close()


if __name__ == "__main__":
    sys.exit(main())
