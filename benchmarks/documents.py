"""`python -m benchmarks.documents`: what saving one object costs, beside a file that is written whole, and as it grows.

An object is a Job of 1.4 kB, saved as a drop-in for TinyDB saves it: merged into what is there, shallowly, over HTTP,
by one caller, each under an Idempotency-Key, with a PostgreSQL that flushes every commit. TinyDB saves the same into a
file as it writes it for people (`sort_keys=True, indent=2`). The sides of each comparison take turns in short rounds of
one run, and only ratios are told. 1 when the service saves one among 5,000 less than 20 times as fast as TinyDB, or one
among 1,000, 10,000 or 100,000 at more than 1.5 times what one among 100 costs.

For example: `python -m benchmarks.documents`, or only one of them: `python -m benchmarks.documents growth`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
from tinydb import Query, TinyDB

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.ground import FOLDER, TENANT, new_key, service_process

ADMIN_KEY = "key-of-the-benchmark"
SAVED_AMONG, TINYDB_RATIO_MIN = 5000, 20.0
SIZES, GROWTH_MAX = (1000, 10_000, 100_000), 1.5
ROUNDS, SAVES, FILE_SAVES = 7, 60, 3
STATES = ("in_progress", "awaiting", "completed")
FILL = """
INSERT INTO documents (tenant_id, collection, id, body, indexed)
SELECT $1, 'Job', 'job-' || n, CAST(replace($2, '@@', 'job-' || n) AS json),
  jsonb_build_object('in', jsonb_build_array($1::text, 'Job'), 'body', CAST(replace($2, '@@', 'job-' || n) AS jsonb))
FROM generate_series($3::int, $4::int) AS n"""


def job(name: str, place: int = 0) -> dict[str, Any]:
    """A Job as one is stored, with three responses."""
    responses = [
        {
            "job_id": name,
            "status": STATES[(place + number) % 3],
            "message": f"Response {number} of save {place}: the agent went on with its work and says what it found.",
            "payload": {"step": number, "of": place, "notes": "measure twice, cut once. " * 4},
            "error_message": None,
            "error_traceback": None,
        }
        for number in range(3)
    ]
    return {
        "id": name, "name": f"Job {name}", "agent_name": "researcher", "status": STATES[place % 3],
        "job_context": {"workspace_id": "w", "mission_id": "m", "mission_context": {"goal": "find"}, "place": place},
        "created_at": "2026-01-05T10:00:00.000001", "finished_at": None, "case_ids": [f"case-{place % 5}"],
        "responses": responses,
    }  # fmt: skip


@dataclass
class Service:
    """The service on a database of its own, and how many documents are there."""

    url: str
    key: str
    database_url: str
    count: int = 0

    def fill(self, count: int) -> None:
        """Let there be so many documents, and statistics on them."""

        async def fill() -> None:
            connection = await asyncpg.connect(self.database_url)
            try:
                await connection.execute(
                    "INSERT INTO document_collections (tenant_id, name) VALUES ($1, 'Job') ON CONFLICT DO NOTHING",
                    TENANT,
                )
                template = json.dumps(job("@@"))
                for start in range(self.count + 1, count + 1, 5000):
                    await connection.execute(FILL, TENANT, template, start, min(start + 4999, count), timeout=600)
                await connection.execute("VACUUM (ANALYZE) documents", timeout=600)
            finally:
                await connection.close()

        asyncio.run(fill())
        self.count = count

    def save(self, saves: int) -> list[float]:
        """The seconds that each of so many saves took, of objects anywhere among those that are there."""
        address = urlsplit(self.url)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        took = []
        with contextlib.closing(connection):
            for _ in range(saves):
                name = f"job-{random.randint(1, self.count)}"
                body = json.dumps(job(name, random.randint(0, 10**6)))
                headers = {
                    "Authorization": f"Bearer {self.key}", "Content-Type": "application/json",
                    "Idempotency-Key": uuid4().hex,
                }  # fmt: skip
                started = time.perf_counter()
                connection.request("PATCH", f"/v1/documents/Job/{name}?merge=shallow", body, headers)
                answer = connection.getresponse()
                said = answer.read()
                took.append(time.perf_counter() - started)
                if answer.status != 200:
                    raise RuntimeError(f"A save was answered {answer.status}: {said!r}")
        return took


class File:
    """TinyDB in its file mode."""

    def __init__(self, path: Path, count: int) -> None:
        self._table = TinyDB(path, sort_keys=True, indent=2).table("Job")
        self._table.insert_multiple(job(f"job-{n}") for n in range(1, count + 1))
        self.count = count

    def save(self, saves: int) -> list[float]:
        """The seconds that each of so many saves took."""
        took = []
        for _ in range(saves):
            name = f"job-{random.randint(1, self.count)}"
            saved = job(name, random.randint(0, 10**6))
            started = time.perf_counter()
            self._table.upsert(saved, Query().id == name)
            took.append(time.perf_counter() - started)
        return took


@contextlib.contextmanager
def services() -> Iterator[tuple[Service, Service]]:
    """Two of them, each on a database of its own of one server."""
    with (
        start_servers(FOLDER / "documents", ephemeral=True, nats=False, redis=False, fast=False) as servers,
        contextlib.ExitStack() as stack,
    ):

        async def create(name: str) -> None:
            connection = await asyncpg.connect(servers.postgres_url)
            try:
                await connection.execute(f"CREATE DATABASE {name}")
            finally:
                await connection.close()

        made = []
        for name in ("few", "many"):
            asyncio.run(create(name))
            url = servers.postgres_url.rsplit("/", 1)[0] + f"/{name}"
            migrate(DatabaseSettings(url=url), report=lambda _line: None)
            server = stack.enter_context(service_process(url, ADMIN_KEY))
            made.append(Service(server.url, new_key(server.url, ADMIN_KEY, TENANT), url))
        yield made[0], made[1]


Saving = Callable[[], list[float]]


def in_turns(one: Saving, other: Saving) -> list[float]:
    """For each round the median of one side over that of the other; each begins every second round."""
    ratios = []
    for place in range(ROUNDS):
        first, second = (one, other) if place % 2 == 0 else (other, one)
        found = {first: median(first()), second: median(second())}
        ratios.append(found[one] / found[other])
    return ratios


def told(what: str, ratios: list[float], bound: str, *, holds: bool) -> bool:
    """Print a comparison, and say whether its bound holds."""
    verdict = "" if holds else ", MISSED"
    print(f"{what}: {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} ({bound}{verdict})", flush=True)
    return holds


def beside_tinydb(_few: Service, many: Service) -> bool:
    """One object saved among 5,000, by TinyDB and by the service."""
    many.fill(max(many.count, SAVED_AMONG))
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        file = File(Path(folder) / "entities.json", SAVED_AMONG)
        many.save(SAVES)
        ratios = in_turns(lambda: file.save(FILE_SAVES), lambda: many.save(SAVES))
    holds = median(ratios) >= TINYDB_RATIO_MIN
    return told(f"TinyDB among {SAVED_AMONG:,}, of the service", ratios, f"at least {TINYDB_RATIO_MIN}", holds=holds)


def growth(few: Service, many: Service) -> bool:
    """One object saved among few and among more and more."""
    few.fill(100)
    held = []
    for size in SIZES:
        many.fill(max(many.count, size))
        for service in (few, many):
            service.save(SAVES)
        ratios = in_turns(lambda: many.save(SAVES), lambda: few.save(SAVES))
        holds = median(ratios) <= GROWTH_MAX
        held.append(told(f"among {many.count:,}, of among 100", ratios, f"at most {GROWTH_MAX}", holds=holds))
    return all(held)


def main() -> int:
    """Measure both, or the one that is named."""
    measures = {"growth": growth, "tinydb": beside_tinydb}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.documents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", choices=[[], *measures])
    only = parser.parse_args().only or list(measures)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with services() as (few, many):
        held = [measures[name](few, many) for name in only]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
