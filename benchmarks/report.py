"""The report of a run: ratios only, because times belong to one machine and ratios travel."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from app.embedded.binaries import find_postgres, postgres_version
from benchmarks.generator import first_words
from benchmarks.rounds import Pace, Ratio

LIBRARIES = ("asyncpg", "uvicorn", "uvloop", "httptools", "fastapi", "pydantic")


@dataclass(frozen=True)
class Run:
    """What was run and what was found."""

    arguments: list[str]
    pace: Pace
    rows: int
    ratios: list[Ratio]
    facts: dict[str, dict[str, int]]


class Told(TypedDict):
    """A run as report.json keeps it."""

    made: dict[str, str]
    facts: dict[str, dict[str, int]]
    ratios: list[dict[str, Any]]


def line(ratio: Ratio) -> str:
    """A ratio as a line of text."""
    bound = "" if ratio.least is None else f"  (at least {ratio.least:.2f}: {'yes' if ratio.holds else 'NO'})"
    spread = f"{ratio.low:.2f} to {ratio.high:.2f}"
    return f"{ratio.subject}, {ratio.clients} clients: {ratio.median:.2f} of {ratio.limit}, {spread}{bound}"


def write(folder: Path, run: Run, order: Sequence[str] = (), *, keep: bool = False) -> None:
    """Write report.md, report.json and report.svg, scenarios in their order.

    With `keep`, what the folder's report has of scenarios that this run did not measure stays in it.
    """
    file = folder / "report.json"
    told: list[Told] = json.loads(file.read_text()) if keep and file.exists() else []
    measured = {ratio.scenario for ratio in run.ratios}
    told = [_without(earlier, measured) for earlier in told]
    told.append({"made": _made_with(run), "facts": run.facts, "ratios": [asdict(ratio) for ratio in run.ratios]})
    told = [one for one in told if one["ratios"]]
    ratios = [Ratio(**ratio) for one in told for ratio in one["ratios"]]
    places = {name: place for place, name in enumerate(order)}
    ratios.sort(key=lambda ratio: places.get(ratio.scenario, len(places)))
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told, indent=1) + "\n")
    (folder / "report.svg").write_text(picture(ratios, max(ratio.clients for ratio in ratios)))
    (folder / "report.md").write_text("\n".join(_page(ratios, told)) + "\n")


def _without(told: Told, scenarios: set[str]) -> Told:
    """What a run told, less these scenarios."""
    gone = {ratio["subject"] for ratio in told["ratios"] if ratio["scenario"] in scenarios}
    return {
        "made": told["made"],
        "facts": {subject: facts for subject, facts in told["facts"].items() if subject not in gone},
        "ratios": [ratio for ratio in told["ratios"] if ratio["scenario"] not in scenarios],
    }


def _made_with(run: Run) -> dict[str, str]:
    return {
        "command": " ".join(["python -m benchmarks", *run.arguments]),
        "rounds": f"{run.pace.rounds} of {run.pace.seconds} s for each side, sides alternating",
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "PostgreSQL": str(postgres_version(find_postgres())),
        "load generator": first_words(),
        **{name: version(name) for name in LIBRARIES},
    }


def _page(ratios: Sequence[Ratio], told: Sequence[Told]) -> list[str]:
    page = [
        "# What the service reaches",
        "",
        "Each number is a rate as a part of a limit's rate, taken in the same run on the same database: the median of",
        "the rounds, and the lowest and highest. 1 is the limit itself. How it is done: docs/benchmarks.md.",
        "",
        "![The medians at the most clients](report.svg)",
        "",
        "| what | of | clients | median | rounds | must reach |",
        "|---|---|---:|---:|---|---|",
    ]
    for ratio in ratios:
        bound = "" if ratio.least is None else f"{ratio.least:.2f}: {'yes' if ratio.holds else '**no**'}"
        page.append(
            f"| {ratio.subject} | {ratio.limit} | {ratio.clients} | {ratio.median:.2f}"
            f" | {ratio.low:.2f} to {ratio.high:.2f} | {bound} |"
        )
    page += ["", "Counted on the connection:", ""]
    page += [
        f"- {subject}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}"
        for one in told
        for subject, counts in one["facts"].items()
        if counts
    ]
    for one in told:
        scenarios = dict.fromkeys(ratio["scenario"] for ratio in one["ratios"])
        page += ["", f"Made with, for {', '.join(scenarios)}:", ""]
        page += [f"- {name}: {value}" for name, value in one["made"].items()]
    return page


def picture(ratios: Sequence[Ratio], clients: int) -> str:
    """A bar for each ratio to asyncpg or to a raw INSERT at so many clients; a tick where a bound is."""
    shown = [ratio for ratio in ratios if ratio.clients == clients and ratio.limit != "bare framework"]
    shown = [ratio for ratio in shown if ratio.scenario != "ceiling"]
    label, width, step = 420, 360, 26
    most = max([1.0, *(ratio.median for ratio in shown)])
    height = step * len(shown) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + width + 60}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="8" y="18">Part of the limit, {clients} clients'
        " (a line marks what must be reached)</text>",
    ]
    for place, ratio in enumerate(shown):
        top = 30 + place * step
        length = round(width * ratio.median / most)
        lines.append(f'<text x="8" y="{top + 13}">{escape(f"{ratio.subject} / {ratio.limit}")}</text>')
        lines.append(f'<rect x="{label}" y="{top}" width="{length}" height="18" fill="#3b6ea5"/>')
        if ratio.least is not None:
            tick = label + round(width * ratio.least / most)
            lines.append(f'<rect x="{tick}" y="{top - 3}" width="2" height="24" fill="#c0392b"/>')
        lines.append(f'<text x="{label + length + 6}" y="{top + 13}">{ratio.median:.2f}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
