"""The fifty ancestors of a version among very many and among a thousand: the table's size must not show."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator

import asyncpg

from app.db.migrate import migrate
from app.settings import DatabaseSettings
from benchmarks import generator
from benchmarks.ground import Ground, new_key, service_process
from benchmarks.limit import Query
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison, Load

TENANT = "bench-genealogy"
DEEP, FEW = 50, 1000
PATH = f"/v1/versions/line-{DEEP}/ancestors?limit={DEEP}"
SEED = """
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation, parent1_id, parent2_id)
SELECT $1, id, 'bench-workflow', '{}', 'raw:' || repeat('0', 64),
  CASE WHEN parent1_id IS NULL THEN 'init' WHEN parent2_id IS NULL THEN 'mutation' ELSE 'crossover' END,
  parent1_id, parent2_id
FROM (
  SELECT 'line-' || n, 'line-' || NULLIF(n, 0) - 1, NULL FROM generate_series(0, $2::bigint) AS n
  UNION ALL
  SELECT 'other-' || n, CASE WHEN n % 50 > 0 THEN 'other-' || n - 1 END,
    CASE WHEN n % 50 > 0 AND n > 100 AND n % 7 = 0 THEN 'other-' || n - 50 END
  FROM generate_series(0, $3::bigint) AS n
) AS given (id, parent1_id, parent2_id)
"""
# What one writes by hand where no parents lead in a circle and paths are few.
BY_HAND = """
WITH RECURSIVE up AS (
  SELECT $2::text COLLATE "C" AS id, 0 AS depth
  UNION
  SELECT p.id, up.depth + 1 FROM up JOIN versions AS v ON v.tenant_id = $1 AND v.id = up.id
    CROSS JOIN LATERAL (VALUES (v.parent1_id), (v.parent2_id)) AS p (id) WHERE p.id IS NOT NULL
)
SELECT row_to_json(s) AS body FROM (
  SELECT v.id, v.workflow_id, v.dsl_hash, v.operation, v.parent1_id, v.parent2_id, v.parents_unknown, v.generation_id,
    v.commit_message, v.iteration_budget, v.time_budget_seconds, v.input_schema, v.output_schema, v.knowledge,
    to_char(v.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at, n.depth
  FROM (SELECT id, min(depth) AS depth FROM up WHERE depth > 0 GROUP BY id ORDER BY 2, 1 LIMIT $3::bigint) AS n
  JOIN versions AS v ON v.tenant_id = $1 AND v.id = n.id ORDER BY n.depth, n.id
) AS s
"""


async def fill(url: str, rows: int) -> None:
    """Versions in lines of fifty, and the line that is asked about."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("INSERT INTO workflows (tenant_id, id) VALUES ($1, 'bench-workflow')", TENANT)
        await connection.execute(SEED, TENANT, DEEP, rows, timeout=3600)
        await connection.execute("VACUUM ANALYZE versions", timeout=3600)
    finally:
        await connection.close()


@contextlib.contextmanager
def among_few(ground: Ground, requests: list[Request]) -> Iterator[Load]:
    """The same service on a database of its own with few versions."""
    ground.sql("CREATE DATABASE bench_few")
    url = ground.database_url.rsplit("/", 1)[0] + "/bench_few"
    migrate(DatabaseSettings(url=url), report=lambda _line: None)
    with service_process(url, ground.admin_key) as server:
        key = new_key(server.url, ground.admin_key, TENANT)
        asyncio.run(fill(url, FEW))
        yield lambda clients, seconds: generator.load(server.url, requests, key, clients, seconds).rate


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """The page against itself among few versions, the same statement by the bare driver, and one written by hand."""
    key = ground.tenant_key(TENANT)
    asyncio.run(fill(ground.database_url, ground.rows))
    requests = [Request("GET", PATH)]
    queries, body = ground.recorded(requests, key)
    assert len(json.loads(body)["items"]) == DEEP
    assert len(queries[0]) == 1
    by_hand = Query(BY_HAND, (TENANT, f"line-{DEEP}", DEEP))
    with among_few(ground, requests) as few, ground.bare(requests, body) as bare:
        limits = {
            f"among {FEW:,}": few,
            "SQL by hand": ground.driver([by_hand]),
            "raw asyncpg": ground.driver(queries[0]),
            "bare framework": bare,
        }
        bounds = tuple(Bound(f"among {FEW:,}", 1 / 1.5, clients) for clients in (1, 8, 32))
        yield Comparison(
            f"{DEEP} ancestors among {ground.rows:,} versions", ground.service(requests, key), limits, bounds,
            {"statements": len(queries[0])},
        )  # fmt: skip
