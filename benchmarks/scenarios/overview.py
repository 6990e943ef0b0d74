"""What an overview of many invocations asks, against the SQL that a person would write for it, by the bare driver.

Lists by another sort and under a filter, the summary and the costs of what a filter leaves: 1,000 invocations of a
session, 10,000 of a version where the list has a million.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.ground import Ground
from benchmarks.limit import Query
from benchmarks.request import Request
from benchmarks.rounds import Bound, Comparison

TENANT = "bench-overview"
LEAST = 0.5
PAGE = 50
LINKS = """
INSERT INTO workflows (tenant_id, id) SELECT $1, 'w' || n FROM generate_series(0, 9) AS n;
INSERT INTO versions (tenant_id, id, workflow_id, dsl, dsl_hash, operation)
SELECT $1, 'v' || n, 'w' || n % 10, '{}', 'raw:' || repeat('0', 64), 'init' FROM generate_series(0, 99) AS n;
INSERT INTO node_versions (tenant_id, id, version_id, node_id, revision, config_hash)
SELECT $1, 'nv' || n, 'v' || n, 'n', 1, '' FROM generate_series(0, 99) AS n;
INSERT INTO evolution_runs (tenant_id, id) SELECT $1, 'r' || n FROM generate_series(0, 49) AS n;
"""
INVOCATIONS = """
INSERT INTO invocations (tenant_id, id, version_id, workflow_id, run_id, status, started_at, ended_at, usd_cost,
  fitness_score, accuracy, session_id, digest)
SELECT $1, 'inv_' || lpad(n::text, 9, '0'), 'v' || n % 100, 'w' || n % 10, 'r' || n % 50,
  CASE WHEN n % 10 < 7 THEN 'completed' WHEN n % 10 < 9 THEN 'failed' ELSE 'running' END,
  timestamptz '2026-01-01' + n * interval '1 second',
  CASE WHEN n % 10 < 9 THEN timestamptz '2026-01-01' + (n + n % 97) * interval '1 second' END,
  CASE WHEN n % 7 > 0 THEN (n * 7919 % 1000003) / 1000003.0 END, CASE WHEN n % 3 > 0 THEN (n * 31 % 997) / 997.0 END,
  CASE WHEN n % 4 > 0 THEN (n % 91) / 91.0 END, 'session-' || n % 1000, ''
FROM generate_series(1, $2::bigint) AS n
"""
NODES = """
INSERT INTO node_invocations (tenant_id, invocation_id, id, node_id, node_version_id, model, status, started_at,
  ended_at, usd_cost, input_tokens, output_tokens, digest)
SELECT $1, 'inv_' || lpad(n::text, 9, '0'), 'n', 'n' || n % 5, 'nv' || n % 100, 'model-' || n % 6, 'completed',
  timestamptz '2026-01-01' + n * interval '1 second', timestamptz '2026-01-01' + (n + 1) * interval '1 second',
  (n % 1009) / 100000.0, n % 4001, n % 503, ''
FROM generate_series(1, $2::bigint) AS n
"""
COLUMNS = (
    "id, version_id, workflow_id, parent_invocation_id, run_id, generation_id, dataset_record_id, evaluator_id,"
    " submission_id, session_id, status, started_at, ended_at, heartbeat_at, cancel_requested_at, expected_output,"
    " expected_output_type, actual_output, usd_cost, fitness_score, accuracy, novelty, feedback, preparation, error,"
    " metadata, extras, created_at, updated_at"
)
SUMMARY = """
SELECT count(*), count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status = 'running'),
  count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
  count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'rolled_back'),
  sum(usd_cost), avg(usd_cost), min(usd_cost), max(usd_cost), avg(accuracy),
  percentile_cont(ARRAY[0.5, 0.9, 0.95, 0.99]) WITHIN GROUP (ORDER BY fitness_score),
  percentile_cont(ARRAY[0.5, 0.9, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_seconds)
FROM invocations WHERE tenant_id = $1 AND version_id = 'v7'
"""
BY_DAY = """
WITH spent AS (
  SELECT date_trunc('day', started_at) AS day, count(*) AS count, sum(usd_cost) AS usd_cost
  FROM invocations WHERE tenant_id = $1 AND session_id = 'session-7' GROUP BY 1
), told AS (
  SELECT date_trunc('day', i.started_at) AS day, sum(n.input_tokens) AS input_tokens,
    sum(n.output_tokens) AS output_tokens
  FROM invocations AS i JOIN node_invocations AS n ON n.tenant_id = i.tenant_id AND n.invocation_id = i.id
  WHERE i.tenant_id = $1 AND i.session_id = 'session-7' GROUP BY 1
)
SELECT s.*, t.input_tokens, t.output_tokens FROM spent AS s LEFT JOIN told AS t ON t.day = s.day ORDER BY s.day
"""
BY_MODEL = """
SELECT n.model, count(*), sum(n.usd_cost), sum(n.input_tokens), sum(n.output_tokens)
FROM invocations AS i JOIN node_invocations AS n ON n.tenant_id = i.tenant_id AND n.invocation_id = i.id
WHERE i.tenant_id = $1 AND i.session_id = 'session-7' GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class Question:
    """What is asked of the service, and the SQL that a person would write for it."""

    subject: str
    path: str
    sql: str


def _page(where: str, order: str) -> str:
    return f"SELECT {COLUMNS} FROM invocations WHERE tenant_id = $1{where} ORDER BY {order} LIMIT {PAGE + 1}"


QUESTIONS = (
    Question(
        "list by cost, the dearest first",
        f"/v1/invocations?limit={PAGE}&sort=usd_cost&order=desc",
        _page(" AND usd_cost IS NOT NULL", "usd_cost DESC, id DESC"),
    ),
    Question(
        "list of a run, the newest first",
        f"/v1/invocations?limit={PAGE}&run_id=r7",
        _page(" AND run_id = 'r7'", "started_at DESC, id DESC"),
    ),
    Question(
        "list of a session by accuracy, sorted",
        f"/v1/invocations?limit={PAGE}&session_id=session-7&sort=accuracy&order=desc",
        _page(" AND session_id = 'session-7'", "accuracy DESC NULLS LAST, id DESC"),
    ),
    Question("summary of a version", "/v1/invocations/summary?version_id=v7", SUMMARY),
    Question("costs of a session by day", "/v1/costs?group_by=day&session_id=session-7", BY_DAY),
    Question("costs of a session by model", "/v1/costs?group_by=model&session_id=session-7", BY_MODEL),
)


def seed(ground: Ground) -> str:
    """Fill the tables and every index with them, and give a key of the tenant."""
    key = ground.tenant_key(TENANT)
    for statement in LINKS.strip().split(";\n"):
        ground.sql(statement.rstrip(";").replace("$1", "$1::text"), TENANT)
    for statement in (INVOCATIONS, NODES):
        ground.sql(statement.replace("$1", "$1::text"), TENANT, ground.rows)
    for table in ("invocations", "node_invocations"):
        ground.sql(f"VACUUM ANALYZE {table}")
    return key


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Each question against its SQL. Raises `AssertionError` where it takes more than one statement."""
    key = seed(ground)
    for question in QUESTIONS:
        request = Request("GET", question.path)
        queries, body = ground.recorded([request], key)
        assert len(queries[0]) == 1, question.subject
        with ground.bare([request], body) as bare:
            yield Comparison(
                question.subject,
                ground.service([request], key),
                {
                    "hand-written SQL": ground.driver([Query(question.sql, (TENANT,))]),
                    "raw asyncpg": ground.driver(queries[0]),
                    "bare framework": bare,
                },
                (Bound("hand-written SQL", LEAST),),
                {"statements": len(queries[0])},
            )
