"""The list of invocations, its filters and sorts, and what a filtered set adds up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.db.database import Answer, Reader
from app.db.mean import half, mean
from app.db.page import Listing, Sort
from app.db.shape import Shape
from app.db.sql import Statement
from app.errors import MalformedRequest, invalid
from app.http.cutting import read_payload
from app.http.fields import JsonObject
from app.invocations.schemas import InvocationFilter
from app.invocations.store import DESCRIBED, INVOCATION

_RANGES = {
    f"{side}_{name}": f"t.{name} {sign} :{side}_{name}"
    for name in ("usd_cost", "fitness_score", "accuracy")
    for side, sign in (("min", ">="), ("max", "<="))
}
_TIMES = {
    f"{name}_{side}": f"t.{name}_at {sign} :{name}_{side}"
    for name in ("started", "ended", "created")
    for side, sign in (("after", ">="), ("before", "<"))
}
# The run that an invocation names, or else that of its generation, or else that of its version's generation: each is
# counted once, whichever way it is reached. The lists of ids are read once, and each of the three ways has its index.
_OF_RUN = """(t.run_id = :linked_run_id OR t.run_id IS NULL AND (
  t.generation_id = ANY (ARRAY(SELECT g.id FROM generations AS g
    WHERE g.tenant_id = :tenant_id AND g.run_id = :linked_run_id))
  OR t.generation_id IS NULL AND t.version_id = ANY (ARRAY(SELECT v.id FROM generations AS g
    JOIN versions AS v ON v.tenant_id = g.tenant_id AND v.generation_id = g.id
    WHERE g.tenant_id = :tenant_id AND g.run_id = :linked_run_id))))"""
_LINKS = ("workflow_id", "version_id", "run_id", "generation_id", "session_id", "parent_invocation_id")

INVOCATIONS = Listing(
    "invocations",
    "invocations AS t",
    DESCRIBED,
    sorts={
        "started_at": Sort("{t}.started_at", "timestamptz", nullable=True),
        "ended_at": Sort("{t}.ended_at", "timestamptz", nullable=True),
        "status": Sort("{t}.status", "text"),
        "usd_cost": Sort("{t}.usd_cost", "numeric", nullable=True),
        "fitness_score": Sort("{t}.fitness_score", "float8", nullable=True),
        "accuracy": Sort("{t}.accuracy", "float8", nullable=True),
        "duration": Sort("{t}.duration_seconds", "float8", nullable=True),
        # Their indexes go on with the time of the start: what one run, generation or version holds is sorted by id.
        "run_id": Sort("{t}.run_id", "text", nullable=True),
        "generation_id": Sort("{t}.generation_id", "text", nullable=True),
        "version_id": Sort("{t}.version_id", "text"),
    },
    default=("started_at", "desc"),
    filters={
        **{name: f"t.{name} = :{name}" for name in _LINKS},
        **_RANGES,
        **_TIMES,
        "linked_run_id": _OF_RUN,
        "one_status": "t.status = :one_status",
        "status": "t.status = ANY (CAST(:status AS text[]))",
        "has_fitness_score": "(t.fitness_score IS NOT NULL) = :has_fitness_score",
        "has_accuracy": "(t.accuracy IS NOT NULL) = :has_accuracy",
        "metadata": "t.metadata @> CAST(:metadata AS jsonb)",
    },
)

# Each invocation has one parent, so the way up is a chain and what is below is a tree; only a circle of parents could
# lead back. The way up is walked as far as it has invocations, each counted once; the way down stops at the start,
# which is the one place where a circle closes. Each row is looked up by its key, whatever the planner guesses.
_LINEAGE = """(WITH RECURSIVE reached AS (
  SELECT i.id, i.parent_invocation_id FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = :start
  UNION
  SELECT p.id, p.parent_invocation_id FROM reached AS r
  JOIN invocations AS p ON p.tenant_id = :tenant_id AND p.id = r.parent_invocation_id
), above AS (
  SELECT i.id, i.parent_invocation_id, CAST(0 AS bigint) AS depth FROM invocations AS i
  WHERE i.tenant_id = :tenant_id AND i.id = :start
  UNION ALL
  SELECT p.id, p.parent_invocation_id, a.depth - 1 FROM above AS a
  JOIN invocations AS p ON p.tenant_id = :tenant_id AND p.id = a.parent_invocation_id
  WHERE -a.depth < LEAST((SELECT count(*) - 1 FROM reached), CAST(:max_depth AS bigint))
), below AS (
  SELECT a.id, a.depth FROM above AS a WHERE a.depth = 0
  UNION ALL
  SELECT c.id, b.depth + 1 FROM below AS b
  JOIN invocations AS c ON c.tenant_id = :tenant_id AND c.parent_invocation_id = b.id AND c.id <> :start
  WHERE CAST(:max_depth AS bigint) IS NULL OR b.depth < CAST(:max_depth AS bigint)
), related AS (
  SELECT a.id, a.depth FROM above AS a
  UNION ALL
  SELECT b.id, b.depth FROM below AS b WHERE b.id NOT IN (SELECT a.id FROM above AS a)
)
SELECT i.*, r.depth FROM related AS r CROSS JOIN LATERAL (
  SELECT * FROM invocations AS i WHERE i.tenant_id = :tenant_id AND i.id = r.id LIMIT 1
) AS i) AS t"""
LINEAGE = Listing(
    "lineage",
    _LINEAGE,
    Shape(*INVOCATION.columns, "depth"),
    sorts={"depth": Sort("{t}.depth", "bigint")},
    default=("depth", "asc"),
    # Both are said where the rows are found.
    filters={"start": "CAST(:start AS text) IS NOT NULL", "max_depth": "true"},
)

_PERCENTILES = "percentile_cont(ARRAY[0.5, 0.9, 0.95, 0.99]) WITHIN GROUP (ORDER BY {column})"


def filters(query: InvocationFilter, given: Mapping[str, Any]) -> dict[str, Any]:
    """The filters as the listing takes them; one status alone reads in index order."""
    found = dict(given)
    if query.status is not None and len(query.status) == 1:
        found["one_status"] = query.status[0]
        del found["status"]
    if query.metadata is not None:
        found["metadata"] = _contained(query.metadata)
    return found


def _contained(text: str) -> bytes:
    try:
        return JsonObject.checked(read_payload(text.encode()))
    except (MalformedRequest, ValueError):
        raise invalid("metadata", "must be a JSON object that jsonb can hold") from None


def _summary(given: frozenset[str]) -> Statement:
    where = INVOCATIONS.where(given)
    scores, durations = (
        _PERCENTILES.format(column=column) for column in (half("t.fitness_score"), "t.duration_seconds")
    )
    named = "json_build_object('p50', {n} * {p}[1], 'p90', {n} * {p}[2], 'p95', {n} * {p}[3], 'p99', {n} * {p}[4])"
    return Statement(
        "WITH chosen AS MATERIALIZED (SELECT t.status, t.usd_cost, t.accuracy, t.fitness_score, t.duration_seconds"
        f" FROM invocations AS t WHERE {where}), totals AS (SELECT count(*) AS count,"
        " trim_scale(sum(t.usd_cost)) AS cost_sum, trim_scale(avg(t.usd_cost)) AS cost_avg,"
        " trim_scale(min(t.usd_cost)) AS cost_min, trim_scale(max(t.usd_cost)) AS cost_max,"
        f" {mean('t.accuracy')} AS avg_accuracy, {scores} AS scores, {durations} AS durations FROM chosen AS t)"
        " SELECT json_build_object('count', count, 'by_status', (SELECT COALESCE(json_object_agg(s.status, s.n"
        " ORDER BY s.status), '{}'::json) FROM (SELECT status, count(*) AS n FROM chosen GROUP BY status) AS s),"
        " 'usd_cost', json_build_object('sum', cost_sum, 'avg', cost_avg, 'min', cost_min, 'max', cost_max),"
        f" 'avg_accuracy', avg_accuracy, 'fitness_score', {named.format(p='scores', n=2)},"
        f" 'duration_seconds', {named.format(p='durations', n=1)}) AS body FROM totals",
        "invocation_summary",
    )


async def summary(reader: Reader, tenant_id: str, given: Mapping[str, Any]) -> Answer:
    """Counts, costs, accuracy and percentiles over everything that matches; one statement."""
    row = await reader.row(_summary(frozenset(given)), tenant_id=tenant_id, **given)
    assert row is not None
    return Answer(200, row["body"])
