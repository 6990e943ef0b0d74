"""A genealogy as a picture: a column for each generation or depth, older ones left, an edge from parent to child."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from app.pictures.layered import Edge, depths
from app.pictures.marks import MARKS, Mark, mark_of
from app.pictures.placing import AXIS, BAND_GAP, BOXES, DOTS, NAMES, Band, Placed, placed
from app.pictures.svg import (
    INK,
    MONO,
    MONO_WIDTH,
    PAPER,
    QUIET,
    RULE,
    SANS,
    add,
    begun,
    cells,
    document,
    number,
    points,
    shortened,
    written,
)

NODES_MAX = 1_000
BEST = "#d55e00"
MARGIN, HEAD, WIDTH_MIN = 28.0, 108.0, 720.0
NAME_SIZE = 10.0
# Before all that are known: the column of nodes that have none while others do.
NO_COLUMN = -(2**63)

STYLE = f"""
text{{font-family:{SANS};fill:{INK};font-size:12px}}
.heading{{font-size:18px;font-weight:600}}
.id{{font-family:{MONO}}}
.name{{font-size:{NAME_SIZE:.0f}px}}
.small{{font-size:10.5px}}
.quiet{{fill:{QUIET}}}
.middle{{text-anchor:middle}}
.letter{{font-weight:700;text-anchor:middle}}
.edge{{fill:none;stroke:#8c959f;stroke-width:1.2;stroke-opacity:.75}}
.many .edge{{stroke-width:.9;stroke-opacity:.5}}
.line{{fill:none;stroke:{BEST};stroke-width:2.6;stroke-linecap:round}}
.mark{{stroke:{INK};stroke-width:.8;stroke-linejoin:round}}
.box{{fill:{PAPER};stroke:{RULE}}}
.best{{stroke:{BEST};stroke-width:2.4}}
.stripe{{fill:#f6f8fa}}
"""


@dataclass(frozen=True)
class Node:
    """A version or an invocation: its id, its operation, its column where known, and what else is told of it."""

    id: str
    kind: str
    column: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Genealogy:
    """What is drawn. Edges are (parent id, child id), a child's first parent first; others' ids are passed over.

    `columns` names what the columns count: nodes' own where they are known, and those without one stand before them;
    else the depth, found from edges.
    `remark` is what else must be known, such as that something is left out.
    """

    title: str
    nodes: Sequence[Node]
    edges: Sequence[tuple[str, str]]
    columns: str = "depth"
    noun: str = "version"
    best_id: str | None = None
    remark: str = ""


def draw(genealogy: Genealogy) -> str:
    """The picture as SVG text: the same genealogy gives the same bytes."""
    return _Drawing(genealogy).svg()


class _Drawing:
    def __init__(self, told: Genealogy) -> None:
        self.told = told
        places = {node.id: position for position, node in enumerate(told.nodes)}
        self.edges: list[Edge] = [
            (places[parent], places[child])
            for parent, child in dict.fromkeys(told.edges)
            if parent in places and child in places and parent != child
        ]
        self.best = None if told.best_id is None else places.get(told.best_id)
        self.line = _first_parents(self.best, self.edges)
        known = _known_columns(told.nodes, self.edges)
        numbers = sorted(set(known))
        at = {number: column for column, number in enumerate(numbers)}
        self.columns = [at[number] for number in known]
        self.labels = ["–" if number == NO_COLUMN else str(number) for number in numbers]
        self.placed: Placed = placed(self.columns, self.edges)
        self.scale = self.placed.scale

    def svg(self) -> str:
        """The whole document."""
        bands = self.placed.bands
        width = max(self.placed.width + 2 * MARGIN, self._head_width())
        height = HEAD + sum(band.height + AXIS for band in bands) + BAND_GAP * max(0, len(bands) - 1) + MARGIN
        root = document(width, height, self.told.title, self._description(), STYLE)
        add(root, "text", shortened(self.told.title, int(width / 13)), x=MARGIN, y=38, class_="heading")
        add(root, "text", self._summary(), x=MARGIN, y=60, class_="quiet")
        self._legend(root, 84.0)
        top = HEAD
        for band in bands:
            self._axis(root, band, top)
            self._band(root, band, top + AXIS)
            top += band.height + AXIS + BAND_GAP
        if not bands:
            add(root, "text", "Nothing is recorded yet.", x=MARGIN, y=90, class_="quiet")
        return written(root)

    def _summary(self) -> str:
        parts = [_counted(len(self.told.nodes), self.told.noun), _counted(len(self.edges), "edge")]
        numbers = [label for label in self.labels if label != "–"]
        if numbers:
            span = f" to {numbers[-1]}, from left to right" if len(numbers) > 1 else ""
            parts.append(f"{self.told.columns} {numbers[0]}{span}")
        if len(self.placed.bands) > 1:
            parts.append(f"in {len(self.placed.bands)} bands, each continued by the next")
        return " · ".join([*parts, *([self.told.remark] if self.told.remark else [])])

    def _description(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in self._kinds())
        best = f" The best is {self.told.best_id}." if self.best is not None else ""
        return f"{self._summary()}. {kinds or 'Nothing is recorded yet'}.{best}"

    def _kinds(self) -> list[tuple[str, int]]:
        counts = Counter(mark_of(node.kind).name for node in self.told.nodes)
        return [(name, counts[name]) for name in MARKS if counts[name]]

    def _legend(self, root: Element, y: float) -> None:
        x = MARGIN + 8
        for name, count in self._kinds():
            label = f"{name} {count:,}"
            _draw_mark(root, MARKS[name], x, y, 8.0, 9.0)
            add(root, "text", label, x=x + 16, y=y + 4.3)
            x += _legend_width(label)
        if self.best is not None:
            add(root, "path", d=f"M{number(x - 6)} {number(y)}h26", class_="line")
            add(root, "text", self._best_label(), x=x + 28, y=y + 4.3)

    def _best_label(self) -> str:
        """What the heavy line is; empty where there is none."""
        if self.best is None:
            return ""
        best = self.told.nodes[self.best]
        told = " ".join(("best:", shortened(best.id, 16), begun(best.note, 24))).strip()
        return f"{told}, and its line of first parents" if self.line else told

    def _head_width(self) -> float:
        legend = sum(_legend_width(f"{name} {count:,}") for name, count in self._kinds())
        summary = 7.2 * cells(self._summary())
        return max(WIDTH_MIN, max(summary, legend + _legend_width(self._best_label())) + 2 * MARGIN)

    def _axis(self, root: Element, band: Band, top: float) -> None:
        """Stripes behind every other column, and as many numbers above as have room."""
        pitch, cell = self.placed.pitch, self.placed.cell
        axis = add(root, "g", class_="axis")
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * pitch >= 30)
        beside = min(10.0, (pitch - cell) / 2)
        for column in band.columns:
            x = MARGIN + (column - band.columns.start) * pitch
            if column % 2 == 0:
                add(
                    axis, "rect", x=x - beside, y=top + 25, width=cell + 2 * beside, height=band.height + 24,
                    class_="stripe", rx=4,
                )  # fmt: skip
            if column % step == 0:
                named = column == band.columns.start and cell > 80
                label = f"{self.told.columns} {self.labels[column]}" if named else self.labels[column]
                add(axis, "text", label, x=x + cell / 2, y=top + 18, class_="quiet middle")
        if cell <= 80 and not band.columns.start:
            add(axis, "text", f"{self.told.columns} →", x=MARGIN - beside, y=top + 3, class_="quiet small")

    def _band(self, root: Element, band: Band, top: float) -> None:
        """A run of columns as a drawing of its own, which cuts off what leads out of it."""
        pitch, cell = self.placed.pitch, self.placed.cell
        side = min(MARGIN, (pitch - cell) / 2)
        left, width = band.columns.start * pitch - side, len(band.columns) * pitch - (pitch - cell) + 2 * side
        inner = add(
            root, "svg", x=MARGIN - side, y=top - 6, width=width, height=band.height + 12,
            viewBox=f"{number(left)} {number(band.top - 6)} {number(width)} {number(band.height + 12)}",
            class_="many" if self.scale is DOTS else "few",
        )  # fmt: skip
        shown = [edge for edge in self.edges if self._touches(edge, band.columns)]
        for edge in shown:
            if edge not in self.line:
                add(inner, "path", d=self._way(edge), class_="edge")
        for edge in shown:
            if edge in self.line:
                add(inner, "path", d=self._way(edge), class_="line")
        for position, column in enumerate(self.columns):
            if column in band.columns:
                self._node(inner, position)

    def _touches(self, edge: Edge, columns: range) -> bool:
        low, high = sorted((self.columns[edge[0]], self.columns[edge[1]]))
        return low < columns.stop and high >= columns.start

    def _way(self, edge: Edge) -> str:
        """A curve that is level wherever it passes a column."""
        source, target = edge
        x, y = self._right(source), self.placed.middles[source]
        path = [f"M{number(x)} {number(y)}"]
        if self.columns[source] == self.columns[target]:
            # Beside each other: out to the right and back.
            end_x, end_y = self._right(target), self.placed.middles[target]
            reach = max(x, end_x) + 24
            return f"{path[0]}C" + " ".join(number(part) for part in (reach, y, reach, end_y, end_x, end_y))
        for column, passed in self.placed.ways[edge]:
            left = column * self.placed.pitch
            path.append(f"{_bend(x, y, left, passed)}H{number(left + self.placed.cell)}")
            x, y = left + self.placed.cell, passed
        path.append(_bend(x, y, self.placed.lefts[target], self.placed.middles[target]))
        return "".join(path)

    def _right(self, position: int) -> float:
        left = self.placed.lefts[position]
        if self.scale is not NAMES:
            return left + self.scale.width
        name = cells(shortened(self.told.nodes[position].id, self.scale.id_columns))
        return left + 2 * self.scale.radius + 11 + name * NAME_SIZE * MONO_WIDTH

    def _node(self, parent: Element, position: int) -> None:
        node, scale = self.told.nodes[position], self.scale
        x, y = self.placed.lefts[position], self.placed.middles[position]
        mark, best = mark_of(node.kind), position == self.best
        group = add(parent, "g", class_="node")
        column = f"{self.told.columns} {self.labels[self.columns[position]]}"
        add(group, "title", ", ".join(part for part in (node.id, node.kind, column, node.note) if part))
        if scale is BOXES:
            look = "box best" if best else "box"
            add(group, "rect", x=x, y=y - scale.height / 2, width=scale.width, height=scale.height, rx=7, class_=look)
            _draw_mark(group, mark, x + 20, y, scale.radius, scale.letter)
            id_y = y - 3 if node.note else y + 4
            add(group, "text", shortened(node.id, scale.id_columns), x=x + 38, y=id_y, class_="id")
            if node.note:
                add(group, "text", begun(node.note, 22), x=x + 38, y=y + 12, class_="quiet small")
            return
        middle = x + (scale.width / 2 if scale is DOTS else scale.radius)
        _draw_mark(group, mark, middle, y, scale.radius, scale.letter, best=best)
        if scale is NAMES:
            name = shortened(node.id, scale.id_columns)
            add(group, "text", name, x=x + 2 * scale.radius + 6, y=y + 3.6, class_="id name")
        elif best:
            add(group, "circle", cx=middle, cy=y, r=9, class_="line")


def _draw_mark(
    parent: Element, mark: Mark, x: float, y: float, radius: float, letter: float, *, best: bool = False
) -> None:
    look = "mark best" if best else "mark"
    if mark.corners:
        add(parent, "polygon", points=points(mark.outline(x, y, radius)), fill=mark.fill, class_=look)
    else:
        add(parent, "circle", cx=x, cy=y, r=radius, fill=mark.fill, class_=look)
    if letter:
        style = f"font-size:{number(letter)}px;fill:{mark.ink}"
        add(parent, "text", mark.letter, x=x, y=y + letter * 0.36, class_="letter", style=style)


def _legend_width(label: str) -> float:
    return 44 + 7.2 * cells(label)


def _bend(from_x: float, from_y: float, to_x: float, to_y: float) -> str:
    reach = max(abs(to_x - from_x) / 2, 12.0)
    numbers = (from_x + reach, from_y, to_x - reach, to_y, to_x, to_y)
    return "C" + " ".join(number(value) for value in numbers)


def _known_columns(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[int]:
    known = [node.column for node in nodes if node.column is not None]
    if not known:
        return depths(len(nodes), edges)
    return [NO_COLUMN if node.column is None else node.column for node in nodes]


def _first_parents(best: int | None, edges: Sequence[Edge]) -> set[Edge]:
    """The edges from the best back through each one's first parent."""
    first: dict[int, int] = {}
    for parent, child in edges:
        first.setdefault(child, parent)
    line: set[Edge] = set()
    at: int | None = best
    while at is not None:
        before = first.get(at)
        if before is None or (before, at) in line:
            break
        line.add((before, at))
        at = before
    return line


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
