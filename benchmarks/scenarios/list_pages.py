"""Pages of 1,000 of a long list of invocations: the last page must cost no more than the first, give or take."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

from benchmarks.ground import VERSION, Ground
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

TENANT = "bench-lists"
PAGE = 1000
FIRST = f"/v1/invocations?limit={PAGE}"
SEED = """
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, ended_at, usd_cost, fitness_score,
  accuracy, session_id, digest)
SELECT $1, 'inv_' || lpad(n::text, 9, '0'), $2, 'bench-workflow', 'completed',
  timestamptz '2026-01-01' + n * interval '1 second', timestamptz '2026-01-01' + (n + n % 100) * interval '1 second',
  (n % 1000) / 1000.0, CASE WHEN n % 3 > 0 THEN (n % 997) / 997.0 END, CASE WHEN n % 4 > 0 THEN (n % 91) / 91.0 END,
  'session-' || n % 100, ''
FROM generate_series(1, $3::bigint) AS n
"""


def seed(ground: Ground) -> str:
    """Fill the list, every index with it, and give a key of its tenant."""
    key = ground.tenant_key(TENANT)
    ground.sql("INSERT INTO workflows (tenant_id, id) VALUES ($1, 'bench-workflow')", TENANT)
    ground.sql(
        "INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)"
        " VALUES ($1, $2, 'bench-workflow', '{}', 'raw:' || repeat('0', 64), 'init')",
        TENANT, VERSION,
    )  # fmt: skip
    ground.sql(SEED, TENANT, VERSION, ground.rows)
    ground.sql("VACUUM ANALYZE invocations")
    return key


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """The first page and the last against the same statement by the bare driver, and the last against the first."""
    key = seed(ground)
    first = Request("GET", FIRST)
    last = Request("GET", last_page(ground, key))
    loads = {}
    for name, request in (("first", first), ("last", last)):
        queries, body = ground.recorded([request], key)
        loads[name] = ground.service([request], key)
        limits = {"raw asyncpg": ground.driver(queries[0])}
        bounds: tuple[Bound, ...] = ()
        if name == "last":
            limits["first page"] = loads["first"]
            bounds = tuple(Bound("first page", 1 / 1.5, clients) for clients in (1, 8, 32))
        with ground.bare([request], body) as bare:
            limits["bare framework"] = bare
            facts = {"statements": len(queries[0]), "pages of the list": -(-ground.rows // PAGE)}
            yield Comparison(f"{name} page of {PAGE} invocations", loads[name], limits, bounds, facts)


def last_page(ground: Ground, key: str) -> str:
    """The path of the last page, found by turning every page before it."""
    path, cursor = FIRST, ""
    while True:
        request = urllib.request.Request(ground.server.url + path, headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            cursor = json.loads(answer.read())["next_cursor"]
        if cursor is None:
            return path
        path = f"{FIRST}&cursor={cursor}"
