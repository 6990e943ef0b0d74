"""`python -m benchmarks.profile`: what a hot request spends its time on.

Two tables, both of shares: how the processes divide the processor time of the machine, and how the service's own part
divides over its layers. With `--functions`, the functions that take most of it too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.generator import LoadError, load
from benchmarks.ground import Ground, standing
from benchmarks.request import Request
from benchmarks.scenarios import append, invocation, message_hundred, message_one, queue

# The requests of a load, made anew for each: some begin with rows of their own.
REQUESTS: dict[str, Callable[[Ground], list[Request]]] = {
    "message-one": lambda _ground: [message_one.MESSAGE],
    "message-one-key": lambda _ground: [message_one.MESSAGE.with_key("one")],
    "message-hundred": lambda _ground: [message_hundred.MESSAGES],
    "invocation": lambda _ground: [invocation.START, invocation.END],
    "append": append.fresh,
    "append-key": lambda ground: append.fresh(ground, "append"),
    "queue": queue.filled,
}
# The first that fits the innermost frame that fits any.
LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("authentication", ("app/tenants/keys.py", "app/http/caller.py")),
    ("receiving the body", ("app/http/body.py",)),
    (
        "cutting the body",
        ("app/http/cutting.py", "app/http/compact.py", "app/http/large.py", "app/http/verbatim.py", "/json/"),
    ),
    ("validation", ("endpoint.py:_body", "app/http/fields.py", "/pydantic")),
    ("digests", ("app/db/digest.py",)),
    ("binding, sending and reading SQL", ("/asyncpg/", "app/db/database.py", "app/db/sql.py")),
    ("stores and routes", ("/store.py", "/routes.py", "app/db/")),
    ("metrics and logs", ("app/http/metrics.py", "prometheus_client", "structlog", "/logging/")),
    ("background jobs", ("app/background/", "app/events/", "app/jobs/")),
    ("routing and answering", ("app/http/", "starlette", "fastapi")),
    ("HTTP server", ("uvicorn",)),
)
HEAD = (
    "# What a hot request spends its time on",
    "",
    "Shares, measured under load by `python -m benchmarks.profile`: first of the processor time that the processes",
    "took, then of the service's own. A sample that falls into C code counts for the Python function that called it.",
    "",
)


def main() -> int:
    """Profile one kind of request under load."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--scenario", choices=sorted(REQUESTS), action="append")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--functions", type=int, default=0, help="how many functions to list")
    parser.add_argument("--report", type=Path, help="folder for profile.md")
    options = parser.parse_args()
    page = [*HEAD]
    for name in options.scenario or sorted(REQUESTS):
        try:
            found = _profile(REQUESTS[name], options.clients, options.seconds, options.functions)
        except LoadError as error:
            print(error, file=sys.stderr)
            return 2
        page += [f"## {name}, {options.clients} clients", "", *found]
        print("\n".join(page[-len(found) - 2 :]), flush=True)
    if options.report:
        (options.report / "profile.md").write_text("\n".join(page).rstrip() + "\n")
    return 0


def _profile(requests: Callable[[Ground], list[Request]], clients: int, seconds: int, functions: int) -> list[str]:
    with tempfile.NamedTemporaryFile(suffix=".samples") as file:
        with standing(rows=0, sampled=file.name) as ground:
            load(ground.server.url, requests(ground), ground.key, clients, 1)
            measured = requests(ground)
            before = ground.cpu_seconds()
            made = load(ground.server.url, measured, ground.key, clients, seconds)
            spent = {name: value - before[name] for name, value in ground.cpu_seconds().items()}
        samples = json.loads(Path(file.name).read_text())
    spent["load generator"] = made.core_share * seconds
    lines = ["| process | share of the processor time |", "|---|---:|", *_shares(spent), ""]
    layers: Counter[str] = Counter()
    inner: Counter[str] = Counter()
    for count, stack in samples:
        if not any("run_until_complete" in frame or "uvicorn" in frame or "app/" in frame for frame in stack):
            continue
        layers[_layer(stack)] += count
        inner[_short(stack[0])] += count
    lines += ["| layer of the service | share of its own time |", "|---|---:|", *_shares(dict(layers)), ""]
    if functions:
        lines += ["| function | share |", "|---|---:|", *_shares(dict(inner), functions), ""]
    return lines


def _shares(parts: dict[str, float], most: int = 20) -> list[str]:
    total = sum(parts.values()) or 1
    ordered = sorted(parts.items(), key=lambda part: -part[1])[:most]
    return [f"| {name} | {value / total:.0%} |" for name, value in ordered]


def _layer(stack: Sequence[str]) -> str:
    for frame in stack:
        for name, marks in LAYERS:
            if any(mark in frame for mark in marks):
                return name
    return "event loop"


def _short(frame: str) -> str:
    path, _, name = frame.rpartition(":")
    return f"{'/'.join(Path(path).parts[-3:])} {name}"


if __name__ == "__main__":
    sys.exit(main())
