"""The client's calls about evolution against the running service, as an engine makes them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.client import AsyncCairn, Cairn, ConflictError, Json, NotFoundError
from tests.e2e.conftest import Served

HOSTILE = Json(r'{"b": [1.0, 1e400, "cut \ud83d \u0000"],  "a": 9223372036854775809, "a": null}')


async def test_a_run_of_generations_and_what_it_resumes_from(served: Served, cairn: Cairn) -> None:
    first, second = (cairn.versions.create("wf_1", dsl={"n": n}, workflow={}, operation="init").id for n in range(2))
    run = cairn.evolution_runs.create(goal_text="Find it", config={"n": 1}, generation={"comment": "seeds"})
    zero = cairn.generations.by_number(run.id, 0)
    assert (run.status, run.config, zero.comment, zero.member_count) == ("running", {"n": 1}, "seeds", 0)
    with pytest.raises(NotFoundError, match="no_completed_generation"):
        cairn.generations.last_completed(run.id)
    batch = cairn.batch()
    members = batch.generations.set_members(
        zero.id, [{"version_id": first, "rank": 1, "fitness": 0.25}, {"version_id": second, "rank": 0, "fitness": 0.5}]
    )
    cost = Decimal("12345678901234567890.123456789012345678")
    completed = batch.generations.complete(
        zero.id, best_version_id=second, stats={"best_fitness": 0.5, "evaluation_cost": cost}
    )
    batch.evolution_runs.set_checkpoint(run.id, HOSTILE)
    batch.send()
    assert [(one.version_id, one.rank, one.fitness) for one in members.result()] == [
        (second, 0, 0.5),
        (first, 1, 0.25),
    ]
    assert (completed.result().stats.best_fitness, completed.result().stats.evaluation_cost) == (0.5, cost)
    assert cairn.evolution_runs.checkpoint(run.id) == HOSTILE
    resumed = cairn.generations.last_completed(run.id)
    assert (resumed.number, resumed.checkpoint, resumed.best_version_id) == (0, HOSTILE, second)
    assert [one.version_id for one in resumed.members] == [second, first]
    assert cairn.generations.last_completed(run.id, checkpoint=False).checkpoint is None
    async with AsyncCairn(served.url, key=served.key) as other:
        opened = await other.generations.create(run.id, comment="next")
        assert [one.number async for one in other.generations.list(run.id, limit=1)] == [0, 1]
        assert (await other.generations.patch(opened.id, feedback="f")).feedback == "f"
        assert [one.fitness for one in await other.generations.members(zero.id)] == [0.5, 0.25]
        assert (await other.evolution_runs.heartbeat(run.id)).heartbeat_at is not None
        ended = await other.evolution_runs.complete(run.id, "interrupted", notes="killed")
        assert (ended.status, ended.notes) == ("interrupted", "killed")
        with pytest.raises(ConflictError) as refused:
            await other.evolution_runs.heartbeat(run.id)
        assert refused.value.facts["current_status"] == "interrupted"
        assert (await other.evolution_runs.reopen(run.id)).status == "running"
        assert (await other.evolution_runs.patch(run.id, notes=None)).notes is None
        listed = [one async for one in other.evolution_runs.list(status=["running"], sort="total_cost")]
        assert [(one.id, one.generation_count, one.total_cost) for one in listed] == [(run.id, 2, Decimal(0))]
        assert (await other.evolution_runs.get(run.id)).invocation_count == 0
        assert (await other.generations.get(opened.id)).number == 1


def test_what_is_read_of_a_run(cairn: Cairn) -> None:
    run = cairn.evolution_runs.create(generation={"id": "g"})
    made = cairn.versions.create("wf_1", dsl={"n": 1}, workflow={}, operation="init", generation_id="g")
    invocation = cairn.invocations.create(version_id=made.id, generation_id="g")
    cairn.invocations.end(invocation.id, status="completed", fitness_score=0.5, usd_cost=Decimal("0.1"))
    (step,) = cairn.evolution_runs.progress(run.id).generations
    assert (step.number, step.best_fitness, step.usd_cost, step.invocation_count) == (0, 0.5, Decimal("0.1"), 1)
    for per in (None, "version"):
        (best,) = cairn.evolution_runs.best(run.id, 3, per=per)
        assert (best.id, best.version.id, best.generation_number) == (invocation.id, made.id, 0)
    assert [one.id for one in cairn.evolution_runs.versions(run.id)] == [made.id]
    (seen,) = cairn.evolution_runs.configurations(run.id, sort="best_fitness")
    assert (seen.dsl_hash, seen.first_generation_number, seen.total_cost) == (made.dsl_hash, 0, Decimal("0.1"))
    graph = cairn.evolution_runs.graph(run.id, limit=5)
    assert [(edge["from"], edge["to"]) for edge in graph["edges"]] == [(made.id, invocation.id)]
