"""Raw asyncpg: the same statements with the same arguments, as fast as the driver can, in a process of its own.

`python -m benchmarks.limit FILE CLIENTS SECONDS` reads a pickled `Work` and prints the rounds done each second.
"""

from __future__ import annotations

import asyncio
import pickle
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from app.db.database import set_codecs
from benchmarks.request import CAPTURED, CLIENT, ROUND, ROUND_FIRST, UNIQUE

# By default the driver prepares a long statement again each time; the service has it keep them, so the limit does too.
AS_IN_THE_SERVICE: dict[str, Any] = {
    "statement_cache_size": 1024,
    "max_cached_statement_lifetime": 0,
    "max_cacheable_statement_size": 64 * 1024,
    "server_settings": {"jit": "off"},
}


_NAMED = re.compile(rb'"([a-z_]+)":"([^"]*)"')


@dataclass(frozen=True)
class Query:
    """A statement as the driver gets it; marks in its arguments are replaced for each run.

    An argument that is the mark of a round becomes the round's number; what answers name is captured for later ones.
    """

    text: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Work:
    """The statements of one round, on a database."""

    url: str
    queries: tuple[Query, ...]


def load(url: str, queries: Sequence[Query], clients: int, seconds: int) -> float:
    """Rounds each second of so many clients, each on a connection of its own."""
    with tempfile.NamedTemporaryFile(suffix=".work") as file:
        file.write(pickle.dumps(Work(url, tuple(queries))))
        file.flush()
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.limit", file.name, str(clients), str(seconds)],
            stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 120,
        )  # fmt: skip
    return float(ended.stdout)


class _Arguments:
    """The arguments of one query for one client, with only those rebuilt that a mark moves."""

    def __init__(self, query: Query, client: str) -> None:
        self.fixed = [replaced(value, CLIENT, client) for value in query.arguments]
        marks = (UNIQUE, ROUND, *CAPTURED)
        self.moving = [
            place for place, value in enumerate(self.fixed) if any(replaced(value, mark, "") != value for mark in marks)
        ]

    def of(self, unique: str, number: int, captured: Mapping[str, str]) -> list[Any]:
        """The arguments of one run."""
        values = list(self.fixed)
        for place in self.moving:
            value = values[place]
            if value == ROUND:
                values[place] = ROUND_FIRST + number
                continue
            for mark, by in ((UNIQUE, unique), *captured.items()):
                value = replaced(value, mark, by)
            values[place] = value
        return values


def replaced(value: Any, mark: str, by: str) -> Any:
    """An argument with a mark replaced, in the elements of lists and tuples too."""
    if isinstance(value, str):
        return value.replace(mark, by)
    if isinstance(value, list | tuple):
        return type(value)(replaced(item, mark, by) for item in value)
    return value


def captured_from(body: bytes) -> dict[str, str]:
    """What an answer names, under the marks that stand for it. Raises `LookupError` where it names nothing."""
    marks = {mark.strip("<>").encode(): mark for mark in CAPTURED}
    captured: dict[str, str] = {}
    for name, value in _NAMED.findall(body):
        if name in marks:
            captured.setdefault(marks[name], value.decode())
    if not captured:
        raise LookupError("The answer names nothing to go on with: is the queue empty?")
    return captured


async def _rate(work: Work, clients: int, seconds: int) -> float:
    prefix = secrets.token_hex(3)
    connections = [await asyncpg.connect(work.url, **AS_IN_THE_SERVICE) for _ in range(clients)]
    for connection in connections:
        await set_codecs(connection)
    done = 0
    deadline = 0.0

    async def client(place: int, connection: asyncpg.Connection, most: int = sys.maxsize) -> None:
        nonlocal done
        name = f"{place:02d}"
        plan = [(query.text, _Arguments(query, name)) for query in work.queries]
        captures = any(mark in repr(query.arguments) for query in work.queries for mark in CAPTURED)
        captured: dict[str, str] = {}
        for number in range(most):
            if time.perf_counter() >= deadline:
                return
            # The first round is that of the warming up.
            turn = number + (most != 1)
            unique = f"{prefix}{name}{turn:06d}"
            for text, arguments in plan:
                rows = await connection.fetch(text, *arguments.of(unique, turn, captured))
                if captures:
                    captured |= captured_from(rows[0]["body"])
            done += 1

    deadline = time.perf_counter() + 60
    await asyncio.gather(*(client(place, connection, 1) for place, connection in enumerate(connections)))
    done = 0
    started = time.perf_counter()
    deadline = started + seconds
    await asyncio.gather(*(client(place, connection) for place, connection in enumerate(connections)))
    rate = done / (time.perf_counter() - started)
    await asyncio.gather(*(connection.close() for connection in connections))
    return rate


def main(file: str, clients: str, seconds: str) -> None:
    """Do the work of a file and print the rate."""
    work = pickle.loads(Path(file).read_bytes())
    print(uvloop.run(_rate(work, int(clients), int(seconds))))


if __name__ == "__main__":
    # The classes of a pickle are looked up in the module's proper name.
    from benchmarks.limit import main as run

    run(*sys.argv[1:])
