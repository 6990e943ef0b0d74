"""`python -m benchmarks.memory`: how much of what is nearest a search of memory finds, and what HTTP costs it.

200,000 vectors of 384 dimensions in clusters, in tenants of very different sizes; filters that match half, a twentieth
and a thousandth. The service builds its indexes itself. 1 when a search finds less than 95 % of the ten nearest, gives
fewer than match, or comes over HTTP at less than half of the rate of its statement over the bare driver.

    python -m benchmarks.memory --small     a twentieth of it, in about a minute
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import numpy as np
from numpy.typing import NDArray

from app.db.database import set_codecs
from app.db.vectors import packed
from app.memory.partitions import table_of
from benchmarks.ground import Ground, get, post, standing
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison, Pace, compare

TENANTS = {"giant": 150_000, "large": 35_000, "middle": 10_000, "small": 3000, "tiny": 1500, "few": 500}
DIMENSIONS, CLUSTERS, SPREAD, TOP_K = 384, 1000, 0.7, 10
FILTERS: dict[str, tuple[str, int] | None] = {
    "no filter": None, "50 %": ("half", 2), "5 %": ("twentieth", 20), "0.1 %": ("thousandth", 1000),
}  # fmt: skip
RECALL_MIN, RATE_MIN = 0.95, 0.5
QUERIES, LOADED = 100, 20
PACE = Pace(clients=(1, 8), rounds=5, seconds=2)
# An index of 150,000 needs about 340 MiB to be built in memory.
MEMORY_MIB = 512
BUILD_SECONDS_MAX = 3600
BATCH = 5000

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Tenant:
    """A tenant with what it remembers: item `n` has the vector at its place, and members of metadata by its number."""

    name: str
    key: str
    number: int
    vectors: Vectors


def clustered(random: np.random.Generator, centres: Vectors, count: int) -> Vectors:
    """Vectors that lie around centres, as embeddings of texts about so many things do."""
    found: Vectors = centres[random.integers(0, len(centres), count)]
    return found + np.float32(SPREAD) * random.standard_normal(found.shape, dtype=np.float32)


def filled(ground: Ground, name: str, vectors: Vectors) -> Tenant:
    """A tenant that remembers these."""
    key = ground.tenant_key(name)
    space = {"model": "m", "dimensions": DIMENSIONS, "language": "simple"}
    post(ground.server.url, "/v1/memory/spaces/s", space, "PUT", Authorization=f"Bearer {key}")
    (row,) = ground.sql("SELECT number FROM memory_spaces WHERE tenant_id = $1", name)
    asyncio.run(_copy(ground.database_url, name, row["number"], vectors))
    return Tenant(name, key, row["number"], vectors)


async def _copy(url: str, tenant_id: str, number: int, vectors: Vectors) -> None:
    connection = await asyncpg.connect(url)
    await set_codecs(connection)
    table = table_of(number)
    try:
        for start in range(0, len(vectors), BATCH):
            items, rows = [], []
            for place, vector in enumerate(vectors[start : start + BATCH], start):
                metadata = json.dumps({kind[0]: place % kind[1] for kind in FILTERS.values() if kind}).encode()
                items.append((tenant_id, "document", f"{place}", f"item {place}", metadata, b""))
                rows.append((tenant_id, number, "document", f"{place}", packed(vector), metadata))
            await connection.copy_records_to_table(
                "memory_items", records=items, columns=("tenant_id", "kind", "id", "content", "metadata", "digest")
            )
            await connection.execute(
                "CREATE TEMP TABLE given AS SELECT tenant_id, space_number, kind, id, embedding, metadata"
                " FROM memory_vectors WITH NO DATA"
            )
            await connection.copy_records_to_table("given", records=rows)
            await connection.execute(
                f"INSERT INTO {table} (tenant_id, space_number, kind, id, embedding, metadata, lexemes)"
                " SELECT tenant_id, space_number, kind, id, embedding, metadata, to_tsvector('simple', id) FROM given;"
                " DROP TABLE given"
            )
        await connection.execute(f"ANALYZE {table}; ANALYZE memory_items")
    finally:
        await connection.close()


def await_index(ground: Ground, tenant: Tenant) -> None:
    """Wait until the service has built the tenant's index, and tell how long that took since it began."""
    began, deadline = 0.0, time.monotonic() + BUILD_SECONDS_MAX
    while time.monotonic() < deadline:
        index = get(ground.server.url, "/v1/memory/spaces/s", Authorization=f"Bearer {tenant.key}")["index"]
        if index["state"] == "building":
            began = began or time.monotonic()
        if index["state"] == "ready":
            seconds = time.monotonic() - began if began else 0.0
            print(f"index of {len(tenant.vectors)}: {seconds:.0f} s by two processes with {MEMORY_MIB} MiB,"
                  f" {index['size_bytes'] / 2**20:.0f} MiB large", flush=True)  # fmt: skip
            return
        time.sleep(0.1)
    raise RuntimeError(f"The index of {tenant.name} was not built.")


def measured(ground: Ground, tenant: Tenant, queries: Vectors) -> Iterator[tuple[str, float, bool, float]]:
    """For each filter: the part of the nearest that were found, whether all searches were full, and how many exact."""
    lengths = np.linalg.norm(tenant.vectors, axis=1)
    for name, kind in FILTERS.items():
        those = np.arange(len(tenant.vectors))
        if kind is not None:
            those = those[those % kind[1] == 1]
        wanted, found, full, exact = 0, 0, True, 0
        for query in queries:
            nearest = those[np.argsort(-(tenant.vectors[those] @ query) / lengths[those])[:TOP_K]]
            answer = post(
                ground.server.url, "/v1/memory/search", asked(query, kind), Authorization=f"Bearer {tenant.key}"
            )
            ids = {int(item["id"]) for item in answer["items"]}
            wanted += len(nearest)
            found += len(ids & set(nearest.tolist()))
            full &= len(ids) == len(nearest)
            exact += answer["exact"]
        yield name, found / wanted if wanted else 1.0, full, exact / len(queries)


def asked(query: Vectors, kind: tuple[str, int] | None) -> dict[str, Any]:
    """The body of a search."""
    body: dict[str, Any] = {"embedding": query.tolist(), "top_k": TOP_K}
    return body if kind is None else {**body, "filter": {kind[0]: 1}}


def recall(ground: Ground, tenants: list[Tenant], queries: Vectors) -> bool:
    """Print what was found of what is nearest; whether it is enough everywhere."""
    held = True
    for tenant in tenants:
        for name, part, full, exact in measured(ground, tenant, queries):
            held &= part >= RECALL_MIN and full
            print(f"{len(tenant.vectors)} vectors, {name}: recall@{TOP_K} {part:.3f} (at least {RECALL_MIN}),"
                  f" {'full' if full else 'NOT FULL'}, {exact:.0%} exact", flush=True)  # fmt: skip
    return held


def rates(ground: Ground, tenant: Tenant, queries: Vectors) -> bool:
    """Print what comes over HTTP of what the bare driver reaches with the same statements; whether it is enough."""
    held = True
    for name in ("no filter", "5 %"):
        bodies = [json.dumps(asked(query, FILTERS[name])) for query in queries[:LOADED]]
        requests = [Request("POST", "/v1/memory/search", body) for body in bodies]
        sent, _ = ground.recorded(requests, tenant.key)
        # The search itself; what else the service asks is its own cost.
        statements = [next(query for query in each if "hnsw" in query.text) for each in sent]
        bounds = tuple(Bound("asyncpg", RATE_MIN, clients) for clients in PACE.clients)
        limits = {"asyncpg": ground.driver(statements, len(statements))}
        load = ground.service(requests, tenant.key)
        for ratio in compare("memory", Comparison("over HTTP", load, limits, bounds), PACE):
            held &= ratio.holds
            print(f"search, {name}: over HTTP {ratio.median:.2f} of {ratio.limit}, {ratio.clients} clients,"
                  f" {ratio.low:.2f} to {ratio.high:.2f} (at least {ratio.least})", flush=True)  # fmt: skip
    return held


def main() -> int:
    """Fill, index, search and compare."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a twentieth of the vectors")
    part = 20 if parser.parse_args().small else 1
    least = 5000 // part
    os.environ |= {
        "CAIRN_MEMORY__INDEX_MEMORY_MIB": str(MEMORY_MIB),
        "CAIRN_MEMORY__INDEX_ROWS_MIN": str(least),
        "CAIRN_MEMORY__INDEX_LOOK_SECONDS": "1",
        "CAIRN_MEMORY__INDEX_WORKERS": "1",
        "CAIRN_MEMORY__EXACT_ROWS_MAX": str(4000 // part),
    }
    random = np.random.default_rng(384)
    centres = random.standard_normal((CLUSTERS // part, DIMENSIONS), dtype=np.float32)
    queries = clustered(random, centres, QUERIES)
    with standing(rows=0) as ground:
        tenants = [filled(ground, name, clustered(random, centres, count // part)) for name, count in TENANTS.items()]
        for tenant in tenants:
            if len(tenant.vectors) >= least:
                await_index(ground, tenant)
        held = [recall(ground, tenants, queries), rates(ground, tenants[0], queries)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
