"""`cairn events follow`, and the client's `follow`, beside a running service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from app.client import AsyncCairn, Cairn
from tests.e2e.conftest import ROOT, Served
from tests.waiting import until


@contextmanager
def followed(served: Served, folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command, running, and the file that has what it prints."""
    said = folder / "said"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CAIRN_URL": served.url, "CAIRN_KEY": served.key}
    with said.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "events", "follow", *arguments],
            cwd=folder, env=environment, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        yield process, said
    finally:
        process.kill()
        process.wait(20)


def test_events_are_printed_as_they_come_until_ctrl_c(served: Served, cairn: Cairn, tmp_path: Path) -> None:
    cairn.workflows.create(id="before", name="x")
    with followed(served, tmp_path, "--type", "workflow.updated", "--after", "start") as (process, said):
        cairn.workflows.patch("before", name="y")
        until(lambda: said.read_text().endswith("  workflow.updated  before  2\n"), "the event")
        cairn.workflows.patch("before", name="z")
        until(lambda: said.read_text().endswith("  workflow.updated  before  3\n"), "the event after it")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    first, *others = said.read_text().splitlines()
    assert first == "Events of workflow.updated as they come, until Ctrl-C."
    assert len(others) == 2


def test_a_type_that_there_is_not_ends_the_command_with_those_there_are(served: Served, tmp_path: Path) -> None:
    with followed(served, tmp_path, "--type", "workflow.*") as (process, said):
        assert process.wait(20) == 1
        assert "may name only backup.completed, " in said.read_text()


def test_whole_events_are_lines_of_json_and_go_on_from_a_cursor(served: Served, cairn: Cairn, tmp_path: Path) -> None:
    for name in ("a", "b"):
        cairn.workflows.create(id=name, name=name)
    events = cairn.events.follow(quiet_max_seconds=20)
    assert [next(events).subject_id for _ in range(2)] == ["a", "b"]
    cursor = cairn.events.list(limit=1).page().next_cursor
    assert cursor is not None
    with followed(served, tmp_path, "--json", "--after", cursor) as (_, said):
        until(lambda: said.read_text().count("\n") == 1, "a line")
        assert json.loads(said.read_text())["subject_id"] == "b"


async def test_who_follows_from_now_on_gets_what_comes_and_ends_when_it_is_quiet(served: Served) -> None:
    async with AsyncCairn(served.url, key=served.key) as cairn:
        await cairn.workflows.create(id="before", name="x")
        async with aclosing(cairn.events.follow(quiet_max_seconds=20)) as events:
            assert (await anext(events)).subject_id == "before"
        assert [event async for event in cairn.events.follow(after="now", quiet_max_seconds=0.2)] == []
        first = await cairn.events.wait(0, after="now")
        assert (first.items, first.next_cursor is not None) == ([], True)
        await cairn.workflows.create(id="after", name="x")
        assert first.next_cursor is not None
        found = [event.subject_id async for event in cairn.events.follow(after=first.next_cursor, quiet_max_seconds=1)]
        assert found == ["after"]
