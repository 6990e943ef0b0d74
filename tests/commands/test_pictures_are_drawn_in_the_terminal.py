"""`cairn versions tree` and `cairn runs progress` draw with letters: in colour, piped, and in plain ASCII."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from app.commands.sketches import print_tree, progress_of, tree_of
from app.pictures.genealogy import Genealogy, Node
from app.pictures.progress import Generation, Progress
from tests.pictures.samples import five, run, search


def printed(*parts: RenderableType, encoding: str = "utf-8", width: int = 100) -> list[str]:
    into = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=into, width=width)
    for part in parts:
        console.print(part)
    into.seek(0)
    return [line.rstrip() for line in into.read().splitlines()]


def test_a_tree_has_each_version_once_below_its_first_parent() -> None:
    assert printed(tree_of(five())) == [
        "Genealogy of workflow triage",
        "├── I triage-1  The first draft.",
        "│   ├── M triage-2-ask-back  Let the planner ask back.",
        "│   │   ↳ X triage-3 × triage-2-short  Both of them.",
        "│   └── M triage-2-short  Shorter prompts.",
        "└── + from-the-library",
    ]


def test_a_tree_is_drawn_in_ascii_where_there_is_nothing_else() -> None:
    assert printed(tree_of(five(), ascii_only=True), encoding="ascii") == [
        "Genealogy of workflow triage",
        "+-- I triage-1  The first draft.",
        "|   +-- M triage-2-ask-back  Let the planner ask back.",
        "|   |   ` X triage-3 x triage-2-short  Both of them.",
        "|   `-- M triage-2-short  Shorter prompts.",
        "`-- + from-the-library",
    ]


def test_a_long_line_of_descent_stays_narrow() -> None:
    nodes = [Node(f"v{number}", "mutation") for number in range(500)]
    chain = Genealogy("g", nodes, [(f"v{number}", f"v{number + 1}") for number in range(499)])
    lines = printed(tree_of(chain))
    assert len(lines) == 501
    assert max(len(line) for line in lines) < 20


def test_long_ids_are_shortened_where_a_terminal_is_narrow() -> None:
    assert max(len(line) for line in printed(tree_of(search(3, 4), id_columns=16))) < 80
    assert all(node.id in " ".join(printed(tree_of(search(3, 4)), width=500)) for node in search(3, 4).nodes)


def test_a_circle_and_an_empty_genealogy_have_an_end() -> None:
    circle = Genealogy("g", [Node(name, "mutation") for name in "abc"], [("a", "b"), ("b", "c"), ("c", "a")])
    assert printed(tree_of(circle)) == ["g", "└── M a", "    ↳ M b", "    ↳ M c"]
    assert printed(tree_of(Genealogy("g", [], []))) == ["g", "└── nothing is recorded yet"]


def test_what_others_wrote_neither_drives_the_terminal_nor_is_markup() -> None:
    wild = Genealogy(
        "[bold]g\x1b[31m", [Node("a\x1b]0;x\x07\n[red]b", "\x1b[0m", note="\x9b31m\u202e")], [], remark="\x1b"
    )
    text = "\n".join(printed(tree_of(wild)))
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    assert "[bold]g" in text
    assert "[red]b" in text


def test_progress_has_a_row_for_each_generation() -> None:
    progress = Progress(
        "Progress of evolution run r",
        [Generation(0, 0.5, 0.25, 0.0, None, 0.125), Generation(1), Generation(2, 1.0, 0.75, 0.5, None, 1.0)],
    )
    assert printed(*progress_of(progress, 70, 40), width=70) == [
        "Progress of evolution run r",
        "3 generations · best fitness 1 in generation 2 · 1.125 USD in all",
        "generation  best  average  worst    USD  0          fitness          1",
        "         0   0.5     0.25    0    0.125  w──────a──────b",
        "         1   –       –       –    –",
        "         2   1       0.75    0.5  1                    w──────a──────b",
    ]


def test_small_change_is_written_out_below_each_other() -> None:
    progress = Progress("r", [Generation(0, 1.0, cost=0.003371), Generation(1, 1.0, cost=0.000746)])
    lines = printed(*progress_of(progress, 70, 40), width=70)
    assert lines[1].endswith("0.004117 USD in all")
    assert [line[line.index("0.") :].split()[0] for line in lines[3:]] == ["0.003371", "0.000746"]
    assert lines[3].index("0.003371") == lines[4].index("0.000746")


def test_a_terminal_gets_one_line_for_each_version_and_a_pipe_all_of_it() -> None:
    nodes = [Node("v1", "init", note="0.5 + " * 40), Node("v2", "mutation", note="short")]
    tree = tree_of(Genealogy("g", nodes, [("v1", "v2")]))
    for is_terminal in (True, False):
        console = Console(
            file=io.StringIO(), force_terminal=is_terminal, width=40 if is_terminal else 500, color_system=None
        )
        print_tree(console, tree)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert [line.split()[1] for line in lines[1:]] == ["I", "M"]
        assert lines[1].endswith("…") is is_terminal
        assert (len(lines[1]) == 40) is is_terminal


def test_progress_is_drawn_in_ascii_where_there_is_nothing_else() -> None:
    lines = printed(*progress_of(run(6), 90, 40, ascii_only=True), encoding="ascii", width=90)
    assert any("w--" in line for line in lines)
    assert all(line.isascii() for line in lines)


def test_many_generations_are_thinned_out_and_it_is_said() -> None:
    lines = printed(*progress_of(run(200), 100, 20))
    assert len(lines) <= 20 + 4
    assert lines[-1] == "One generation in 12 is shown, and the last and the best; --rows shows more."
    assert any(line.split()[0] == "199" for line in lines[3:-1])


def test_no_line_is_wider_than_what_it_is_drawn_for() -> None:
    for columns in (80, 100, 200):
        assert max(len(line) for line in printed(*progress_of(run(50), columns, 60), width=columns)) <= columns


def test_huge_and_missing_numbers_have_their_rows() -> None:
    progress = Progress("p", [Generation(0, 1e308, 0.0, -1e308), Generation(1, float("inf"), None, None)])
    assert len(printed(*progress_of(progress, 100, 40))) == 5
    assert printed(*progress_of(Progress("p", []), 100, 40)) == ["p", "No generation is recorded yet."]
