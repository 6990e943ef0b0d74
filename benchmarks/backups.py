"""A backup of many messages while writers go on: its rate beside that of COPY, and the memory of the API process.

    python -m benchmarks.backups [--rows 2000000] [--writers 2]

COPY reads the same rows in the same run, before and after, beside the same writers. Exits with 1 where the export is
slower than 0.30 of it, where the process needs 256 MiB or more, or where a row of the file refers to none in it.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import zstandard

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.process import Server, forget_peak, free_port, peak_bytes, serving

MIB = 1024 * 1024
PEAK_MIB_MAX, SHARE_MIN = 256, 0.30
IN_INVOCATION = 1000
# What a writer waits between its turns: they go on, and leave the processor to what is measured.
PAUSE_SECONDS = 0.05
INVOCATIONS = """
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, digest)
SELECT 'default', 'inv ' || n, 'v', 'w', 'running', now(), '' FROM generate_series(1, $1::int) AS n
"""
MESSAGES = """
INSERT INTO messages (tenant_id, invocation_id, id, seq, from_node_id, to_node_id, role, payload, digest)
SELECT 'default', 'inv ' || (n - 1) / $2 + 1, uuidv7()::text, n, 'plan', 'search', 'delegation',
  ('{"n": ' || n || ', "text": "' || repeat(md5(n::text) || ' ', 10) || '\\\\u00e9"}')::json, sha256(n::text::bytea)
FROM generate_series(1, $1::int) AS n
"""
SAME_ROWS = "SELECT * FROM messages WHERE tenant_id = 'default' ORDER BY invocation_id, id"


@contextmanager
def api(database_url: str, folder: Path) -> Iterator[Server]:
    """A service that anybody may call, and that carries out its jobs itself."""
    port = free_port()
    environment = {
        "CAIRN_DATABASE__URL": database_url, "CAIRN_AUTH__MODE": "off", "CAIRN_LOG__LEVEL": "ERROR",
        "CAIRN_BLOBS__FOLDER": str(folder),
    }  # fmt: skip
    with serving(["-m", "app.cli", "serve", "--port", str(port)], port, environment) as server:
        yield server


async def arrange(url: str, rows: int) -> None:
    """So many messages."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(INVOCATIONS, -(-rows // IN_INVOCATION))
        await connection.execute(MESSAGES, rows, IN_INVOCATION, timeout=3600)
        await connection.execute("VACUUM ANALYZE messages")
    finally:
        await connection.close()


async def copied(url: str) -> float:
    """Rows a second that COPY gives, to a reader that throws them away."""
    rows = 0

    async def count(chunk: bytes) -> None:
        nonlocal rows
        rows += chunk.count(b"\n")

    connection = await asyncpg.connect(url)
    try:
        started = time.monotonic()
        await connection.copy_from_query(SAME_ROWS, output=count)
        return rows / (time.monotonic() - started)
    finally:
        await connection.close()


@contextmanager
def writers(server: Server, count: int) -> Iterator[list[int]]:
    """So many clients that create and delete workflows, versions, invocations and messages; how often they did."""
    stop, done = threading.Event(), [0] * count

    def write(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while not stop.is_set():
                name = f"{number} {done[number]}"
                version = {"id": name, "dsl": {"of": name}, "operation": "init", "workflow": {}}
                client.post(f"/v1/workflows/{name}/versions", json=version).raise_for_status()
                for turn in range(4):
                    time.sleep(PAUSE_SECONDS)
                    invocation = {"id": f"{name} {turn}", "version_id": name}
                    client.post("/v1/invocations", json=invocation).raise_for_status()
                    message = {"items": [{"role": "r", "payload": n} for n in range(20)]}
                    client.post(f"/v1/invocations/{name} {turn}/messages", json=message).raise_for_status()
                if done[number] % 2:
                    client.delete(f"/v1/workflows/{name}?cascade=true").raise_for_status()
                done[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def exported(client: httpx.Client) -> tuple[dict[str, Any], float]:
    """A backup, once it is made, and how many seconds its job took."""
    backup_id = client.post("/v1/backups", json={}).raise_for_status().json()["id"]
    while (backup := client.get(f"/v1/backups/{backup_id}").json())["state"] in ("queued", "running"):
        time.sleep(0.5)
    job = client.get(f"/v1/jobs/{backup['job_id']}").json()
    began, ended = (datetime.fromisoformat(job[name]) for name in ("started_at", "ended_at"))
    return backup, (ended - began).total_seconds()


def dangling(client: httpx.Client, backup_id: str) -> int:
    """How many messages and invocations of the file refer to what is not in it."""
    there: dict[str, set[str]] = {"versions": set(), "invocations": set()}
    name, missing = "", 0
    with client.stream("GET", f"/v1/backups/{backup_id}/content") as answer, tempfile.TemporaryFile() as file:
        for piece in answer.iter_bytes():
            file.write(piece)
        file.seek(0)
        text = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), MIB)
        for line in text:
            if line.startswith(b'{"section":'):
                name = json.loads(line)["section"]["name"]
            elif name in ("versions", "invocations", "messages") and not line.startswith(b'{"manifest":'):
                row = json.loads(line)
                if name in there:
                    there[name].add(row["id"])
                missing += name == "messages" and row["invocation_id"] not in there["invocations"]
                missing += name == "invocations" and row["version_id"] not in there["versions"]
    return missing


def measured(server: Server, url: str, count: int) -> bool:
    """Make a backup beside writers, and say what it cost; whether that is within the bounds."""
    with httpx.Client(base_url=server.url, timeout=3600) as client, writers(server, count) as done:
        rates = [asyncio.run(copied(url))]
        forget_peak(server.pid)
        backup, seconds = exported(client)
        peak_mib = peak_bytes(server.pid) / MIB
        rates.append(asyncio.run(copied(url)))
        if backup["state"] != "completed":
            print(f"The backup is {backup['state']}: {backup['error']}")
            return False
        manifest = backup["manifest"]
        rate, copy = manifest["rows"] / seconds, sum(rates) / len(rates)
        missing = dangling(client, backup["id"])
    print(
        f"{manifest['rows']} rows, {manifest['bytes'] / MIB:.0f} MiB of lines, {backup['size_bytes'] / MIB:.0f} MiB of"
        f" file in {seconds:.1f} s beside {count} writers ({sum(done)} workflows written)\n"
        f"export {rate:8.0f} rows/s\nCOPY   {copy:8.0f} rows/s ({', '.join(f'{one:.0f}' for one in rates)})\n"
        f"share  {rate / copy:8.2f} (at least {SHARE_MIN})\npeak   {peak_mib:8.0f} MiB (below {PEAK_MIB_MAX})\n"
        f"dangling references {missing}"
    )
    return rate / copy >= SHARE_MIN and peak_mib < PEAK_MIB_MAX and missing == 0


def main() -> int:
    """Measure, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="how many messages there are")
    parser.add_argument("--writers", type=int, default=2, help="how many clients write meanwhile")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cairn-backups-"))
    try:
        with ExitStack() as stack:
            servers = stack.enter_context(start_servers(folder / "servers", redis=False, nats=False, fast=True))
            migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)
            server = stack.enter_context(api(servers.postgres_url, folder / "objects"))
            with httpx.Client(base_url=server.url) as client:
                version = {"id": "v", "dsl": {}, "operation": "init", "workflow": {}}
                client.post("/v1/workflows/w/versions", json=version).raise_for_status()
            asyncio.run(arrange(servers.postgres_url, options.rows))
            within = measured(server, servers.postgres_url, options.writers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
