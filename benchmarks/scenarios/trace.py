"""The trace of an invocation of 200 nodes and 2,000 messages: three statements, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, TENANT, VERSION, Ground
from benchmarks.request import Request
from benchmarks.rounds import Comparison

NODES, MESSAGES, STATEMENTS_MAX = 200, 2000, 3
INVOCATION = "bench-trace"
SEED_NODES = """
INSERT INTO node_invocations (tenant_id, invocation_id, id, node_id, node_version_id, status, started_at, ended_at,
  output, usd_cost, digest)
SELECT v.tenant_id, $2, 'node-' || n, v.node_id, v.id, 'completed', timestamptz '2026-01-01' + n * interval '1 second',
  timestamptz '2026-01-01' + (n + 1) * interval '1 second', $4, 0.001, ''
FROM node_versions AS v, generate_series(1, $5::int) AS n WHERE v.tenant_id = $1 AND v.version_id = $3
"""
SEED_MESSAGES = """
INSERT INTO messages (tenant_id, invocation_id, id, seq, from_node_id, to_node_id, origin_node_invocation_id,
  target_node_invocation_id, role, payload, digest)
SELECT $1, $2, 'message-' || n, n, 'node', 'node', 'node-' || 1 + n % $4::int, 'node-' || 1 + (n + 1) % $4::int,
  'delegation', $3, '' FROM generate_series(1, $5::int) AS n
"""


def seed(ground: Ground) -> None:
    """Record the invocation with all that its trace shows."""
    ground.post("/v1/invocations", {"id": INVOCATION, "version_id": VERSION})
    ground.sql(SEED_NODES, TENANT, INVOCATION, VERSION, PAYLOAD, NODES)
    ground.sql(SEED_MESSAGES, TENANT, INVOCATION, PAYLOAD, NODES, MESSAGES)
    ground.sql("ANALYZE")


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """The whole trace with every payload. Raises `AssertionError` when it takes more statements than it may."""
    seed(ground)
    request = Request("GET", f"/v1/invocations/{INVOCATION}/trace?limit={MESSAGES}")
    queries, body = ground.recorded([request])
    assert body.count(PAYLOAD.encode()) == NODES + MESSAGES
    statements = [query for query in queries[0] if not query.text.startswith(("BEGIN", "COMMIT"))]
    assert len(statements) <= STATEMENTS_MAX
    with ground.bare([request], body) as bare:
        yield Comparison(
            f"trace of {NODES} nodes and {MESSAGES:,} messages",
            ground.service([request]),
            {"raw asyncpg": ground.driver(queries[0]), "bare framework": bare},
            facts={"statements": len(statements)},
        )
