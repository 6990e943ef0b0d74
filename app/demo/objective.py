"""What the search is after: a polynomial through measured points, evaluated for real and the same everywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

DEGREE = 4
POWERS = ("", "x", "x²", "x³", "x⁴")
NEAR = 0.25
# The price of one character of an answer, in US dollars.
CHARACTER_PRICE = Decimal("0.000001")
XS: tuple[float, ...] = tuple(step / 10 for step in range(-10, 11))
YS: tuple[float, ...] = (
    -1.98, -0.92, -0.17, 0.36, 0.65, 0.83, 0.79, 0.76, 0.57, 0.47, 0.29, 0.22, 0.08, 0.13, 0.11, 0.26, 0.33, 0.59,
    0.72, 1.01, 1.06,
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What came of one evaluation; the cost is in US dollars."""

    answer: str
    """The predicted values as JSON text."""

    error: float
    """The root of the mean squared distance to the measured points."""

    fitness: float
    """`1 / (1 + error)`: 1 is a perfect fit."""

    accuracy: float
    """The share of points that were met to within `NEAR`."""

    usd_cost: Decimal


def evaluate(coefficients: Sequence[float]) -> Measured:
    """Predict every point with the polynomial, lowest power first, and measure how far off that is.

    Only sums, products and a square root are taken, which every machine and every Python rounds alike: `sum` does not.
    """
    predicted = [_value_at(coefficients, x) for x in XS]
    distances = [y - measured for y, measured in zip(predicted, YS, strict=True)]
    error = math.sqrt(math.fsum(distance * distance for distance in distances) / len(distances))
    answer = json.dumps([round(y, 4) for y in predicted])
    near = sum(abs(distance) <= NEAR for distance in distances)
    return Measured(answer, error, 1 / (1 + error), near / len(distances), CHARACTER_PRICE * len(answer))


def spelled(coefficients: Sequence[float]) -> str:
    """The polynomial as people write it: `0.5 + 1.25x + 2x²`."""
    terms = [f"{'−' if gene < 0 else '+'} {abs(gene):g}{POWERS[power]}" for power, gene in enumerate(coefficients)]
    sign, first = terms[0].split(" ")
    return " ".join([f"−{first}" if sign == "−" else first, *terms[1:]])


def _value_at(coefficients: Sequence[float], x: float) -> float:
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value
