"""A page of references costs what the page holds, wherever it is in the list."""

from __future__ import annotations

import json

import asyncpg

from app.attachments.store import ATTACHMENTS
from app.http.service import Service
from tests.plans import kept_plan


def nodes(plan: dict[str, object]) -> list[str]:
    """The kinds of the nodes of a plan."""
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    return [str(plan["Node Type"]), *(name for part in below for name in nodes(part))]


FILTERS = ((), ("path",), ("path", "conversation_id"))
ROWS = """
INSERT INTO tenants (tenant_id) VALUES ('t');
INSERT INTO stream_paths (tenant_id, path) SELECT 't', 'p' || n FROM generate_series(1, 1000) AS n;
INSERT INTO contents (tenant_id, size_bytes, digest, chunk_bytes)
  SELECT 't', 0, sha256(''), 1 FROM generate_series(1, 10000);
INSERT INTO attachments (tenant_id, path_number, id, content_number, conversation_id, mime_type)
  SELECT 't', p.number, c.number::text, c.number, 'c', 'x/y'
  FROM contents AS c JOIN stream_paths AS p ON p.path = 'p' || (c.number % 1000 + 1);
ANALYZE attachments; ANALYZE contents; ANALYZE stream_paths
"""


async def test_no_page_sorts_or_reads_what_it_does_not_show(fresh: Service) -> None:
    connection = await asyncpg.connect(fresh.ground.database.url)
    try:
        await connection.execute(ROWS)
        for given in FILTERS:
            for place in ("start", "key"):
                statement = ATTACHMENTS._statement("created_at", "asc", frozenset(given), frozenset(), place, 64)
                plan = json.loads(await kept_plan(connection, statement.text, len(statement.parameters)))[0]["Plan"]
                assert {"Sort", "Seq Scan"}.isdisjoint(nodes(plan)), (given, place, nodes(plan))
    finally:
        await connection.close()
