"""The list of runs, and the configurations that a run saw."""

from __future__ import annotations

from app.db.page import Listing, Sort
from app.db.shape import Shape, money
from app.evolution.links import DELTA_OF_RUN, DURATION, GENERATIONS_OF_RUN, SUMS_OF_RUN, versions_of_run
from app.evolution.store import RUN_SEEN

_FILTERS = {
    "status": "t.status = ANY (CAST(:status AS text[]))",
    "evolution_type": "t.evolution_type = :evolution_type",
    "owner_id": "t.owner_id = :owner_id",
    "q": "(position(lower(:q) IN lower(t.goal_text)) > 0 OR position(lower(:q) IN lower(t.id)) > 0"
    " OR position(lower(:q) IN lower(t.notes)) > 0)",
    "config_q": "position(lower(:config_q) IN lower(CAST(t.config AS text))) > 0",
    "started_after": "t.started_at >= :started_after",
    "started_before": "t.started_at < :started_before",
    "hide_empty": "(NOT :hide_empty OR EXISTS (SELECT FROM generations AS g WHERE g.tenant_id = t.tenant_id"
    " AND g.run_id = t.id) OR EXISTS (SELECT FROM invocations AS i WHERE i.tenant_id = t.tenant_id"
    " AND i.run_id = t.id))",
}

# What is derived stands in what is shown, so it is computed for the rows of the page alone.
RUNS = Listing(
    "evolution_runs",
    "evolution_runs AS t",
    RUN_SEEN,
    sorts={
        "started_at": Sort("{t}.started_at", "timestamptz"),
        "ended_at": Sort("{t}.ended_at", "timestamptz", nullable=True),
        "status": Sort("{t}.status", "text"),
        "id": Sort("{t}.id", "text"),
        "goal_text": Sort('{t}.goal_text COLLATE "C"', "text", nullable=True),
        "evolution_type": Sort('{t}.evolution_type COLLATE "C"', "text", nullable=True),
        "duration": Sort(DURATION, "float8", nullable=True),
    },
    default=("started_at", "desc"),
    filters=_FILTERS,
)


def _sorted_by(row: str, **sorts: Sort) -> Listing:
    """The list of runs, sorted by what is derived beside every run that matches; the rest for the page alone."""
    return Listing(
        f"evolution_runs_by_{'_'.join(sorts)}",
        f"evolution_runs AS t CROSS JOIN {row.replace('{t}', 't')}",
        RUN_SEEN,
        sorts=sorts,
        default=(next(iter(sorts)), "asc"),
        filters=_FILTERS,
    )


RUNS_BY_GENERATIONS = _sorted_by(GENERATIONS_OF_RUN, generation_count=Sort("k.generation_count", "bigint"))
RUNS_BY_SUMS = _sorted_by(
    SUMS_OF_RUN,
    invocation_count=Sort("k.invocation_count", "bigint"),
    successful_invocation_count=Sort("k.successful_invocation_count", "bigint"),
    total_cost=Sort("k.total_cost", "numeric"),
)
RUNS_BY_DELTA = _sorted_by(DELTA_OF_RUN, accuracy_delta=Sort("k.accuracy_delta", "float8", nullable=True))


def sorted_by(sort: str | None) -> Listing:
    """The list of runs that has this sort."""
    return next((found for found in (RUNS_BY_GENERATIONS, RUNS_BY_SUMS, RUNS_BY_DELTA) if sort in found.sorts), RUNS)


# Versions with one DSL are one configuration, whatever their ancestry.
CONFIGURATIONS = Listing(
    "configurations",
    f"""evolution_runs AS r CROSS JOIN LATERAL (
  SELECT r.tenant_id, v.dsl_hash COLLATE "C" AS dsl_hash,
    (array_agg(v.id ORDER BY s.number, v.created_at, v.id))[1] AS first_version_id,
    min(s.number) AS first_generation_number, max(s.number) AS last_generation_number,
    count(DISTINCT s.number) AS generation_count, count(DISTINCT v.id) AS version_count,
    CAST(sum(s.invocations) AS bigint) AS invocation_count,
    CAST(sum(s.successes) AS bigint) AS successful_invocation_count,
    max(s.fitness) AS best_fitness, COALESCE(sum(s.cost), 0) AS total_cost
  FROM {versions_of_run("r.tenant_id", "r.id")} AS s
  JOIN versions AS v ON v.tenant_id = r.tenant_id AND v.id = s.version_id
  GROUP BY v.dsl_hash COLLATE "C"
) AS t""",
    Shape(
        "dsl_hash",
        "first_version_id",
        "first_generation_number",
        "last_generation_number",
        "generation_count",
        "version_count",
        "invocation_count",
        "successful_invocation_count",
        "best_fitness",
        money("total_cost"),
    ),
    sorts={
        "first_generation_number": Sort("{t}.first_generation_number", "bigint", nullable=True),
        "last_generation_number": Sort("{t}.last_generation_number", "bigint", nullable=True),
        "version_count": Sort("{t}.version_count", "bigint"),
        "invocation_count": Sort("{t}.invocation_count", "bigint"),
        "best_fitness": Sort("{t}.best_fitness", "float8", nullable=True),
        "total_cost": Sort("{t}.total_cost", "numeric"),
    },
    default=("first_generation_number", "asc"),
    filters={"run_id": "r.tenant_id = :tenant_id AND r.id = :run_id"},
    ids=("t.dsl_hash",),
)
