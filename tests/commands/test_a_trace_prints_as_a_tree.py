"""`cairn show` prints what the trace says, cut to a width, and nothing that could drive a terminal."""

from __future__ import annotations

import io
import json

from rich.console import Console
from rich.tree import Tree

from app.client.models import Trace
from app.commands import sketches
from app.commands.show import print_tree, tree_of
from app.pictures.genealogy import Genealogy

TRACE = Trace(
    b'{"invocation":{"id":"inv_1","status":"failed","started_at":"2026-01-05T10:00:00.000000Z",'
    b'"ended_at":"2026-01-05T10:00:04.218311Z","usd_cost":0.012300000000000000,"input":{"q":"why?"},"output":null},'
    b'"version":{"id":"v_1","operation":"init"},"nodes":[{"id":"n1","node_id":"plan","status":"completed",'
    b'"started_at":"2026-01-05T10:00:01.000000Z","ended_at":"2026-01-05T10:00:01.500000Z","usd_cost":0.01,"input_tokens":7,'
    b'"output":"done","node_version":{"llm_model":"small"},"messages_in":["m1"],"messages_out":["m2"],"actions":[{"id":"a",'
    b'"tool":"[bold]bash[/bold]","input":"ls \xc2\x9b31m","output":"x","duration_ms":12,"exit_code":0}]}],'
    b'"messages":[{"id":"m1","seq":1,"role":"user","payload":"a very long question","to_node_id":"plan"},'
    b'{"id":"m2","seq":2,"role":"result","payload":1.50,"from_node_id":"plan","to_node_id":"end"},'
    b'{"id":"m3","seq":3,"role":"control","payload":null}]}'
)


def lines_of(tree: Tree) -> list[str]:
    into = io.StringIO()
    Console(file=into, width=200).print(tree)
    return [line.rstrip() for line in into.getvalue().splitlines()]


def printed(chars: int) -> list[str]:
    return lines_of(tree_of(TRACE, chars))


def test_the_tree_shows_times_costs_calls_and_messages() -> None:
    assert printed(chars=10) == [
        "inv_1  failed  2026-01-05 10:00:00Z  4.218 s  $0.0123",
        "├── version v_1  init",
        '├── input {"q":"why?…',
        "├── plan  n1  completed  2026-01-05 10:00:01Z  0.500 s  $0.01  tokens 7 in, – out  model small",
        '│   ├── → user  plan  "a very lo…',
        "│   ├── ⚙ [bold]bash[/bold]  took 12 ms  exit 0",
        '│   │   ├── input "ls �31m"',
        '│   │   └── output "x"',
        "│   ├── ← result  plan → end  1.50",
        '│   └── output "done"',
        "└── other messages",
        "    └── · control",
    ]


def test_no_payload_is_printed_at_zero_characters() -> None:
    assert not any("why" in line or "done" in line for line in printed(chars=0))


def test_what_cannot_be_printed_is_shown_as_in_the_other_trees() -> None:
    wild = "a\x1b[31m\u202e\n[bold]b"
    version = {"id": "v", "operation": "init"}
    told = {"invocation": {"id": wild, "status": "failed"}, "version": version, "nodes": [], "messages": []}
    trace = Trace(json.dumps(told).encode())
    (genealogy, *_) = lines_of(sketches.tree_of(Genealogy(wild, [], [])))
    assert genealogy == "a\ufffd[31m\ufffd\ufffd[bold]b"
    assert lines_of(tree_of(trace, 0))[0] == f"{genealogy}  failed"


def test_where_output_is_not_unicode_the_tree_is_ascii() -> None:
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii") as into:
        print_tree(tree_of(TRACE, chars=10), Console(file=into, width=200, highlight=False))
        into.flush()
        lines = [line.rstrip() for line in written.getvalue().decode("ascii").splitlines()]
    assert lines[3].endswith("tokens 7 in, - out  model small")
    assert lines[4].endswith('-> user  plan  "a very lo...')
    assert lines[5].endswith("* [bold]bash[/bold]  took 12 ms  exit 0")
    assert lines[8].endswith("<- result  plan -> end  1.50")
