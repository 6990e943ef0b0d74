"""The list of invocations, its filters and sorts, and what a filtered set adds up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.db.database import Answer, Reader
from app.db.page import Listing, Sort
from app.db.sql import Statement
from app.errors import MalformedRequest, invalid
from app.http.cutting import read_payload
from app.http.fields import JsonObject
from app.invocations.schemas import InvocationFilter
from app.invocations.store import INVOCATION

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
_LINKS = ("workflow_id", "version_id", "run_id", "generation_id", "session_id", "parent_invocation_id")

INVOCATIONS = Listing(
    "invocations",
    "invocations AS t",
    INVOCATION,
    sorts={
        "started_at": Sort("{t}.started_at", "timestamptz", nullable=True),
        "ended_at": Sort("{t}.ended_at", "timestamptz", nullable=True),
        "status": Sort("{t}.status", "text"),
        "usd_cost": Sort("{t}.usd_cost", "numeric", nullable=True),
        "fitness_score": Sort("{t}.fitness_score", "float8", nullable=True),
        "accuracy": Sort("{t}.accuracy", "float8", nullable=True),
        "duration": Sort("{t}.duration_seconds", "float8", nullable=True),
    },
    default=("started_at", "desc"),
    filters={
        **{name: f"t.{name} = :{name}" for name in _LINKS},
        **_RANGES,
        **_TIMES,
        "one_status": "t.status = :one_status",
        "status": "t.status = ANY (CAST(:status AS text[]))",
        "has_fitness_score": "(t.fitness_score IS NOT NULL) = :has_fitness_score",
        "has_accuracy": "(t.accuracy IS NOT NULL) = :has_accuracy",
        "metadata": "t.metadata @> CAST(:metadata AS jsonb)",
    },
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
    scores, durations = (_PERCENTILES.format(column=column) for column in ("t.fitness_score", "t.duration_seconds"))
    named = "json_build_object('p50', {p}[1], 'p90', {p}[2], 'p95', {p}[3], 'p99', {p}[4])"
    return Statement(
        "WITH chosen AS MATERIALIZED (SELECT t.status, t.usd_cost, t.accuracy, t.fitness_score, t.duration_seconds"
        f" FROM invocations AS t WHERE {where}), totals AS (SELECT count(*) AS count,"
        " trim_scale(sum(t.usd_cost)) AS cost_sum, trim_scale(avg(t.usd_cost)) AS cost_avg,"
        " trim_scale(min(t.usd_cost)) AS cost_min, trim_scale(max(t.usd_cost)) AS cost_max,"
        f" avg(t.accuracy) AS avg_accuracy, {scores} AS scores, {durations} AS durations FROM chosen AS t)"
        " SELECT json_build_object('count', count, 'by_status', (SELECT COALESCE(json_object_agg(s.status, s.n"
        " ORDER BY s.status), '{}'::json) FROM (SELECT status, count(*) AS n FROM chosen GROUP BY status) AS s),"
        " 'usd_cost', json_build_object('sum', cost_sum, 'avg', cost_avg, 'min', cost_min, 'max', cost_max),"
        f" 'avg_accuracy', avg_accuracy, 'fitness_score', {named.format(p='scores')},"
        f" 'duration_seconds', {named.format(p='durations')}) AS body FROM totals",
        "invocation_summary",
    )


async def summary(reader: Reader, tenant_id: str, given: Mapping[str, Any]) -> Answer:
    """Counts, costs, accuracy and percentiles over everything that matches; one statement."""
    row = await reader.row(_summary(frozenset(given)), tenant_id=tenant_id, **given)
    assert row is not None
    return Answer(200, row["body"])
