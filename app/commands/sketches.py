"""Genealogies and progress as text for a terminal or a pipe: the pictures' content without their pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from app.pictures.genealogy import Genealogy, Node
from app.pictures.marks import mark_of
from app.pictures.progress import Generation, Progress, best_of, dollars, shown, summary
from app.pictures.svg import cells, clean, shortened

# What is not a terminal has this many columns for a chart; lines of a tree have no edge to wrap at.
PIPE_COLUMNS, PIPE_LINE_COLUMNS = 100, 200_000
CHART_MIN, CHART_MAX = 20, 72
STYLES = {"init": "bold blue", "mutation": "bold yellow", "crossover": "bold green", "immigrant": "bold magenta"}
# What a terminal or a file without Unicode shows instead.
ASCII = str.maketrans({"·": "|", "─": "-", "−": "-", "–": "-", "…": "...", "×": "x", "↳": "`", "→": "->", "▸": ">"})


def spelled(text: str, *, ascii_only: bool) -> str:
    """The text without what could drive a terminal; in ASCII, with `?` for each letter beyond it, where it must be."""
    text = clean(text)
    return text.translate(ASCII).encode("ascii", "replace").decode() if ascii_only else text


def line_of(*parts: str | tuple[str, str]) -> Text:
    """A line of texts and (text, style) pairs: neither markup nor control characters in them reach the terminal."""
    line = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        line.append(clean(text), style)
    return line


def console_of(pipe_columns: int) -> Console:
    """Standard output: as wide as its terminal, or as given where it is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=pipe_columns)


def without_unicode(console: Console) -> bool:
    """Whether what the console writes to cannot hold more than ASCII."""
    return console.options.ascii_only


def print_tree(console: Console, tree: Tree) -> None:
    """Print a tree with each version on one line: on a terminal it is cut at the edge, elsewhere it stays whole."""
    if console.is_terminal:
        console.print(tree, no_wrap=True, overflow="crop" if without_unicode(console) else "ellipsis")
    else:
        console.print(tree)


def tree_of(genealogy: Genealogy, *, id_columns: int | None = None, ascii_only: bool = False) -> Tree:
    """A tree in which each node stands once, below its first parent; its other parents are named.

    Ids are shortened to `id_columns` where that is given. An only child stands on the line below its parent, after `↳`,
    so that long lines of descent stay narrow.
    """
    nodes = {node.id: node for node in genealogy.nodes}
    parents: dict[str, list[str]] = {node.id: [] for node in genealogy.nodes}
    children: dict[str, list[str]] = {node.id: [] for node in genealogy.nodes}
    for parent, child in dict.fromkeys(genealogy.edges):
        if parent in nodes and child in nodes and parent != child:
            if not parents[child]:
                children[parent].append(child)
            parents[child].append(parent)
    tree = Tree(line_of((spelled(genealogy.title, ascii_only=ascii_only), "bold")))
    drawn: set[str] = set()
    roots = [name for name, known in parents.items() if not known]
    # What lies in a circle hangs below no root: it begins wherever it is met first.
    for root in (*roots, *parents):
        waiting = [(tree, root)]
        while waiting:
            branch, name = waiting.pop()
            if name in drawn:
                continue
            label = Text()
            while True:
                drawn.add(name)
                ids = [shortened(known, id_columns or cells(known)) for known in (name, *parents[name][1:])]
                label.append_text(_node_line(nodes[name], ids, ascii_only=ascii_only))
                below = [child for child in children[name] if child not in drawn]
                if len(below) != 1:
                    break
                name = below[0]
                label.append("\n" + spelled("↳ ", ascii_only=ascii_only), "dim")
            hung = branch.add(label)
            waiting.extend((hung, child) for child in reversed(below))
    if not genealogy.nodes:
        tree.add(line_of(("nothing is recorded yet", "dim")))
    if genealogy.remark:
        tree.add(line_of((spelled(genealogy.remark, ascii_only=ascii_only), "yellow")))
    return tree


def _node_line(node: Node, ids: Sequence[str], *, ascii_only: bool) -> Text:
    mark = mark_of(node.kind)
    parts = [(f"{mark.letter} ", STYLES.get(node.kind, "dim")), (ids[0], "bold")]
    parts += [(f" × {other}", "green") for other in ids[1:]]
    if node.note:
        parts.append((f"  {node.note}", "dim"))
    return line_of(*((spelled(text, ascii_only=ascii_only), style) for text, style in parts))


def progress_of(progress: Progress, columns: int, rows_max: int, *, ascii_only: bool = False) -> Iterator[Text | Table]:
    """Title, summary, and one row for each generation: its numbers, and where worst, average and best lie.

    They lie between the lowest and the highest of all. Of more than `rows_max` generations one in so many is shown,
    and the last and the best, and a line says so.
    """
    generations = progress.generations
    yield line_of((spelled(progress.title, ascii_only=ascii_only), "bold"))
    yield line_of((spelled(summary(progress), ascii_only=ascii_only), "dim"))
    if not generations:
        return
    rows, step = _rows(generations, rows_max)
    yield _table(rows, _span(generations), best_of(generations), columns, ascii_only=ascii_only)
    if step > 1:
        yield line_of((f"One generation in {step} is shown, and the last and the best; --rows shows more.", "dim"))


def _table(
    rows: Sequence[Generation],
    span: tuple[float, float] | None,
    best: Generation | None,
    columns: int,
    *,
    ascii_only: bool,
) -> Table:
    """Numbers that at least one row has, and a chart in what is left of the columns."""
    told = [
        ("generation", [str(row.number) for row in rows]),
        ("best", [shown(row.best) for row in rows]),
        ("average", [shown(row.average) for row in rows]),
        ("worst", [shown(row.worst) for row in rows]),
        ("accuracy", [shown(row.accuracy) for row in rows]),
        ("USD", [dollars(row.cost) for row in rows]),
    ]
    told = [(name, _aligned(texts)) for name, texts in told if name == "generation" or {*texts} != {"–"}]
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    left = columns
    for name, texts in told:
        width = max(len(name), *(len(text) for text in texts))
        left -= width + 2
        # Placed here: the table would take the spaces after a number away.
        texts[:] = [text.rjust(width) for text in texts]
        table.add_column(name.rjust(width), no_wrap=True, min_width=width)
    wide = min(max(left, CHART_MIN), CHART_MAX)
    if span is not None:
        table.add_column(spelled(_scale(*span, wide), ascii_only=ascii_only), no_wrap=True)
    for place, row in enumerate(rows):
        line = [Text(spelled(texts[place], ascii_only=ascii_only)) for _, texts in told]
        if span is not None:
            line.append(_chart_row(row, *span, wide, ascii_only=ascii_only))
        table.add_row(*line, style="bold" if row is best else "")
    return table


def _aligned(texts: Sequence[str]) -> list[str]:
    """The numbers with as many places after the point, blank ones where they have fewer."""
    places = [len(text) - len(text.split(".", 1)[0]) for text in texts]
    return [text + " " * (max(places) - own) for text, own in zip(texts, places, strict=True)]


def _scale(lowest: float, highest: float, columns: int) -> str:
    """What stands above the chart: its ends, and between them what lies there, where there is room."""
    low, high = shown(lowest), shown(highest)
    between = max(columns - len(low) - len(high), 1)
    name = "fitness" if between >= len(" fitness ") else ""
    return f"{low}{name.center(between)}{high}"


def _rows(generations: Sequence[Generation], rows_max: int) -> tuple[list[Generation], int]:
    step = max(1, math.ceil(len(generations) / max(1, rows_max - 2)))
    if len(generations) <= rows_max:
        step = 1
    always = {len(generations) - 1}
    best = best_of(generations)
    return [row for place, row in enumerate(generations) if place % step == 0 or place in always or row is best], step


def _span(generations: Sequence[Generation]) -> tuple[float, float] | None:
    """The lowest and the highest fitness that is known, if any is."""
    known = [
        value
        for row in generations
        for value in (row.worst, row.average, row.best)
        if value is not None and math.isfinite(value)
    ]
    return (min(known), max(known)) if known else None


def _chart_row(row: Generation, lowest: float, highest: float, columns: int, *, ascii_only: bool) -> Text:
    """`w──a──b` at their places; where two fall together, the better one shows."""
    at = {}
    for letter, value in (("w", row.worst), ("a", row.average), ("b", row.best)):
        if value is not None and math.isfinite(value):
            # Halves, since the difference of two huge numbers may be more than a number holds.
            share = (value / 2 - lowest / 2) / (highest / 2 - lowest / 2) if highest > lowest else 0.5
            at[letter] = round(share * (columns - 1))
    line = Text(" " * columns)
    if at:
        first, last = min(at.values()), max(at.values())
        drawn = list(" " * first + "─" * (last - first + 1) + " " * (columns - last - 1))
        for letter, column in at.items():
            drawn[column] = letter
        line = Text(spelled("".join(drawn), ascii_only=ascii_only))
        for letter, style in (("w", "dim"), ("a", "blue"), ("b", "bold red")):
            if letter in at:
                line.stylize(style, at[letter], at[letter] + 1)
    return line
