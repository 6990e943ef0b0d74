"""A million rows leave by a rule while clients write: the longest statement, and what the writers feel of it.

    python -m benchmarks.retention [--rows 1000000] [--writers 2]

An API and a worker, each a process; PostgreSQL lets a statement go on for ten seconds, so that one which takes too
long is seen. Writers are measured before, while the rows leave, and after, in the same run. Exits with 1 where
a statement took a second, where the p99 of a write is more than twice that of before and after, or where rows are left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.process import STOP_SECONDS, Server, free_port, serving

IN_INVOCATION = 99
STATEMENT_SECONDS_MAX, P99_RATIO_MAX = 1.0, 2.0
# Writers as they are, not as fast as they can: a full machine would show only itself.
PAUSE_SECONDS = 0.02
QUIET_SECONDS = 30.0
LOOK_SECONDS = 0.02
INVOCATIONS = """
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, ended_at, digest)
SELECT 'default', 'old ' || n, 'v', 'w', 'completed', now() - interval '41 days' + n * interval '1 second',
  now() - interval '40 days' + n * interval '1 second', '' FROM generate_series(1, $1::int) AS n
"""
MESSAGES = """
INSERT INTO messages (tenant_id, invocation_id, id, seq, from_node_id, to_node_id, role, payload, digest)
SELECT 'default', 'old ' || (n - 1) / $2 + 1, uuidv7()::text, n, 'plan', 'search', 'delegation',
  ('{"n": ' || n || ', "text": "' || repeat(md5(n::text) || ' ', 10) || '"}')::json, sha256(n::text::bytea)
FROM generate_series(1, $1::int) AS n
"""
LONGEST = """
SELECT EXTRACT(epoch FROM clock_timestamp() - query_start)::float8 AS seconds, query FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
  AND application_name = 'cairn' ORDER BY query_start LIMIT 1
"""


@contextmanager
def standing(database_url: str, folder: Path) -> Iterator[Server]:
    """An API that anybody may call, and a worker beside it."""
    port = free_port()
    environment = {
        "CAIRN_DATABASE__URL": database_url, "CAIRN_DATABASE__STATEMENT_SECONDS": "10", "CAIRN_AUTH__MODE": "off",
        "CAIRN_LOG__LEVEL": "ERROR", "CAIRN_BLOBS__FOLDER": str(folder),
    }  # fmt: skip
    api = {**environment, "CAIRN_BACKGROUND__ENABLED": "false"}
    with serving(["-m", "app.cli", "serve", "--port", str(port)], port, api) as server:
        worker = subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], env={**os.environ, **environment})
        try:
            yield server
        finally:
            worker.terminate()
            worker.wait(STOP_SECONDS)


async def arrange(url: str, rows: int) -> int:
    """So many old rows, in invocations with their messages; how many of them are invocations."""
    invocations = rows // (IN_INVOCATION + 1)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(INVOCATIONS, invocations, timeout=3600)
        await connection.execute(MESSAGES, rows - invocations, IN_INVOCATION, timeout=3600)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
    return invocations


class Longest:
    """The longest statement that was seen under way, looked for many times a second."""

    def __init__(self, url: str) -> None:
        self._url, self._stop = url, threading.Event()
        self.seconds, self.query = 0.0, ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()))

    async def _watch(self) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            while not self._stop.is_set():
                row = await connection.fetchrow(LONGEST)
                if row is not None and row["seconds"] > self.seconds:
                    self.seconds, self.query = row["seconds"], row["query"]
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await connection.close()

    def __enter__(self) -> Longest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class Writers:
    """Clients that start and end invocations with messages; `took` has the seconds of each write since it was reset."""

    def __init__(self, url: str, count: int) -> None:
        self._url, self._stop = url, threading.Event()
        self.took: list[float] = []
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]

    def _write(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            turn = 0
            while not self._stop.is_set():
                name = f"new {number} {turn}"
                turn += 1
                self._timed(client, "/v1/invocations", {"id": name, "version_id": "v"})
                for _ in range(4):
                    items = [{"role": "user", "payload": {"n": n, "text": "x" * 300}} for n in range(5)]
                    self._timed(client, f"/v1/invocations/{name}/messages", {"items": items})
                self._timed(client, f"/v1/invocations/{name}/end", {"status": "completed"})

    def _timed(self, client: httpx.Client, path: str, body: dict[str, Any]) -> None:
        time.sleep(PAUSE_SECONDS)
        started = time.perf_counter()
        client.post(path, json=body).raise_for_status()
        self.took.append(time.perf_counter() - started)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def taken(self) -> list[float]:
        """What the writes took since the last time."""
        taken, self.took = self.took, []
        return taken


def p99_ms(took: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return statistics.quantiles(took, n=100)[98] * 1000


def followed(client: httpx.Client) -> tuple[dict[str, Any], float]:
    """A run, once it has ended, and how long it took."""
    client.put("/v1/retention", json={"kinds": {"invocations": {"max_age_days": 30}}}).raise_for_status()
    started = time.monotonic()
    job = client.post("/v1/retention/runs", json={}).raise_for_status().json()
    while job["state"] in ("queued", "running"):
        time.sleep(0.2)
        job = client.get(f"/v1/jobs/{job['id']}").json()
    return job, time.monotonic() - started


def measured(server: Server, url: str, rows: int, count: int) -> bool:
    """Let the rows leave beside writers, and say what it cost; whether that is within the bounds."""
    with httpx.Client(base_url=server.url, timeout=60) as client, Writers(server.url, count) as writers:
        time.sleep(5)
        writers.taken()
        time.sleep(QUIET_SECONDS)
        before = writers.taken()
        with Longest(url) as longest:
            job, seconds = followed(client)
        during = writers.taken()
        time.sleep(QUIET_SECONDS)
        after = writers.taken()
    left = sum(job["counts"].values())
    normal = p99_ms(before + after)
    ratio = p99_ms(during) / normal
    print(
        f"{job['state']}: {left} of {rows} rows left in {seconds:.1f} s, {left / seconds:.0f} a second,"
        f" beside {count} writers ({len(during)} writes)\n"
        f"longest statement {longest.seconds:.3f} s (below {STATEMENT_SECONDS_MAX}): {longest.query[:80]!r}\n"
        f"p99 of a write {p99_ms(before):.1f} ms before, {p99_ms(during):.1f} ms meanwhile, {p99_ms(after):.1f} ms"
        f" after: {ratio:.2f} times (at most {P99_RATIO_MAX})\n"
        f"median {statistics.median(before) * 1000:.1f} ms before, {statistics.median(during) * 1000:.1f} ms meanwhile"
    )
    whole = job["state"] == "completed" and left == rows
    return whole and longest.seconds < STATEMENT_SECONDS_MAX and ratio <= P99_RATIO_MAX


def main() -> int:
    """Measure, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many rows leave")
    parser.add_argument("--writers", type=int, default=2, help="how many clients write meanwhile")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cairn-retention-"))
    try:
        with ExitStack() as stack:
            servers = stack.enter_context(start_servers(folder / "servers", redis=False, nats=False, fast=True))
            migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)
            server = stack.enter_context(standing(servers.postgres_url, folder / "objects"))
            with httpx.Client(base_url=server.url) as client:
                version = {"id": "v", "dsl": {}, "operation": "init", "workflow": {}}
                client.post("/v1/workflows/w/versions", json=version).raise_for_status()
            asyncio.run(arrange(servers.postgres_url, options.rows))
            within = measured(server, servers.postgres_url, options.rows, options.writers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
