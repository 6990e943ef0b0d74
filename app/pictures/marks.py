"""How a version's operation looks: a colour that the colour-blind tell apart, a shape, and a letter."""

from __future__ import annotations

import math
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True)
class Mark:
    """One kind of node. `corners` are those of its shape within a circle of radius 1; a circle has none."""

    name: str
    letter: str
    fill: str
    ink: str
    corners: tuple[Point, ...] = ()

    def outline(self, x: float, y: float, radius: float) -> list[Point]:
        """The corners of the shape around a point."""
        return [(x + radius * across, y + radius * down) for across, down in self.corners]


def _regular(corners: int, turned: float = 0.0, stretch: float = 1.0) -> tuple[Point, ...]:
    angles = [2 * math.pi * number / corners - math.pi / 2 + turned for number in range(corners)]
    return tuple((stretch * math.cos(angle), stretch * math.sin(angle)) for angle in angles)


DARK = "#1f2328"
# Okabe and Ito's colours (https://jfly.uni-koeln.de/color), which no common colour blindness confuses.
MARKS = {
    mark.name: mark
    for mark in (
        Mark("init", "I", "#0072b2", "#ffffff"),
        Mark("mutation", "M", "#e69f00", DARK, _regular(4, math.pi / 4, 1.2)),
        Mark("crossover", "X", "#009e73", DARK, _regular(4, 0.0, 1.22)),
        Mark("immigrant", "+", "#cc79a7", DARK, _regular(6, 0.0, 1.12)),
        Mark("invocation", "▸", "#ffffff", DARK, _regular(3, math.pi / 2, 1.2)),
        Mark("other", "?", "#8c959f", DARK, _regular(3, 0.0, 1.2)),
    )
}


def mark_of(kind: str) -> Mark:
    """The mark of an operation; what is not known here looks like `other`."""
    return MARKS.get(kind, MARKS["other"])
