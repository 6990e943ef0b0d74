"""Versions written straight into the tables: many at once, and lineages that the API would refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx

from app.http.service import Service

SEED = """
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation, parent1_id, parent2_id)
SELECT $1::text, id, 'w', '{}', 'raw:' || repeat('0', 64),
  CASE WHEN parent1_id IS NULL THEN 'init' WHEN parent2_id IS NULL THEN 'mutation' ELSE 'crossover' END,
  parent1_id, parent2_id
FROM (%s) AS given (id, parent1_id, parent2_id)
"""
# Two versions in each of 201 levels, each with both of the level before as parents: 2^200 ways down to the first.
LATTICE = """
SELECT 'l' || d || '-' || k, 'l' || NULLIF(d, 0) - 1 || '-0', 'l' || NULLIF(d, 0) - 1 || '-1'
FROM generate_series(0, 200) AS d, generate_series(0, 1) AS k
"""
STAR = "SELECT 's' || n, CASE WHEN n > 0 THEN 's0' END, NULL FROM generate_series(0, 20000) AS n"
# Each descends from the two before it, so most are reached at many depths.
LADDER = """
SELECT 'c' || n, CASE WHEN n > 0 THEN 'c' || n - 1 END, CASE WHEN n > 1 THEN 'c' || n - 2 END
FROM generate_series(0, 20000) AS n
"""
CIRCLE = "VALUES ('x', 'z', 'y'), ('y', 'x', NULL), ('z', 'y', NULL)"


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the service's database."""
    connection = await asyncpg.connect(service.ground.database.url)
    try:
        yield connection
    finally:
        await connection.close()


async def insert(service: Service, client: httpx.AsyncClient, *lineages: str) -> None:
    """Write lineages of the client's tenant, as SQL that gives `(id, parent1_id, parent2_id)`."""
    tenant = client.headers["x-test-tenant"]
    async with connected(service) as connection:
        await connection.execute(
            "INSERT INTO workflows (tenant_id, id) VALUES ($1, 'w') ON CONFLICT DO NOTHING", tenant
        )
        for lineage in lineages:
            await connection.execute(SEED % lineage, tenant)
        await connection.execute("ANALYZE versions")


async def everything(client: httpx.AsyncClient, path: str) -> list[tuple[str, int]]:
    """Id and depth of each item of a list, read page by page."""
    found: list[tuple[str, int]] = []
    cursor = ""
    while True:
        answer = await client.get(path + ("&" if "?" in path else "?") + "limit=1000" + cursor)
        assert answer.status_code == 200, answer.text
        found += [(item["id"], item["depth"]) for item in answer.json()["items"]]
        if answer.json()["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer.json()['next_cursor']}"
