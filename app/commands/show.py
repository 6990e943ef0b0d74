"""`cairn show`: one invocation's whole record as a tree on the terminal."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from app.client import Cairn, Json, NotFoundError
from app.client.models import Action, Invocation, Message, Trace, TraceNode
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.plainly import refuse
from app.commands.sketches import PIPE_LINE_COLUMNS, console_of, line_of, spelled, without_unicode

STATUS_STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow", "rolled_back": "yellow"}
# What the trace's own signs are where output is not Unicode.
SIGNS = str.maketrans({"⚙": "*", "←": "<-"})
NEWEST = 5


def show(
    invocation: Annotated[str, typer.Argument(metavar="INVOCATION", help="The invocation's id.", show_default=False)],
    chars: Annotated[int, typer.Option(min=0, max=100_000, help="How much of each payload to show.")] = 80,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Print an invocation's trace as a tree: nodes in start order with their tool calls, messages, times and costs."""
    with connected(url, key, tenant) as cairn:
        trace = _trace_of(cairn, invocation.strip())
    print_tree(tree_of(trace, chars), console_of(PIPE_LINE_COLUMNS))


def print_tree(tree: Tree, console: Console) -> None:
    """Print a tree, in ASCII where the console's output holds no more."""
    console.print(_in_ascii(tree, console) if without_unicode(console) else tree)


def _trace_of(cairn: Cairn, invocation: str) -> Trace:
    """The trace, or the end of the command with the ids that there are."""
    if not invocation:
        _refuse_with_newest(cairn, "Give an invocation's id.")
    try:
        return cairn.invocations.trace(invocation)
    except NotFoundError as error:
        _refuse_with_newest(cairn, f"{error.detail.rstrip('.')}: {invocation}.")


def _refuse_with_newest(cairn: Cairn, refused: str) -> NoReturn:
    newest = ", ".join(known.id for known in cairn.invocations.list(limit=NEWEST).page().items)
    there = f"The newest here: {newest}." if newest else "None is recorded here yet; `cairn demo evolve` records some."
    refuse(spelled(f"{refused} {there}", ascii_only=False))


def _in_ascii(tree: Tree, console: Console) -> Tree:
    """The same tree in letters that every output can hold."""
    label = tree.label.render(console, end="") if isinstance(tree.label, Text) else ()
    parts = [(spelled(part.text.translate(SIGNS), ascii_only=True), part.style or "") for part in label]
    again = Tree(Text.assemble(*parts))
    again.children.extend(_in_ascii(child, console) for child in tree.children)
    return again


def tree_of(trace: Trace, chars: int) -> Tree:
    """The tree that `show` prints, each payload cut after `chars` characters."""
    tree = Tree(_invocation_line(trace.invocation))
    tree.add(line_of(("version ", "dim"), trace.version.id, (f"  {trace.version.operation}", "dim")))
    _add_payload(tree, "input", trace.invocation.input, chars)
    messages = {message.id: message for message in trace.messages}
    for node in trace.nodes:
        branch = tree.add(_node_line(node))
        read = [messages.pop(known) for known in node.messages_in if known in messages]
        for message in read:
            branch.add(_message_line(message, "→", chars))
        for action in node.actions:
            _add_action(branch, action, chars)
        for known in node.messages_out:
            if known in messages:
                branch.add(_message_line(messages.pop(known), "←", chars))
        _add_payload(branch, "output", node.output, chars)
    if messages:
        rest = tree.add(line_of(("other messages", "dim")))
        for message in messages.values():
            rest.add(_message_line(message, "·", chars))
    _add_payload(tree, "output", trace.invocation.output, chars)
    if trace.more and (trace.more.nodes or trace.more.actions or trace.more.messages):
        tree.add(line_of(("the record is longer than one trace shows", "yellow")))
    return tree


def _invocation_line(invocation: Invocation) -> Text:
    return line_of(
        (invocation.id, "bold"),
        *_status(invocation.status),
        *_times(invocation.started_at, invocation.ended_at),
        *_cost(invocation.usd_cost),
        *_fact("fitness", invocation.fitness_score),
    )


def _node_line(node: TraceNode) -> Text:
    tokens = None if node.input_tokens is None and node.output_tokens is None else True
    counts = f"{_or_dash(node.input_tokens)} in, {_or_dash(node.output_tokens)} out" if tokens else None
    return line_of(
        (node.node_id, "bold cyan"),
        (f"  {node.id}", "dim"),
        *_status(node.status),
        *_times(node.started_at, node.ended_at),
        *_cost(node.usd_cost),
        *_fact("tokens", counts),
        *_fact("model", node.model or (node.node_version.llm_model if node.node_version else None)),
    )


def _add_action(branch: Tree, action: Action, chars: int) -> None:
    duration = None if action.duration_ms is None else f"{action.duration_ms.normalize():f} ms"
    call = branch.add(
        line_of((f"⚙ {action.tool}", "magenta"), *_fact("took", duration), *_fact("exit", action.exit_code))
    )
    _add_payload(call, "input", action.input, chars)
    _add_payload(call, "output", action.output, chars)


def _message_line(message: Message, arrow: str, chars: int) -> Text:
    between = " → ".join(node_id for node_id in (message.from_node_id, message.to_node_id) if node_id)
    return line_of(f"{arrow} ", (message.role, "blue"), (f"  {between}  ", "dim"), _cut(message.payload, chars))


def _add_payload(branch: Tree, name: str, payload: Json | None, chars: int) -> None:
    if payload is not None and chars:
        branch.add(line_of((f"{name} ", "dim"), _cut(payload, chars)))


def _status(status: str) -> list[tuple[str, str]]:
    return [(f"  {status}", STATUS_STYLES.get(status, "blue"))]


def _times(started_at: datetime | None, ended_at: datetime | None) -> list[tuple[str, str]]:
    parts = []
    if started_at is not None:
        parts.append((f"  {started_at:%Y-%m-%d %H:%M:%S}Z", "dim"))
    if started_at is not None and ended_at is not None:
        parts.append((f"  {(ended_at - started_at).total_seconds():.3f} s", ""))
    return parts


def _cost(usd_cost: Decimal | None) -> list[tuple[str, str]]:
    return [] if usd_cost is None else [(f"  ${usd_cost.normalize():f}" if usd_cost else "  $0", "yellow")]


def _fact(name: str, fact: object) -> list[tuple[str, str]]:
    return [] if fact is None else [(f"  {name} ", "dim"), (str(fact), "")]


def _or_dash(count: int | None) -> str:
    return "–" if count is None else str(count)


def _cut(payload: Json | None, chars: int) -> str:
    """The beginning of a payload on one line, its runs of white space shown as one blank."""
    text = " ".join(("" if payload is None else payload.text).split())
    return text if len(text) <= chars else f"{text[:chars]}…"
