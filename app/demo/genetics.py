"""How one generation follows from another: pure functions of the ranked parents and a random generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias

from app.demo.objective import DEGREE

Operation: TypeAlias = Literal["init", "mutation", "crossover", "immigrant"]

POPULATION_MIN, POPULATION_MAX = 4, 500
GENE_MAX = 5.0
STEP_MAX = 1.0
TOURNAMENT = 3
# A polynomial is written with this many decimals, so its text is short and says exactly what was evaluated.
DECIMALS = 4


@dataclass(frozen=True)
class Ranked:
    """A version that was evaluated; lists of them are in the order of their rank, the best first."""

    version_id: str
    coefficients: tuple[float, ...]
    fitness: float


@dataclass(frozen=True)
class Candidate:
    """A new genome, with the version ids of its parents."""

    coefficients: tuple[float, ...]
    operation: Operation
    parents: tuple[str, ...] = ()


def first_population(random: Random, size: int) -> list[Candidate | Ranked]:
    """Generation 0: genomes without parents."""
    return [Candidate(_any_genome(random), "init") for _ in range(size)]


def next_population(random: Random, parents: Sequence[Ranked], size: int) -> list[Candidate | Ranked]:
    """The generation after: the best tenth as it is, a tenth new, the rest children of parents chosen by tournament."""
    tenth = max(1, size // 10)
    carried = parents[:tenth]
    immigrants = [Candidate(_any_genome(random), "immigrant") for _ in range(tenth)]
    children = [_child(random, parents) for _ in range(size - len(carried) - len(immigrants))]
    return [*carried, *children, *immigrants]


def ranked(evaluated: Sequence[Ranked]) -> list[Ranked]:
    """The evaluated versions, the fittest first, then by id; a version that came twice stands once."""
    return sorted({one.version_id: one for one in evaluated}.values(), key=lambda one: (-one.fitness, one.version_id))


def state_of(random: Random) -> list[Any]:
    """The generator's state as JSON values; `random_from` takes it up exactly there."""
    version, words, gauss = random.getstate()
    return [version, list(words), gauss]


def random_from(state: Sequence[Any]) -> Random:
    """The generator whose state `state_of` gave."""
    version, words, gauss = state
    random = Random()  # noqa: S311 - a search that can be repeated, no secret
    random.setstate((version, tuple(words), gauss))
    return random


def _child(random: Random, parents: Sequence[Ranked]) -> Candidate:
    mother = _chosen(random, parents)
    if len(parents) == 1 or random.random() < 0.5:
        return Candidate(_moved(random, mother.coefficients, STEP_MAX), "mutation", (mother.version_id,))
    father = _chosen(random, [one for one in parents if one.version_id != mother.version_id])
    between = [
        a + random.random() * (b - a) for a, b in zip(mother.coefficients, father.coefficients, strict=True)
    ]  # fmt: skip
    genome = _moved(random, between, STEP_MAX / 10)
    return Candidate(genome, "crossover", (mother.version_id, father.version_id))


def _chosen(random: Random, parents: Sequence[Ranked]) -> Ranked:
    return parents[min(random.randrange(len(parents)) for _ in range(TOURNAMENT))]


def _moved(random: Random, coefficients: Sequence[float], step: float) -> tuple[float, ...]:
    return tuple(round(gene + random.uniform(-step, step), DECIMALS) for gene in coefficients)


def _any_genome(random: Random) -> tuple[float, ...]:
    return tuple(round(random.uniform(-GENE_MAX, GENE_MAX), DECIMALS) for _ in range(DEGREE + 1))
