"""What people ask of a run: how it came on, what was best, and how everything descends. Each is one statement."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader
from app.db.mean import mean
from app.db.shape import Shape, computed, instant, money
from app.db.sql import load
from app.evolution.links import invocations_of_run, versions_of_run
from app.evolution.store import not_found
from app.invocations.store import INVOCATION
from app.versions.store import VERSION

STEP = Shape(
    computed("generation_id", "{t}.id"),
    "number",
    instant("started_at"),
    instant("ended_at"),
    "best_version_id",
    computed("best_fitness", "COALESCE({t}.best_fitness, ran.best, scored.best)"),
    computed("avg_fitness", "COALESCE({t}.avg_fitness, ran.average, scored.average)"),
    computed("worst_fitness", "COALESCE({t}.worst_fitness, ran.worst, scored.worst)"),
    computed("accuracy", "ran.accuracy"),
    computed("usd_cost", "trim_scale(COALESCE(ran.cost, {t}.evaluation_cost))"),
    computed("invocation_count", "COALESCE(ran.invocations, 0)"),
    computed("successful_invocation_count", "COALESCE(ran.successes, 0)"),
)
# An invocation without its payloads, with the number of its generation and its version without the DSL.
FOUND = Shape(
    *(column for column in INVOCATION.columns if not column.verbatim),
    computed("generation_number", "b.number"),
    computed("version", VERSION.json("v")),
)
VERSION_NODE = Shape(
    computed("kind", "'version'::text"),
    "id",
    "workflow_id",
    computed("generation_number", "{t}.number"),
    "operation",
    "dsl_hash",
    "parent1_id",
    "parent2_id",
    "commit_message",
    computed("invocation_count", "{t}.invocations"),
    computed("best_fitness", "{t}.fitness"),
    instant("created_at"),
)
INVOCATION_NODE = Shape(
    computed("kind", "'invocation'::text"),
    "id",
    "version_id",
    "parent_invocation_id",
    computed("generation_number", "l.number"),
    "status",
    instant("started_at"),
    instant("ended_at"),
    computed("duration", "{t}.duration_seconds"),
    money("usd_cost"),
    "fitness_score",
    "accuracy",
)

_SQL = load(
    __file__,
    "read_queries.sql",
    step=STEP.json("g"),
    found=FOUND.json("i"),
    version_node=VERSION_NODE.json("v"),
    invocation_node=INVOCATION_NODE.json("i"),
    mean_fitness=mean("l.fitness_score"),
    mean_accuracy=mean("l.accuracy"),
    mean_member=mean("m.fitness"),
    invocations_of_run=invocations_of_run(":tenant_id", ":run_id"),
    versions_of_run=versions_of_run(":tenant_id", ":run_id", "linked"),
)


async def progress(reader: Reader, tenant_id: str, run_id: str, *, limit: int, from_number: int = 0) -> Answer:
    """Fitness, accuracy and cost of each generation, by number. Raises `EvolutionRunNotFound`."""
    return await _answer(reader, "progress", tenant_id, run_id, limit=limit, from_number=from_number)


async def best(reader: Reader, tenant_id: str, run_id: str, *, n: int, each_version: bool = False) -> Answer:
    """The n best invocations of the run, or of each version its best. Raises `EvolutionRunNotFound`."""
    return await _answer(reader, "best_of_each_version" if each_version else "best", tenant_id, run_id, n=n)


async def graph(
    reader: Reader,
    tenant_id: str,
    run_id: str,
    *,
    limit: int,
    from_number: int | None = None,
    to_number: int | None = None,
) -> Answer:
    """The run's versions and invocations as nodes, at most `limit` of each, and what descends from what as edges.

    Raises `EvolutionRunNotFound`.
    """
    return await _answer(reader, "graph", tenant_id, run_id, limit=limit, from_number=from_number, to_number=to_number)


async def _answer(reader: Reader, name: str, tenant_id: str, run_id: str, **arguments: Any) -> Answer:
    row = await reader.row(_SQL[name], tenant_id=tenant_id, run_id=run_id, **arguments)
    if row is None:
        raise not_found(run_id)
    return Answer(200, row["body"])
