"""The genetics: the same state gives the same children, and a state taken up from JSON is the same state."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random

import pytest

from app.demo.genetics import (
    POPULATION_MIN,
    Candidate,
    Ranked,
    first_population,
    next_population,
    random_from,
    ranked,
    state_of,
)
from app.demo.objective import DEGREE, POWERS, XS, YS, evaluate, spelled

NEW = {"init": 0, "immigrant": 0, "mutation": 1, "crossover": 2}


def lived(size: int, seed: int = 3) -> list[Ranked]:
    people = first_population(Random(seed), size)
    return ranked(
        [Ranked(f"v{place}", one.coefficients, evaluate(one.coefficients).fitness) for place, one in enumerate(people)]
    )


def test_the_same_seed_gives_the_same_search_and_another_another() -> None:
    assert first_population(Random(1), 20) == first_population(Random(1), 20)
    assert first_population(Random(1), 20) != first_population(Random(2), 20)
    assert next_population(Random(1), lived(20), 20) == next_population(Random(1), lived(20), 20)


def test_a_state_that_went_through_json_goes_on_exactly_there() -> None:
    random = Random(5)
    first_population(random, 7)
    taken_up = random_from(json.loads(json.dumps(state_of(random))))
    assert next_population(taken_up, lived(20), 20) == next_population(random, lived(20), 20)


@pytest.mark.parametrize("size", [POPULATION_MIN, 20, 101])
def test_a_generation_has_its_size_and_each_child_the_parents_of_its_operation(size: int) -> None:
    parents = lived(size)
    following = next_population(Random(1), parents, size)
    carried = [one for one in following if isinstance(one, Ranked)]
    children = [one for one in following if isinstance(one, Candidate)]
    assert len(following) == size
    assert carried == parents[: max(1, size // 10)]
    assert all(len(set(child.parents)) == NEW[child.operation] for child in children)
    assert {parent for child in children for parent in child.parents} <= {one.version_id for one in parents}
    assert len({child.coefficients for child in children}) == len(children)
    assert all(len(child.coefficients) == DEGREE + 1 for child in children)


def test_ranks_go_by_fitness_then_by_id_and_a_version_stands_once() -> None:
    a, b, c = Ranked("a", (1.0,), 0.5), Ranked("b", (2.0,), 0.9), Ranked("c", (3.0,), 0.5)
    assert ranked([c, a, b, a]) == [b, a, c]


def test_one_parent_alone_has_children_too() -> None:
    following = next_population(Random(1), [Ranked("a", (0.0,) * 5, 0.5)], 20)
    assert {one.operation for one in following if isinstance(one, Candidate)} == {"mutation", "immigrant"}


def test_an_evaluation_is_the_distance_to_the_measured_points() -> None:
    nothing = evaluate((0.0,) * 5)
    assert nothing.error == pytest.approx((sum(y * y for y in YS) / len(YS)) ** 0.5)
    assert nothing.fitness == 1 / (1 + nothing.error)
    assert json.loads(nothing.answer) == [0.0] * len(XS)
    assert nothing.usd_cost == Decimal(len(nothing.answer)).scaleb(-6)
    assert nothing.accuracy == sum(abs(y) <= 0.25 for y in YS) / len(YS)
    assert evaluate((0.36, -1.1, 1.1, 2.6, -1.9)).fitness > nothing.fitness


def test_a_polynomial_is_spelled_as_people_write_it() -> None:
    assert spelled((0.5, -1.25, 2.0)) == "0.5 − 1.25x + 2x²"
    assert spelled((-0.5, 0.0, -2.0, 1.0, -1e-4)) == "−0.5 + 0x − 2x² + 1x³ − 0.0001x⁴"
    assert len(POWERS) == DEGREE + 1
