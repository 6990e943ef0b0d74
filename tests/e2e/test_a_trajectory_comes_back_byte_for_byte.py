"""Real trajectory files go in over HTTP and come back byte for byte; going in twice changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.client import Cairn
from app.commands.importing import store_trajectory
from app.commands.root import app
from app.commands.trajectory import read_trajectory
from tests.e2e.conftest import Served
from tests.e2e.trajectory_files import HOSTILE, SHARED, slice_at

REAL = ["function_calling_simple.traj", "marshmallow-1867.traj", "pydicom-1458.traj"]


@pytest.fixture(params=[*REAL, "hostile.traj"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each shared trajectory, and one that is made here and holds what is hard to keep."""
    if request.param == "hostile.traj":
        path = tmp_path / "hostile.traj"
        path.write_bytes(HOSTILE)
        return path
    if not SHARED.is_dir():
        pytest.skip("the shared trajectories are not beside this checkout")
    return SHARED / str(request.param)


def cairn_says(served: Served, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"CAIRN_URL": served.url, "CAIRN_KEY": served.key})
    assert result.exit_code == status, result.output
    return result.output if status else result.stdout


def everything(cairn: Cairn) -> list[bytes]:
    """Every row of every list, as exact text."""
    verbatim = ["input", "output", "fitness"]
    rows = [row.json_bytes for row in cairn.workflows.list()]
    rows += [row.json_bytes for row in cairn.versions.list(include=["dsl"])]
    rows += [row.json_bytes for row in cairn.nodes.search()]
    for invocation in cairn.invocations.list(include=verbatim):
        rows.append(invocation.json_bytes)
        rows += [row.json_bytes for row in cairn.messages.list(invocation.id, include=["payload"])]
        for node in cairn.node_invocations.list(invocation.id, include=["output"]):
            rows.append(node.json_bytes)
            rows += [
                row.json_bytes for row in cairn.node_invocations.actions(invocation.id, node.id, include=verbatim[:2])
            ]
    return rows


def events_until(cairn: Cairn, marker: str) -> list[bytes]:
    """Every event up to that of a version made now, which the feed cannot tell before what was committed earlier."""
    cairn.versions.create("marker", id=marker, dsl=None, workflow={})
    told = []
    for event in cairn.events.follow(quiet_max_seconds=30):
        told.append(event.json_bytes)
        if event.subject_id == marker:
            return told
    raise AssertionError("the marker's event never came")


def test_every_payload_of_the_trace_is_the_files_own_text(served: Served, cairn: Cairn, file: Path) -> None:
    content = file.read_bytes()
    whole = json.loads(content, parse_float=Decimal)
    printed = cairn_says(served, "import", "trajectory", str(file))
    invocation_id = f"inv_{hashlib.sha256(content).hexdigest()}"
    assert printed.startswith(f"{invocation_id}  {file.name}: ")
    trace = cairn.invocations.trace(invocation_id)

    steps = range(len(whole.get("trajectory", ())))
    if steps:
        stated = [("trajectory", at) for at in steps]
    else:
        stated = [("history", at) for at, entry in enumerate(whole["history"]) if entry["role"] == "assistant"]
    assert [node.raw("output").data for node in trace.nodes] == [slice_at(content, *path) for path in stated]
    assert [message.raw("payload").data for message in trace.messages] == [
        slice_at(content, "history", at) for at in range(len(whole["history"]))
    ]
    for node, path in zip(trace.nodes, stated, strict=True):
        calls = [path] if slice_at(content, *path, "action") != b'""' else []
        assert [call.raw("input").data for call in node.actions] == [slice_at(content, *at, "action") for at in calls]
        observed = ("observation",) if steps else None
        for call in node.actions:
            where = (*path, *observed) if observed else ("history", path[1] + 1, "content")
            assert call.raw("output").data == slice_at(content, *where)
    task = next(at for at, one in enumerate(whole["history"]) if one["role"] == "user" and not one.get("is_demo"))
    assert trace.invocation.raw("input").data == slice_at(content, "history", task, "content")
    for raw, name in ((trace.invocation.raw("output"), "info"), (trace.version.raw("dsl"), "replay_config")):
        assert raw.data == (slice_at(content, name) if name in whole else b"null")
    assert trace.invocation.usd_cost == whole.get("info", {}).get("model_stats", {}).get("instance_cost")
    assert cairn.versions.dsl(trace.version.id).data == trace.version.raw("dsl").data


def test_importing_twice_changes_nothing(served: Served, cairn: Cairn, file: Path) -> None:
    assert "imported" in cairn_says(served, "import", "trajectory", str(file))
    told = events_until(cairn, "first")
    before = everything(cairn)
    assert "was there already" in cairn_says(served, "import", "trajectory", str(file))
    assert everything(cairn) == before
    assert events_until(cairn, "second")[:-1] == told
    assert len(told) > 3


def test_an_import_that_broke_off_is_finished_by_another(served: Served, cairn: Cairn, file: Path) -> None:
    found = read_trajectory(file)
    cairn_says(served, "import", "trajectory", str(file))
    whole = cairn.invocations.trace(found.invocation_id)
    cairn.invocations.delete(found.invocation_id)
    with pytest.raises(BrokenOff):
        store_trajectory(cairn, found, break_off_after(2))
    assert len(cairn.invocations.trace(found.invocation_id).nodes) == 2
    cairn_says(served, "import", "trajectory", str(file))
    again = cairn.invocations.trace(found.invocation_id)
    assert [node.output for node in again.nodes] == [node.output for node in whole.nodes]
    assert [message.payload for message in again.messages] == [message.payload for message in whole.messages]
    assert again.invocation.status == whole.invocation.status


class BrokenOff(Exception):
    """The importing process is gone."""


def break_off_after(count: int) -> Callable[[int], None]:
    stored = 0

    def advance(done: int) -> None:
        nonlocal stored
        stored += done
        if stored >= count:
            raise BrokenOff

    return advance


def test_show_prints_what_was_imported(served: Served, file: Path) -> None:
    found = read_trajectory(file)
    cairn_says(served, "import", "trajectory", str(file))
    printed = cairn_says(served, "show", found.invocation_id, "--chars", "30")
    assert printed.startswith(f"{found.invocation_id}  {found.status}")
    assert ("$" in printed) == (found.usd_cost is not None)
    for step in found.steps:
        assert f"{step.node_id}  {step.id}  completed" in printed
    longest = max(len(line) for line in cairn_says(served, "show", found.invocation_id, "--chars", "300").splitlines())
    assert longest > 100, "What is not a terminal has no edge to wrap at."


def test_a_refusal_and_a_wrong_file_are_one_sentence(served: Served, tmp_path: Path) -> None:
    assert cairn_says(served, "show", "inv_none", status=1).startswith("There is no such invocation: inv_none.")
    other = tmp_path / "other.traj"
    other.write_text("{}")
    said = cairn_says(served, "import", "trajectory", str(other), status=2)
    assert said == f"{other} is no SWE-agent trajectory: it has neither history nor steps.\n"
    assert "such file" in cairn_says(served, "import", "trajectory", str(tmp_path / "none.traj"), status=2)
