"""The list of runs: in index order where a column sorts it, computed for all that match where a derived value does."""

from __future__ import annotations

from app.db.page import Listing, Sort
from app.db.shape import Shape, computed
from app.evolution.links import DERIVED, RUN_TOTALS
from app.evolution.store import RUN, RUN_SEEN

_FILTERS = {
    "status": "t.status = ANY (CAST(:status AS text[]))",
    "evolution_type": "t.evolution_type = :evolution_type",
    "owner_id": "t.owner_id = :owner_id",
    "q": "(position(lower(:q) IN lower(t.goal_text)) > 0 OR position(lower(:q) IN lower(t.id)) > 0)",
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
    },
    default=("started_at", "desc"),
    filters=_FILTERS,
)
# What is derived is computed beside every run that matches, since it orders them.
RUNS_BY_DERIVED = Listing(
    "evolution_runs_by_derived",
    f"evolution_runs AS t CROSS JOIN {RUN_TOTALS.replace('{t}', 't')}",
    Shape(*RUN.columns, *(computed(name, f"d.{name}") for name in DERIVED)),
    sorts={
        "duration": Sort("d.duration", "float8", nullable=True),
        "generation_count": Sort("d.generation_count", "bigint"),
        "invocation_count": Sort("d.invocation_count", "bigint"),
        "successful_invocation_count": Sort("d.successful_invocation_count", "bigint"),
        "total_cost": Sort("d.total_cost", "numeric"),
        "accuracy_delta": Sort("d.accuracy_delta", "float8", nullable=True),
    },
    default=("duration", "desc"),
    filters=_FILTERS,
)


def sorted_by(sort: str | None) -> Listing:
    """The listing that has this sort."""
    return RUNS_BY_DERIVED if sort in RUNS_BY_DERIVED.sorts else RUNS
