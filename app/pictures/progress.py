"""How a run came on, generation by generation, as a chart: fitness, accuracy and cost below each other."""

from __future__ import annotations

import gc
import math
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, fromstring, register_namespace

from app.pictures.svg import INK, QUIET, RULE, clean, shortened, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GENERATIONS_MAX = 2_000
# Markers are drawn while they can be told apart.
MARKED_MAX = 60
# Where an axis ends: the drawing library takes differences of what it draws, and each must be a double.
REACH = 1e300
SVG = "http://www.w3.org/2000/svg"
DOTS_PER_INCH = 72.0
WIDTH, PANEL, HEAD, FOOT, BETWEEN = 960.0, 190.0, 88.0, 58.0, 34.0
LEFT, RIGHT = 84.0, 132.0
BEST, AVERAGE, WORST, ACCURACY, COST = "#d55e00", "#0072b2", "#59636e", "#009e73", "#56b4e9"
_LONG = re.compile(r"(\.\d\d)\d+").sub
# The drawing library keeps settings and fonts for the whole process.
_DRAWING = threading.Lock()


@dataclass(frozen=True)
class Generation:
    """What is known of one generation; costs are US dollars."""

    number: int
    best: float | None = None
    average: float | None = None
    worst: float | None = None
    accuracy: float | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Progress:
    """What is drawn: the generations in the order of their numbers, and what else must be known, such as a limit."""

    title: str
    generations: Sequence[Generation]
    remark: str = ""


@dataclass(frozen=True)
class _Series:
    """One line of a panel: its look differs in colour, dashes and marker."""

    name: str
    of: Callable[[Generation], float | None]
    color: str
    dashes: str
    marker: str


FITNESS = (
    _Series("best", lambda generation: generation.best, BEST, "-", "o"),
    _Series("average", lambda generation: generation.average, AVERAGE, "--", "s"),
    _Series("worst", lambda generation: generation.worst, WORST, ":", "v"),
)
ACCURACIES = (_Series("accuracy", lambda generation: generation.accuracy, ACCURACY, "-", "D"),)


def draw(progress: Progress) -> str:
    """The chart as SVG text: the same progress gives the same bytes."""
    with _DRAWING:
        _load()
        return _accessible(_figure(progress), progress)


def summary(progress: Progress) -> str:
    """One line of what matters: how many generations, the best and when, and what all cost."""
    generations = progress.generations
    if not generations:
        return "No generation is recorded yet."
    parts = [f"{len(generations):,} generation{'' if len(generations) == 1 else 's'}"]
    best = best_of(generations)
    if best is not None:
        parts.append(f"best fitness {shown(best.best)} in generation {best.number}")
    costs = [cost for cost in _finite(generations, lambda generation: generation.cost) if not math.isnan(cost)]
    if costs:
        parts.append(f"{dollars(math.fsum(costs))} USD in all")
    if progress.remark:
        parts.append(progress.remark)
    return " · ".join(parts)


def best_of(generations: Sequence[Generation]) -> Generation | None:
    """The first generation with the highest best fitness."""
    known = [generation for generation in generations if not math.isnan(_number(generation.best))]
    return max(known, key=lambda generation: (_number(generation.best), -generation.number), default=None)


def shown(value: float | None) -> str:
    """A number for people: four digits that count, thousands parted, powers of ten where it is huge or tiny."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e7:
        digits, power = f"{value:.3e}".split("e")
        return f"{float(digits):g}e{int(power)}".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}").replace("-", "−")


def dollars(value: float | None) -> str:
    """Money for people: as `shown`, but small change as a plain decimal, down to a millionth of a dollar."""
    if value is None or not 1e-6 <= abs(value) < 1e-3:
        return shown(value)
    places = 3 - math.floor(math.log10(abs(value)))
    return f"{value:.{places}f}".rstrip("0").replace("-", "−")


@cache
def _load() -> None:
    """Load the drawing library, which a process that never draws does not: 60 MB and about a second."""
    import matplotlib as mpl  # noqa: PLC0415
    import matplotlib.backends.backend_svg  # noqa: PLC0415
    import matplotlib.figure  # noqa: PLC0415

    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "cairn"
    # It stays for good. Otherwise each of the collector's full rounds would look at all of it, 50 ms long.
    gc.collect()
    gc.freeze()


def _figure(progress: Progress) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    generations = progress.generations
    panels: list[Callable[[Axes], None]] = [lambda axes: _lines(axes, generations, FITNESS, "fitness")]
    if any(generation.accuracy is not None for generation in generations):
        panels.append(lambda axes: _lines(axes, generations, ACCURACIES, "accuracy"))
    if any(generation.cost is not None for generation in generations):
        panels.append(lambda axes: _bars(axes, generations))
    height = HEAD + len(panels) * PANEL + (len(panels) - 1) * BETWEEN + FOOT
    figure = Figure(figsize=(WIDTH / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH, facecolor="white")
    figure.text(
        28 / WIDTH, 1 - 38 / height, shortened(progress.title, 72), size=18, weight="bold", color=INK, parse_math=False
    )
    figure.text(28 / WIDTH, 1 - 62 / height, summary(progress), size=12, color=QUIET, parse_math=False)
    drawn: list[Axes] = []
    for place, panel in enumerate(panels):
        bottom = height - HEAD - (place + 1) * PANEL - place * BETWEEN
        axes = figure.add_axes(
            (LEFT / WIDTH, bottom / height, (WIDTH - LEFT - RIGHT) / WIDTH, PANEL / height),
            sharex=drawn[0] if drawn else None,
        )
        panel(axes)
        _dress(axes, last=place == len(panels) - 1)
        drawn.append(axes)
    _set_across(drawn[0], generations)
    return figure


def _set_across(axes: Axes, generations: Sequence[Generation]) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, StrMethodFormatter  # noqa: PLC0415

    numbers = [generation.number for generation in generations] or [0]
    room = max(0.6, (numbers[-1] - numbers[0]) * 0.02) if len(numbers) > 1 else 2.5
    axes.set_xlim(numbers[0] - room, numbers[-1] + room)
    many = MaxNLocator(nbins=12, integer=True, min_n_ticks=1)
    axes.xaxis.set_major_locator(many if len(numbers) > 1 else FixedLocator(numbers))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def _dress(axes: Axes, *, last: bool) -> None:
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y", color=RULE, linewidth=0.8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    # The lines of the grid are enough; a line below them would lie almost on the lowest.
    axes.spines["bottom"].set_visible(not axes.get_yticks().size)
    axes.spines["bottom"].set_color(RULE)
    axes.tick_params(colors=QUIET, labelsize=11, length=0, pad=6)
    axes.tick_params(axis="x", labelbottom=last)
    axes.yaxis.label.set(size=12, color=INK)
    axes.yaxis.set_label_coords(-0.075, 0.5)
    if last:
        axes.set_xlabel("generation", size=12, color=INK, labelpad=8)


def _lines(axes: Axes, generations: Sequence[Generation], series: Sequence[_Series], unit: str) -> None:
    numbers = [generation.number for generation in generations]
    marked = len(numbers) <= MARKED_MAX
    known = False
    for place, line in enumerate(reversed(series)):
        values = _within_reach(generations, line.of)
        if all(math.isnan(value) for value in values):
            continue
        known = True
        alone = _alone(values)
        axes.plot(
            numbers, values, line.dashes, color=line.color, linewidth=2.0 if place == len(series) - 1 else 1.6,
            marker=line.marker if marked else "", markersize=4.5, markeredgecolor="white", markeredgewidth=0.6,
            label=line.name, zorder=3 + place,
        )  # fmt: skip
        if alone and not marked:
            axes.plot(
                [numbers[at] for at in alone], [values[at] for at in alone], line.marker, color=line.color, markersize=3
            )
    if len(series) > 1 and known:
        low, high = (_within_reach(generations, line.of) for line in (series[-1], series[0]))
        axes.fill_between(numbers, low, high, color=RULE, alpha=0.35, linewidth=0)
        _name_best(axes, generations)
    if known:
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(
            handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=11,
            labelcolor=INK, handlelength=2.4,
        )  # fmt: skip
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, f"no {unit} is recorded", transform=axes.transAxes, ha="center", color=QUIET, size=12)
    _set_up(axes)
    axes.set_ylabel(unit)


def _name_best(axes: Axes, generations: Sequence[Generation]) -> None:
    best = best_of(generations)
    if best is not None and best.best is not None:
        axes.plot(
            [best.number], [_reached(best.best)], "o", markersize=11, markerfacecolor="none", markeredgecolor=BEST,
            markeredgewidth=1.8, zorder=8, clip_on=False,
        )  # fmt: skip


def _bars(axes: Axes, generations: Sequence[Generation]) -> None:
    numbers = [generation.number for generation in generations]
    costs = [0.0 if math.isnan(cost) else cost for cost in _finite(generations, lambda generation: generation.cost)]
    if len(numbers) <= MARKED_MAX:
        nearest = min((after - before for before, after in pairwise(numbers)), default=1)
        axes.bar(numbers, costs, width=0.72 * max(nearest, 1), color=COST, label="cost", zorder=3)
    else:
        middles = [(before + after) / 2 for before, after in pairwise(numbers)]
        ends = [numbers[0] - 0.5, *middles, numbers[-1] + 0.5]
        axes.stairs(costs, ends, fill=True, color=COST, label="cost", zorder=3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=11, labelcolor=INK)
    if not any(costs):
        axes.set_ylim(0, 1)
    _set_up(axes, dollars)
    axes.set_ylabel("cost (USD)")


def _set_up(axes: Axes, told: Callable[[float], str] = shown) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axes.margins(y=0.12)
    if axes.get_ylabel() != "" or axes.get_yticks().size:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: told(value)))


def _words(text: str | None) -> str | None:
    return text if text and not text.isspace() else None


def _number(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else math.nan


def _finite(generations: Sequence[Generation], of: Callable[[Generation], float | None]) -> list[float]:
    return [_number(of(generation)) for generation in generations]


def _within_reach(generations: Sequence[Generation], of: Callable[[Generation], float | None]) -> list[float]:
    return [_reached(value) for value in _finite(generations, of)]


def _reached(value: float) -> float:
    """The value, or the end of the axis where it lies beyond."""
    return value if math.isnan(value) else max(-REACH, min(REACH, value))


def _alone(values: Sequence[float]) -> list[int]:
    """Where a value stands between gaps, so that no line leads to it."""
    known = [not math.isnan(value) for value in values]
    around = [False, *known, False]
    return [at for at, is_known in enumerate(known) if is_known and not around[at] and not around[at + 2]]


def _accessible(figure: Figure, progress: Progress) -> str:
    """The figure's SVG, with a title and a description in place of the library's metadata."""
    text = StringIO()
    metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=metadata)
    register_namespace("", SVG)
    register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = fromstring(text.getvalue())  # noqa: S314 - written by the line above
    for element in root.iter():
        element.text, element.tail = (_words(part) for part in (element.text, element.tail))
        for name, value in element.items():
            if name in ("d", "x", "y", "transform"):
                element.set(name, _LONG(r"\1", value))
    for metadata_element in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata_element)
    for size in ("width", "height"):
        root.set(size, root.get(size, "").removesuffix("pt"))
    root.set("role", "img")
    root.set("aria-labelledby", "title description")
    told = (("title", progress.title), ("desc", f"{summary(progress)}."))
    for place, (tag, words) in enumerate(told):
        element = Element(f"{{{SVG}}}{tag}", {"id": "title" if tag == "title" else "description"})
        element.text = clean(words)
        root.insert(place, element)
    return written(root)
