"""Claim the next submission and complete it: two requests from each client, a hundred thousand waiting."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import TENANT, Ground
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

LEAST = 0.5
SESSIONS, EACH = 10_000, 10
CLAIM = Request("POST", "/v1/submissions/claim-next", '{"owner_id":"bench-~~","agent":"bench","lease_seconds":60}')
COMPLETE = Request("POST", "/v1/submissions/<<id>>/complete", '{"attempt_id":"<<attempt_id>>"}')
FILL_SESSIONS = """
INSERT INTO submission_sessions (tenant_id, session_key, open_count)
SELECT $1, $2 || '-' || session, CAST($4 AS bigint) FROM generate_series(1, CAST($3 AS integer)) AS session
"""
# The ids are as wide as the load generator counts on.
FILL = """
INSERT INTO submissions
  (tenant_id, id, session_number, kind, agent, instance_id, input, digest, is_head, canonical_ready_at)
SELECT $1, 's' || lpad(CAST(row_number() OVER (ORDER BY turn, k.number) AS text), 11, '0'), k.number, 'direct', $2, 'i',
  json_build_object('text', repeat('measure ', 64)), sha256('x'), turn = 1, clock_timestamp()
FROM submission_sessions AS k, generate_series(1, CAST($3 AS integer)) AS turn
WHERE k.tenant_id = $1 AND k.session_key LIKE $2 || '-%' ORDER BY turn, k.number
"""


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Without Idempotency-Keys, and with one on each request."""
    sessions = min(SESSIONS, ground.rows // EACH)
    fill(ground, TENANT, "bench", sessions, EACH)
    for subject, requests in (
        ("claim the next and complete it", [CLAIM, COMPLETE]),
        ("claim the next and complete it, Idempotency-Key", [CLAIM.with_key("claim"), COMPLETE.with_key("complete")]),
    ):
        queries, _body = ground.recorded(requests)
        yield Comparison(
            subject,
            ground.service(requests),
            {"raw asyncpg": ground.driver([query for of_one in queries for query in of_one], len(requests))},
            (Bound("raw asyncpg", LEAST),),
            {"statements for each request": max(map(len, queries)), "queued at the start": sessions * EACH},
        )


def filled(ground: Ground) -> list[Request]:
    """Both requests, with submissions waiting for them."""
    if not ground.sql("SELECT FROM submissions WHERE tenant_id = $1 LIMIT 1", TENANT):
        fill(ground, TENANT, "bench", SESSIONS, EACH)
    return [CLAIM, COMPLETE]


def fill(ground: Ground, tenant_id: str, agent: str, sessions: int, each: int) -> None:
    """Let so many submissions wait in so many sessions, the first of each its head."""
    ground.sql(FILL_SESSIONS, tenant_id, agent, sessions, each)
    ground.sql(FILL, tenant_id, agent, each)
    ground.sql("VACUUM ANALYZE submissions, submission_sessions")
