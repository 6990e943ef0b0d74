"""Shows how far something is that the service does on its own, until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from app.client.record import Record

FIRST_PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.1, 2.0
UNDER_WAY = ("queued", "running")
# Facts of a problem that say where in a file it is.
PLACES = ("check", "section", "rows", "row", "frame", "before_byte")
R = TypeVar("R", bound=Record)


def followed(label: str, look: Callable[[], R], ctrl_c: str) -> R:
    """Looks again and again until the `state` is an end, with a bar of its `progress`; gives what it was last.

    Ctrl-C ends only the looking, and the command with it: `ctrl_c` says what goes on.
    """
    found, pause = look(), FIRST_PAUSE_SECONDS
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[told]}"))
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task(label, total=None, told="")
            while found["state"] in UNDER_WAY:
                done, total = _how_far(found["progress"])
                told = "waits for a worker" if found["state"] == "queued" else f"{done:,} of {total:,}" if total else ""
                progress.update(task, completed=done, total=total, told=told)
                time.sleep(pause)
                pause = min(pause * 1.5, PAUSE_MAX_SECONDS)
                found = look()
    except KeyboardInterrupt:
        typer.echo(ctrl_c, err=True)
        raise
    return found


def _how_far(progress: Any) -> tuple[int, int | None]:
    return (progress["done"] or 0, progress["total"]) if progress else (0, None)


@contextmanager
def bytes_passing(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of bytes; what it gives is told where it is by now."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


def why(error: Any) -> str:
    """The error of a job, in a sentence."""
    told: dict[str, Any] = error if isinstance(error, dict) else {}
    detail, code = told.get("detail") or told.get("title") or "the service does not say why.", told.get("code")
    return (f"{code}: {detail}" if code else str(detail)) + where_of(told)


def where_of(facts: Mapping[str, Any]) -> str:
    """Where in a file something is wrong, in brackets; nothing where that is not told."""
    told = ", ".join(f"{name.replace('_', ' ')} {facts[name]}" for name in PLACES if facts.get(name) is not None)
    return f" ({told})" if told else ""
