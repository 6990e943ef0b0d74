"""Turns loads into ratios: subject and limits alternate in short rounds, so that a noisy minute meets both alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

# Answers (or rounds of statements) each second, from a number of clients, over a number of seconds.
Load = Callable[[int, int], float]


@dataclass(frozen=True)
class Bound:
    """The least ratio to a limit that must be reached, at a number of clients."""

    limit: str
    least: float
    clients: int = 32


@dataclass(frozen=True)
class Comparison:
    """A subject and the limits that it is held against."""

    subject: str
    load: Load
    limits: Mapping[str, Load]
    bounds: tuple[Bound, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ratio:
    """The rate of a subject as a part of a limit's: the median of the rounds, with the lowest and the highest."""

    scenario: str
    subject: str
    limit: str
    clients: int
    median: float
    low: float
    high: float
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the bound, if there is one, is reached."""
        return self.least is None or self.median >= self.least


@dataclass(frozen=True)
class Pace:
    """How a run is paced."""

    clients: tuple[int, ...] = (1, 8, 32)
    rounds: int = 5
    seconds: int = 2


def compare(scenario: str, comparison: Comparison, pace: Pace) -> list[Ratio]:
    """The ratios of a comparison at each number of clients."""
    return [ratio for clients in pace.clients for ratio in _at(scenario, comparison, clients, pace)]


def _at(scenario: str, comparison: Comparison, clients: int, pace: Pace) -> list[Ratio]:
    found: dict[str, list[float]] = {name: [] for name in comparison.limits}
    for place in range(pace.rounds):
        rates: dict[str, float] = {}
        sides = [("", comparison.load), *comparison.limits.items()]
        for name, load in sides if place % 2 == 0 else reversed(sides):
            rates[name] = load(clients, pace.seconds)
        for name, ratios in found.items():
            ratios.append(rates[""] / rates[name])
    least = {bound.limit: bound.least for bound in comparison.bounds if bound.clients == clients}
    return [
        Ratio(scenario, comparison.subject, name, clients, median(ratios), min(ratios), max(ratios), least.get(name))
        for name, ratios in found.items()
    ]
