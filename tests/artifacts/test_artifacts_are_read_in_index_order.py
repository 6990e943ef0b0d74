"""A page of artifacts, and a look of collection, cost what they show, however many there are."""

from __future__ import annotations

import asyncpg

from app.artifacts.reference_store import REFERENCES
from app.artifacts.store import ARTIFACTS
from app.http.service import Service
from tests.artifacts.collecting import collection_of
from tests.plans import kept_plan

ROWS = """
INSERT INTO tenants (tenant_id) VALUES ('t'), ('u');
INSERT INTO artifacts (tenant_id, hash, state, size_bytes, part_bytes, part_digests, created_at)
  SELECT t, sha256(n::text::bytea), 'live', 1, 1, '', clock_timestamp() - n * interval '1 second'
  FROM generate_series(1, 50000) AS n, (VALUES ('t'), ('u')) AS v (t);
ANALYZE artifacts; ANALYZE artifact_references
"""


async def test_no_page_and_no_look_reads_all_artifacts(fresh: Service) -> None:
    connection = await asyncpg.connect(fresh.ground.database.url)
    collection = collection_of(fresh)
    statements = [
        *(
            ARTIFACTS._statement("created_at", "desc", frozenset(given), frozenset(), place, 64)
            for given in ((), ("created_after",)) for place in ("start", "key")
        ),
        REFERENCES._statement("name", "asc", frozenset({"invocation_id"}), frozenset(), "key", 64),
        *(collection._sql[name] for name in ("mark", "give_up", "lock_marked", "to_delete")),
    ]  # fmt: skip
    try:
        await connection.execute(ROWS)
        for statement in statements:
            plan = await kept_plan(connection, statement.text, len(statement.parameters), "FORMAT TEXT")
            assert "Seq Scan on artifacts" not in plan, plan
    finally:
        await connection.close()
