"""Genealogies of every shape: the same bytes each time, nothing over anything else, and nobody's text is markup."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest

from app.pictures.genealogy import NODES_MAX, Genealogy, Node, draw
from app.pictures.layered import depths
from app.pictures.marks import MARKS
from app.pictures.placing import BOXES, DOTS, NAMES, Placed, placed
from tests.pictures.samples import FOLDER, SAMPLES, five, search

SVG = "{http://www.w3.org/2000/svg}"


def grown(count: int, *edges: tuple[int, int], kind: str = "mutation") -> Genealogy:
    nodes = [Node(f"v{number}", kind) for number in range(count)]
    return Genealogy("A genealogy", nodes, [(f"v{source}", f"v{target}") for source, target in edges])


SHAPES = {
    "nothing": grown(0),
    "one": grown(1),
    "five": five(),
    "fifty": search(10, 5),
    "five hundred": search(25, 20),
    "few large generations": search(5, 100),
    "a chain": grown(500, *((number, number + 1) for number in range(499))),
    "a star": grown(500, *((0, number) for number in range(1, 500))),
    "a small star": grown(60, *((0, number) for number in range(1, 60))),
    "a tree": grown(255, *(((number - 1) // 2, number) for number in range(1, 255))),
    "roots alone": grown(300),
    "a lattice": grown(200, *((number, number + step) for number in range(180) for step in (10, 19))),
    "far parents": grown(
        300, *((number // 3, number) for number in range(1, 300)), *((n - 1, n) for n in range(1, 300))
    ),
    "a circle": grown(6, (0, 1), (1, 2), (2, 0), (3, 0)),
}


def boxes(genealogy: Genealogy) -> tuple[Placed, list[tuple[float, float, float, float]]]:
    where = {node.id: number for number, node in enumerate(genealogy.nodes)}
    edges = [(where[parent], where[child]) for parent, child in genealogy.edges]
    known = [node.column for node in genealogy.nodes if node.column is not None]
    columns = known if len(known) == len(genealogy.nodes) else depths(len(genealogy.nodes), edges)
    at = {label: number for number, label in enumerate(sorted(set(columns)))}
    found = placed([at[column] for column in columns], edges)
    scale = found.scale
    return found, [
        (left, middle - scale.height / 2, left + scale.width, middle + scale.height / 2)
        for left, middle in zip(found.lefts, found.middles, strict=True)
    ]


@pytest.mark.parametrize("genealogy", SHAPES.values(), ids=SHAPES)
def test_no_two_nodes_overlap(genealogy: Genealogy) -> None:
    _, rectangles = boxes(genealogy)
    over = [
        (one, other)
        for one, other in combinations(rectangles, 2)
        if one[0] < other[2] - 0.01
        and other[0] < one[2] - 0.01
        and one[1] < other[3] - 0.01
        and other[1] < one[3] - 0.01
    ]
    assert over == []


@pytest.mark.parametrize("genealogy", SHAPES.values(), ids=SHAPES)
def test_the_picture_is_valid_whole_and_of_a_page_s_shape(genealogy: Genealogy) -> None:
    svg = draw(genealogy)
    assert svg == draw(genealogy)
    root = fromstring(svg)
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    assert len(root.findall(f".//{SVG}g[@class='node']")) == len(genealogy.nodes)
    assert float(root.get("width", 0)) <= 2_400
    assert float(root.get("height", 0)) <= 2_800


@pytest.mark.parametrize("genealogy", SHAPES.values(), ids=SHAPES)
def test_every_edge_is_drawn_in_each_band_that_it_touches(genealogy: Genealogy) -> None:
    root = fromstring(draw(genealogy))
    drawn = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") in ("edge", "line")]
    legend = 1 if genealogy.best_id else 0
    assert len(set(drawn)) - legend == len(set(genealogy.edges))


def test_the_fewer_nodes_the_more_is_said_of_each() -> None:
    assert [boxes(search(*size))[0].scale for size in ((2, 5), (10, 5), (25, 20))] == [BOXES, NAMES, DOTS]
    texts = {size: _texts(fromstring(draw(search(*size)))) for size in ((2, 5), (10, 5), (25, 20))}
    ids = {size: [node.id[:5] for node in search(*size).nodes] for size in texts}
    assert all(any(text.startswith(name) for text in texts[2, 5]) for name in ids[2, 5])
    assert all(any(text.startswith(name) for text in texts[10, 5]) for name in ids[10, 5])
    # Only the best of many is named.
    assert sum(any(text.startswith(name) for text in texts[25, 20]) for name in ids[25, 20]) == 0
    assert any(text.startswith("best: ") for text in texts[25, 20])


def test_the_axis_counts_what_it_names() -> None:
    texts = _texts(fromstring(draw(search(10, 5))))
    assert "Graph of evolution run toy-search" in texts
    assert {"generation 0", *(str(number) for number in range(1, 10))} <= set(texts)
    assert any(text.startswith("50 versions · ") and "generation 0 to 9" in text for text in texts)
    assert {"init 5", "depth 0"} & set(texts) == {"init 5"}


def test_columns_keep_the_numbers_they_are_told() -> None:
    nodes = [Node("a", "init", 7), Node("b", "mutation", 1_000_000)]
    texts = _texts(fromstring(draw(Genealogy("Late", nodes, [("a", "b")], "generation"))))
    assert {"generation 7", "1000000"} <= set(texts)


def test_nodes_without_a_column_stand_before_the_others() -> None:
    nodes = [Node("a", "init", 0), Node("b", "mutation", 0), Node("c", "mutation")]
    texts = _texts(fromstring(draw(Genealogy("Partly", nodes, [("a", "b"), ("b", "c")], "generation"))))
    assert {"generation –", "0"} <= set(texts)
    assert any(text.endswith("generation 0") for text in texts)


def test_a_chain_breaks_into_bands_like_text() -> None:
    root = fromstring(draw(SHAPES["a chain"]))
    assert len(root.findall(f"{SVG}svg")) > 5
    assert any("bands, each continued by the next" in text for text in _texts(root))


def test_text_is_never_markup_and_what_cannot_be_shown_is_marked() -> None:
    wild = "</title><script>alert('1')</script>&\x00\x1b\u202e\ud800" + "x" * 300
    genealogy = Genealogy(
        wild, [Node(wild, wild, note=wild), Node("é日本" * 85, "init")], [(wild, "é日本" * 85)], best_id=wild
    )
    svg = draw(genealogy)
    assert "<script" not in svg
    assert not {"\x00", "\x1b", "\u202e", "\ud800"} & set(svg)
    root = fromstring(svg)
    full = [title.text or "" for title in root.iter(f"{SVG}title")]
    shown = wild.replace("\x00", "�").replace("\x1b", "�").replace("\u202e", "�").replace("\ud800", "�")
    assert any(shown in text for text in full)
    assert all(len(text) <= 100 for text in _texts(root) if "·" not in text)


def test_every_operation_has_a_colour_a_letter_and_a_shape_of_its_own() -> None:
    operations = [MARKS[name] for name in ("init", "mutation", "crossover", "immigrant")]
    for looks in ([mark.fill for mark in operations], [mark.letter for mark in operations]):
        assert len(set(looks)) == 4
    assert len({mark.corners for mark in operations}) == 4


def test_the_best_stands_out_with_its_line_of_first_parents() -> None:
    genealogy = Genealogy("g", five().nodes, five().edges, best_id="triage-3")
    root = fromstring(draw(genealogy))
    inner = root.find(f"{SVG}svg")
    assert inner is not None
    assert len([path for path in inner.iter(f"{SVG}path") if path.get("class") == "line"]) == 2
    assert "best: triage-3 Both of them., and its line of first parents" in _texts(root)


def test_the_largest_picture_takes_seconds_not_minutes() -> None:
    edges = [edge for number in range(1, NODES_MAX) for edge in ((number - 1, number), (number // 3, number)) if number]
    began = time.process_time()
    draw(grown(NODES_MAX, *edges))
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", SAMPLES)
def test_the_pictures_in_the_documents_are_drawn_by_this_code(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == SAMPLES[name](), "Run `make pictures`."


def test_another_process_draws_the_same_bytes() -> None:
    script = "import sys; from tests.pictures.samples import SAMPLES; sys.stdout.write(SAMPLES['graph-50.svg']())"
    other = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    )
    assert other.stdout.decode() == SAMPLES["graph-50.svg"]()


def _texts(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]
