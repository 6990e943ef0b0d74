"""Where the nodes of a layered graph go: columns are given, the order in each and the heights are found.

Sugiyama's method, each step bounded: long edges pass through places of their own, barycentres order the columns
(Sugiyama, Tagawa and Toda 1981), and isotonic regression sets the heights, so that nothing overlaps.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

Edge = tuple[int, int]

# An edge takes a place in every column that it passes. Past so many places the longest edges are drawn straight.
PASSED_MAX = 3_000
ORDER_SWEEPS, FRUITLESS_MAX, HEIGHT_SWEEPS = 16, 4, 12
# How much straighter an edge is where it only passes than where it meets a node.
PASSING_WEIGHT, LOOSE_WEIGHT = 4.0, 0.02


@dataclass(frozen=True)
class Arranged:
    """Heights on the page, from 0 down: of each node's middle, and of each edge at the columns that it passes."""

    heights: list[float]
    ways: dict[Edge, list[tuple[int, float]]]
    height: float


@dataclass(frozen=True)
class _Places:
    """Nodes, and after them the places of passing edges: columns, sizes and neighbours on either side."""

    columns: list[list[int]]
    sizes: list[float]
    parents: list[list[int]]
    children: list[list[int]]
    chains: dict[Edge, list[int]]
    nodes: int

    def loose(self) -> set[int]:
        """Nodes without any neighbour: they stand below the others of their column."""
        return {place for place in range(self.nodes) if not self.parents[place] and not self.children[place]}


def arranged(columns: Sequence[int], size: float, gap: float, edges: Sequence[Edge]) -> Arranged:
    """Arrange nodes of one size, each in its column, so that none overlap and edges cross little.

    Edges are pairs of positions; those that do not lead to a later column are drawn, but arrange nothing.
    """
    if not columns:
        return Arranged([], {}, 0.0)
    places = _places(columns, size + gap, edges)
    _order(places)
    heights = _heights(places)
    top = min(heights) - size / 2
    column_of = sorted(set(columns))
    index = {place: column_of[number] for number, column in enumerate(places.columns) for place in column}
    ways = {
        edge: [(index[place], heights[place] - top) for place in places.chains.get(edge, ())] for edge in set(edges)
    }
    return Arranged([height - top for height in heights[: places.nodes]], ways, max(heights) + size / 2 - top)


def depths(count: int, edges: Sequence[Edge]) -> list[int]:
    """The longest way to each node from one without parents; of nodes in a circle, some way that leads to them."""
    children: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in edges:
        children[source].append(target)
        waiting[target] += 1
    found = [0] * count
    ready = [position for position in range(count) if not waiting[position]]
    for position in ready:
        for child in children[position]:
            found[child] = max(found[child], found[position] + 1)
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return found


def _places(columns: Sequence[int], size: float, edges: Sequence[Edge]) -> _Places:
    number = {column: position for position, column in enumerate(sorted(set(columns)))}
    layer = [number[column] for column in columns]
    layers: list[list[int]] = [[] for _ in number]
    for position, at in enumerate(layer):
        layers[at].append(position)
    sizes = [size] * len(columns)
    parents: list[list[int]] = [[] for _ in columns]
    children: list[list[int]] = [[] for _ in columns]
    chains: dict[Edge, list[int]] = {}
    left = PASSED_MAX
    for edge in sorted(set(edges), key=lambda pair: (layer[pair[1]] - layer[pair[0]], pair)):
        source, target = edge
        passing = range(layer[source] + 1, layer[target])
        if layer[target] <= layer[source] or len(passing) > left:
            continue
        left -= len(passing)
        chain = []
        for at in passing:
            place = len(sizes)
            layers[at].append(place)
            sizes.append(size * 0.4)
            parents.append([])
            children.append([])
            chain.append(place)
        for before, after in zip([source, *chain], [*chain, target], strict=True):
            children[before].append(after)
            parents[after].append(before)
        chains[edge] = chain
    places = _Places(layers, sizes, parents, children, chains, len(columns))
    loose = places.loose()
    for column in layers:
        column.sort(key=loose.__contains__)
    return places


def _order(places: _Places) -> None:
    """Order each column in place, keeping the order with the fewest crossings that the sweeps came by."""
    position = [0] * len(places.sizes)
    for column in places.columns:
        _number(column, position)
    loose = places.loose()
    best = [list(column) for column in places.columns]
    fewest = _crossings(places, position)
    fruitless = 0
    for sweep in range(ORDER_SWEEPS):
        if not fewest or fruitless == FRUITLESS_MAX:
            break
        forward = sweep % 2 == 0
        beside = places.parents if forward else places.children
        for column in places.columns if forward else reversed(places.columns):
            aims = {
                place: sum(position[other] for other in beside[place]) / len(beside[place])
                if beside[place]
                else float(position[place])
                for place in column
            }
            column.sort(key=lambda place: (place in loose, aims[place]))
            _number(column, position)
        crossings = _crossings(places, position)
        fruitless += 1
        if crossings < fewest:
            fruitless = 0
            best, fewest = [list(column) for column in places.columns], crossings
    places.columns[:] = best


def _number(column: list[int], position: list[int]) -> None:
    for at, place in enumerate(column):
        position[place] = at


def _crossings(places: _Places, position: list[int]) -> int:
    """How many pairs of edges between neighbouring columns cross."""
    crossings = 0
    for column in places.columns:
        passed: list[int] = []
        for place in column:
            ends = sorted(position[child] for child in places.children[place])
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings


def _heights(places: _Places) -> list[float]:
    """Heights that draw each place towards its neighbours and keep the columns' order and room."""
    heights = [0.0] * len(places.sizes)
    loose = places.loose()
    columns = [[place for place in column if place not in loose] for column in places.columns]
    for column in columns:
        _settle(column, [0.0] * len(column), [1.0] * len(column), places.sizes, heights)
    for sweep in range(HEIGHT_SWEEPS):
        forward, last = sweep % 2 == 0, sweep >= HEIGHT_SWEEPS - 2
        for column in columns if forward else reversed(columns):
            aims, weights = [], []
            for place in column:
                beside = [
                    *(places.parents[place] if forward or last else ()),
                    *(places.children[place] if last or not forward else ()),
                ]
                pull = PASSING_WEIGHT if place >= places.nodes else 1.0
                aims.append(sum(heights[other] for other in beside) / len(beside) if beside else heights[place])
                weights.append(pull * len(beside) if beside else LOOSE_WEIGHT)
            _settle(column, aims, weights, places.sizes, heights)
    top = min((heights[place] for column in columns for place in column), default=0.0)
    for tied, column in zip(columns, places.columns, strict=True):
        for at, place in enumerate(column[len(tied) :], start=len(tied)):
            above = column[at - 1] if at else None
            room = 0.0 if above is None else (places.sizes[above] + places.sizes[place]) / 2
            heights[place] = top if above is None else heights[above] + room
    return heights


def _settle(
    column: list[int], aims: list[float], weights: list[float], sizes: list[float], heights: list[float]
) -> None:
    """Put a column as near to its aims as its order and sizes allow: least squares, by pooling adjacent violators."""
    offsets, offset = [], 0.0
    for at, place in enumerate(column):
        offset += (sizes[column[at - 1]] + sizes[place]) / 2 if at else 0.0
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []
    for aim, weight, begun in zip(aims, weights, offsets, strict=True):
        mean, heavy, count = aim - begun, weight, 1
        while pools and pools[-1][0] >= mean:
            other, other_weight, other_count = pools.pop()
            mean = (mean * heavy + other * other_weight) / (heavy + other_weight)
            heavy, count = heavy + other_weight, count + other_count
        pools.append((mean, heavy, count))
    at = 0
    for mean, _, count in pools:
        for _ in range(count):
            heights[column[at]] = mean + offsets[at]
            at += 1
