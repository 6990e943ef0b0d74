"""Where everything of a genealogy's picture goes: how large nodes are, columns, and bands where columns are many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from app.pictures.layered import Edge, arranged


@dataclass(frozen=True)
class Scale:
    """How large nodes are drawn: the fewer there are, the more is said of each. All in pixels."""

    width: float
    height: float
    gap: float
    radius: float
    letter: float
    id_columns: int
    channel_min: float
    channel_max: float
    nodes_max: int
    column_max: int


# A box with id and note; a mark with its id; a mark alone.
BOXES = Scale(174.0, 40.0, 18.0, 10.0, 11.0, 16, 60.0, 110.0, 40, 16)
NAMES = Scale(86.0, 18.0, 8.0, 8.0, 9.0, 10, 44.0, 120.0, 150, 64)
DOTS = Scale(12.0, 12.0, 7.0, 5.0, 0.0, 0, 26.0, 150.0, 0, 0)

# In a taller picture the nodes of a column take turns beside each other; a wider one breaks into bands, like text.
HEIGHT_MAX, WIDTH_MIN, WIDTH_TO_HEIGHT = 1_100.0, 1_500.0, 1.7
TURN = 16.0
AXIS, BAND_GAP = 40.0, 24.0


@dataclass(frozen=True)
class Band:
    """A run of columns that stand beside each other, and the heights it shows, as `Placed` counts them."""

    columns: range
    top: float
    bottom: float

    @property
    def height(self) -> float:
        """How high the band's own part is, without its axis."""
        return self.bottom - self.top


@dataclass(frozen=True)
class Placed:
    """Each node's left edge and middle, the ways of edges, and the bands that the columns break into."""

    scale: Scale
    lefts: list[float]
    middles: list[float]
    ways: dict[Edge, list[tuple[int, float]]]
    cell: float
    pitch: float
    bands: list[Band]

    @property
    def width(self) -> float:
        """How wide the widest band is."""
        return max((len(band.columns) for band in self.bands), default=1) * self.pitch - (self.pitch - self.cell)


def placed(columns: Sequence[int], edges: Sequence[Edge]) -> Placed:
    """Place nodes whose columns are numbered from 0 without a gap."""
    scale = _scale(columns)
    found = arranged(columns, scale.height, scale.gap, edges)
    turns = max(1, math.ceil(found.height / HEIGHT_MAX)) if scale is DOTS else 1
    # Heights shrink to a part where columns take turns, and those who have the same turn still keep their distance.
    room = scale.height / 2

    def shrunk(height: float) -> float:
        return room + (height - room) / turns

    middles = [shrunk(height) for height in found.heights]
    ways = {edge: [(column, shrunk(height)) for column, height in way] for edge, way in found.ways.items()}
    count = max(columns, default=-1) + 1
    cell = scale.width + TURN * (turns - 1)
    wanted = shrunk(found.height) * WIDTH_TO_HEIGHT / max(1, count) - cell
    pitch = cell + min(max(wanted, scale.channel_min), scale.channel_max)
    bands = _bands(columns, middles, ways, pitch, room)
    return Placed(scale, _lefts(columns, middles, pitch, turns), middles, ways, cell, pitch, bands)


def _scale(columns: Sequence[int]) -> Scale:
    tallest = max(Counter(columns).values(), default=0)
    for scale in (BOXES, NAMES):
        if len(columns) <= scale.nodes_max and tallest <= scale.column_max:
            return scale
    return DOTS


def _lefts(columns: Sequence[int], middles: Sequence[float], pitch: float, turns: int) -> list[float]:
    lefts = [column * pitch for column in columns]
    seen: Counter[int] = Counter()
    for position in sorted(range(len(columns)), key=lambda place: (middles[place], place)):
        lefts[position] += TURN * (seen[columns[position]] % turns)
        seen[columns[position]] += 1
    return lefts


def _bands(
    columns: Sequence[int],
    middles: Sequence[float],
    ways: dict[Edge, list[tuple[int, float]]],
    pitch: float,
    room: float,
) -> list[Band]:
    """The fewest bands with which the whole picture is neither a ribbon nor a tower."""
    count = max(columns, default=-1) + 1
    heights: list[list[float]] = [[] for _ in range(count)]
    for column, middle in zip(columns, middles, strict=True):
        heights[column] += (middle - room, middle + room)
    for way in ways.values():
        for column, height in way:
            heights[column].append(height)
    bands: list[Band] = []
    for number in range(1, count + 1):
        length = math.ceil(count / number)
        bands = []
        for first in range(0, count, length):
            run = range(first, min(first + length, count))
            shown = [height for column in run for height in heights[column]]
            bands.append(Band(run, min(shown), max(shown)))
        height = sum(band.height + AXIS + BAND_GAP for band in bands)
        if length * pitch <= max(WIDTH_MIN, height * WIDTH_TO_HEIGHT):
            break
    return bands
