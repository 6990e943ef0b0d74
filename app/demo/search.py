"""The search as a worker runs it: what it does next follows from the record, so it may be killed at any moment.

Every id follows from what it names: a version's from its content and parents, an invocation's from its run, generation,
place and version. So whatever is written a second time is a replay. A generation's members, its completion and the
checkpoint with the random generator's state are one transaction, and are all that the next generation follows from.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Protocol

from app.client import Cairn, Json, NotFoundError
from app.client.bodies import MessageFields, NodeFields
from app.client.evolution_bodies import GenerationStatsFields
from app.client.evolution_models import Generation
from app.client.models import Invocation
from app.demo.genetics import Candidate, Ranked, first_population, next_population, random_from, ranked, state_of
from app.demo.objective import XS, evaluate, spelled
from app.demo.run import MARK, DemoRefused, Plan, generation_id

NODE = "predict"
NODES: Sequence[NodeFields] = ({"node_id": NODE, "description": "Predicts every point with the polynomial."},)
PAGE = 1_000
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Completed:
    """A generation that is complete in the record; costs are US dollars."""

    number: int
    best: Ranked
    average: float
    worst: float
    usd_cost: Decimal
    taken_over: int
    """How many of its evaluations an earlier worker had recorded."""


class Watcher(Protocol):
    """Who is told how the search comes on."""

    def found(self, evaluations: int) -> None:
        """So many evaluations stand in the record already."""

    def evaluated(self) -> None:
        """One more evaluation stands in the record."""

    def completed(self, generation: Completed) -> None:
        """A generation is complete in the record."""


def search(cairn: Cairn, plan: Plan, watcher: Watcher) -> list[Ranked]:
    """Run the search from where its record ends to its end, and return the final population, the best first.

    Raises `ConflictError` with `current_status` when somebody ended the run, and `DemoRefused` where the checkpoint
    is not the search's own.
    """
    number, random, parents = _where_it_ends(cairn, plan)
    watcher.found(number * plan.population)
    while number < plan.generations:
        if number == 0:
            places = first_population(random, plan.population)
        else:
            places = next_population(random, parents, plan.population)
        generation = cairn.generations.create(plan.run_id, id=generation_id(plan.run_id, number), number=number)
        before = parents[0].fitness if parents else None
        parents = _Turn(cairn, plan, generation, random).take(places, before, watcher)
        number += 1
    cairn.evolution_runs.complete(plan.run_id, "completed")
    return parents


def _where_it_ends(cairn: Cairn, plan: Plan) -> tuple[int, Random, list[Ranked]]:
    """The number of the generation to go on with, the random generator before it, and who it descends from."""
    try:
        last = cairn.generations.last_completed(plan.run_id)
    except NotFoundError:
        # The run is there, so it is a completed generation that is not.
        return 0, Random(plan.seed), []  # noqa: S311 - a search that can be repeated, no secret
    state = last.checkpoint.value() if last.checkpoint else None
    if not isinstance(state, dict) or state.get("generation") != last.number:
        raise DemoRefused(f"The checkpoint of {plan.run_id} is not that of its last completed generation.")
    read = cairn.batch()
    texts = [read.versions.dsl(member.version_id) for member in last.members]
    read.send()
    parents = [
        Ranked(member.version_id, tuple(text.result().value()["coefficients"]), float(member.fitness or 0))
        for member, text in zip(last.members, texts, strict=True)
    ]
    return last.number + 1, random_from(state["random"]), parents


class _Turn:
    """One generation, from its first evaluation to its completion."""

    def __init__(self, cairn: Cairn, plan: Plan, generation: Generation, random: Random) -> None:
        self._cairn, self._plan, self._generation, self._random = cairn, plan, generation, random

    def take(
        self, places: Sequence[Candidate | Ranked], best_before: float | None, watcher: Watcher
    ) -> list[Ranked]:  # fmt: skip
        """Evaluate everybody, what is in the record already not again, and complete the generation."""
        listed = self._cairn.invocations.list(generation_id=self._generation.id, status="completed", limit=PAGE)
        done = {invocation.id: invocation for invocation in listed}
        taken_over = len(done)
        watcher.found(taken_over)
        found: list[Ranked] = []
        for place, one in enumerate(places):
            version_id = one.version_id if isinstance(one, Ranked) else self._version(one)
            invocation_id = f"{self._generation.id}.{place}.{version_id[:12]}"
            if invocation_id not in done:
                done[invocation_id] = self._evaluated(invocation_id, version_id, one.coefficients)
                watcher.evaluated()
            found.append(Ranked(version_id, one.coefficients, float(done[invocation_id].fitness_score or 0)))
        population = ranked(found)
        stats = _stats(population, self._generation, done, best_before)
        self._complete(population, stats)
        cost = sum((one.usd_cost or Decimal(0) for one in done.values()), Decimal(0))
        average = statistics.fmean(one.fitness for one in population)
        watcher.completed(
            Completed(self._generation.number, population[0], average, population[-1].fitness, cost, taken_over)
        )  # fmt: skip
        return population

    def _version(self, candidate: Candidate) -> str:
        parent1_id, parent2_id = (*candidate.parents, None, None)[:2]
        version = self._cairn.versions.create(
            self._plan.run_id,
            dsl={"nodes": [NODE], "coefficients": list(candidate.coefficients)},
            operation=candidate.operation,
            parent1_id=parent1_id,
            parent2_id=parent2_id,
            generation_id=self._generation.id,
            commit_message=spelled(candidate.coefficients),
            workflow={"name": f"The polynomials of {self._plan.run_id}", "metadata": MARK},
            nodes=NODES,
        )
        return version.id

    def _evaluated(self, invocation_id: str, version_id: str, coefficients: Sequence[float]) -> Invocation:
        """Say that it begins, evaluate, and say what came of it; each is one transaction."""
        begin = self._cairn.batch()
        begin.evolution_runs.heartbeat(self._plan.run_id)
        begin.invocations.create(
            id=invocation_id,
            version_id=version_id,
            run_id=self._plan.run_id,
            generation_id=self._generation.id,
            input={"x": XS},
        )
        begin.node_invocations.start(invocation_id, id=NODE, node_id=NODE)
        begin.send()
        measured = evaluate(coefficients)
        answer = Json(measured.answer)
        messages: list[MessageFields] = [
            {"id": "asked", "seq": 1, "role": "user", "to_node_id": NODE, "payload": {"x": XS}},
            {"id": "answered", "seq": 2, "role": "result", "from_node_id": NODE, "payload": {"y": answer}},
        ]
        messages[0]["target_node_invocation_id"] = messages[1]["origin_node_invocation_id"] = NODE
        end = self._cairn.batch()
        end.messages.record_many(invocation_id, messages)
        end.node_invocations.end(
            invocation_id, NODE, status="completed", output=answer, usd_cost=measured.usd_cost
        )  # fmt: skip
        ended = end.invocations.end(
            invocation_id,
            status="completed",
            output=answer,
            usd_cost=measured.usd_cost,
            fitness={"score": measured.fitness, "error": measured.error},
            fitness_score=measured.fitness,
            accuracy=measured.accuracy,
        )
        end.send()
        return ended.result()

    def _complete(self, population: Sequence[Ranked], stats: GenerationStatsFields) -> None:
        state = {"generation": self._generation.number, "random": state_of(self._random)}
        whole = self._cairn.batch()
        whole.generations.set_members(
            self._generation.id,
            [
                {"version_id": one.version_id, "rank": rank, "fitness": one.fitness}
                for rank, one in enumerate(population)
            ],
        )
        whole.generations.complete(self._generation.id, best_version_id=population[0].version_id, stats=stats)
        whole.evolution_runs.set_checkpoint(self._plan.run_id, Json(json.dumps(state)))
        whole.send()


def _stats(
    population: Sequence[Ranked], generation: Generation, done: Mapping[str, Invocation], best_before: float | None
) -> GenerationStatsFields:
    """What the record says of a generation and nothing else, so that completing it twice says the same twice."""
    fitnesses = [one.fitness for one in population]
    ends = [invocation.ended_at for invocation in done.values() if invocation.ended_at is not None]
    seconds = (max(ends) - generation.started_at).total_seconds()
    return {
        "best_fitness": fitnesses[0],
        "worst_fitness": fitnesses[-1],
        "avg_fitness": statistics.fmean(fitnesses),
        "fitness_std_dev": statistics.pstdev(fitnesses),
        "evaluation_cost": sum((one.usd_cost or Decimal(0) for one in done.values()), Decimal(0)),
        "evaluations_per_hour": len(done) * SECONDS_PER_HOUR / seconds if seconds > 0 else None,
        "improvement_rate": None if best_before is None else fitnesses[0] - best_before,
    }
