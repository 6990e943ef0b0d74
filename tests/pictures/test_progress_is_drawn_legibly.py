"""The chart of a run's progress: axes, units, gaps where nothing is known, and the same bytes each time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest

from app.pictures.progress import Generation, Progress, dollars, draw, shown, summary
from tests.pictures.samples import run

SVG = "{http://www.w3.org/2000/svg}"


def texts(root: Element) -> list[str]:
    return [(text.text or "").strip() for text in root.iter(f"{SVG}text")]


RUNS = {
    "nothing": Progress("p", []),
    "one": run(1),
    "ten": run(10),
    "two hundred": run(200),
    "gaps": run(20, unknown=frozenset({0, 3, 4, 9, 11, 19})),
    "one known among many": run(100, unknown=frozenset(range(100)) - {50}),
    "nothing known": Progress("p", [Generation(number) for number in range(5)]),
    "negative": Progress("p", [Generation(number, -400.0 + number, -500.0, -1e9) for number in range(9)]),
    "huge": Progress("p", [Generation(number, 1e300, 1.0, -1e300, 0.5, 1e12) for number in range(9)]),
    "beyond every axis": Progress(
        "p", [Generation(number, 1.7e308, -1.7e308, -1.7e308, 1e308, 1e20) for number in (0, 1)]
    ),
    "the last numbers": Progress("p", [Generation(2**53 - number, 1.0, cost=1.0) for number in (3, 2, 1)]),
    "first and last number": Progress("p", [Generation(0, 1.0, cost=1.0), Generation(2**53 - 1, 2.0, cost=1.0)]),
    "least and next": Progress("p", [Generation(0, 5e-324, -5e-324, -5e-324), Generation(1, 1.0000000000000002, 1.0)]),
    "tiny": Progress("p", [Generation(number, 1e-300, 0.0, 0.0, 0.0, 1e-18) for number in range(9)]),
    "not finite": Progress("p", [Generation(0, float("inf"), float("nan"), float("-inf"), None, float("inf"))]),
    "constant": Progress("p", [Generation(number, 0.5, 0.5, 0.5, 0.5, 0.0) for number in range(9)]),
    "far apart": Progress("p", [Generation(number * 1_000_000, float(number)) for number in range(5)]),
}


@pytest.mark.parametrize("progress", RUNS.values(), ids=RUNS)
def test_any_progress_gives_a_valid_picture_and_the_same_each_time(progress: Progress) -> None:
    svg = draw(progress)
    assert svg == draw(progress)
    root = fromstring(svg)
    assert (root.tag, root.get("role"), root.get("width")) == (f"{SVG}svg", "img", "960")
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root.find(f"{SVG}desc").text == f"{summary(progress)}."  # type: ignore[union-attr]
    assert "generation" in texts(root)
    assert "metadata" not in svg
    assert "nan" not in "".join(path.get("d", "") for path in root.iter(f"{SVG}path"))


def test_axes_have_names_and_units_and_lines_a_legend() -> None:
    assert {"fitness", "accuracy", "cost (USD)", "generation", "best", "average", "worst", "cost"} <= set(
        texts(fromstring(draw(run(10))))
    )


def test_what_nobody_recorded_has_no_panel() -> None:
    without = {"accuracy", "cost (USD)"} & set(texts(fromstring(draw(RUNS["negative"]))))
    assert without == set()
    assert "no fitness is recorded" in texts(fromstring(draw(RUNS["nothing known"])))


def test_dollars_and_markup_in_a_title_stay_text() -> None:
    svg = draw(Progress("$x^2$ <script>alert(1)</script> & \x00 $", [Generation(0, 1.0)]))
    assert "<script" not in svg
    assert "$x^2$ <script>alert(1)</script> & � $" in texts(fromstring(svg))


def test_the_summary_says_the_best_and_the_costs() -> None:
    progress = Progress("p", [Generation(0, 0.5, cost=0.25), Generation(1, 0.75, cost=1.0), Generation(2, 0.75)])
    assert summary(progress) == "3 generations · best fitness 0.75 in generation 1 · 1.25 USD in all"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.123456, "0.1235"),
        (-12.5, "−12.5"),
        (1234567.0, "1,234,567"),
        (-2.5e-7, "−2.5e−7"),
        (3e9, "3e9"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (8e-4, "0.0008"),
        (0.000746, "0.000746"),
        (0.00099999, "0.001"),
        (-0.00012346, "−0.0001235"),
        (1e-6, "0.000001"),
        (2.5e-7, "2.5e−7"),
        (0.0032, "0.0032"),
        (1234.5, "1,234"),
    ],
)
def test_small_change_is_a_plain_decimal(value: float | None, text: str) -> None:
    assert dollars(value) == text


def test_ticks_of_small_costs_are_plain_decimals() -> None:
    costs = [Generation(number, 0.5, cost=0.0008 * (number + 1)) for number in range(4)]
    assert {"0.0008", "0.0032"} <= set(texts(fromstring(draw(Progress("p", costs)))))


def test_threads_that_draw_at_once_do_not_disturb_each_other() -> None:
    wanted = [draw(progress) for progress in RUNS.values()]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(draw, list(RUNS.values()) * 2)) == wanted * 2


def test_a_process_that_never_draws_loads_no_drawing_library() -> None:
    script = (
        "import sys, app.main, app.pictures.progress; sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, timeout=60, check=False).returncode == 0
