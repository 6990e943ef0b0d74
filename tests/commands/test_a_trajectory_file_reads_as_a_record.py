"""A `.traj` file is read into exact slices, linked turns and stated facts; nothing is made up."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path

import pytest

from app.client import Json
from app.commands.trajectory import UnreadableTrajectoryError, read_trajectory
from tests.e2e.trajectory_files import HOSTILE, slice_at


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.traj"
    path.write_bytes(HOSTILE)
    return path


def test_every_payload_is_a_slice_of_the_file(hostile: Path) -> None:
    found = read_trajectory(hostile)
    assert found.sha256 == hashlib.sha256(HOSTILE).hexdigest()
    assert found.dsl.data == slice_at(HOSTILE, "replay_config")
    assert found.input.data == slice_at(HOSTILE, "history", 1, "content")
    assert found.output.data == slice_at(HOSTILE, "info")
    assert [step.output.data for step in found.steps] == [slice_at(HOSTILE, "trajectory", at) for at in range(2)]
    assert [one["payload"] for one in found.messages] == [Json(slice_at(HOSTILE, "history", at)) for at in range(5)]
    assert found.steps[0].action == {
        "id": "step-0000-action",
        "tool": "bash",
        "input": Json(slice_at(HOSTILE, "trajectory", 0, "action")),
        "output": Json(slice_at(HOSTILE, "trajectory", 0, "observation")),
        "duration_ms": Decimal("100.00000000000000001"),
    }


def test_stated_facts_are_kept_and_missing_ones_stay_missing(hostile: Path) -> None:
    found = read_trajectory(hostile)
    assert found.usd_cost == Decimal("0.100000000000000001")
    assert found.status == "failed"
    assert found.left_out == ["extra"]
    assert found.steps[0].extras == {"execution_time": Json("0.10000000000000000001")}
    assert found.steps[1].action is None
    assert found.steps[1].extras == {}
    # A prompt that a text column cannot hold stays in its message only.
    assert found.nodes == [{"node_id": "a/b", "llm_model": "m-1"}, {"node_id": "c", "llm_model": "m-1"}]


def test_turns_are_linked_only_where_the_file_shows_it(hostile: Path) -> None:
    links = [
        (one.get("origin_node_invocation_id"), one.get("target_node_invocation_id"))
        for one in read_trajectory(hostile).messages
    ]
    assert links == [
        (None, "step-0000"),
        (None, "step-0000"),
        ("step-0000", None),
        (None, "step-0001"),
        (None, "step-0001"),
    ]


def test_a_file_with_only_a_history_has_a_step_for_each_assistant_message(tmp_path: Path) -> None:
    content = (
        b'{"history":[{"role":"user","content":"demo","is_demo":true},{"role":"user","content":"task"},'
        b'{"role":"assistant","content":"look","action":"ls  -l","thought":"look"},{"role":"user","content":"files"},'
        b'{"role":"assistant","content":"bye"}]}'
    )
    path = tmp_path / "plain.traj"
    path.write_bytes(content)
    found = read_trajectory(path)
    assert found.input == Json('"task"')
    assert (found.output, found.dsl, found.usd_cost, found.status) == (Json("null"), Json("null"), None, "completed")
    assert found.nodes == [{"node_id": "agent"}]
    assert [step.output.data for step in found.steps] == [slice_at(content, "history", at) for at in (2, 4)]
    assert found.steps[0].action is not None
    assert (found.steps[0].action["tool"], found.steps[0].action["output"]) == ("ls", Json('"files"'))
    assert found.steps[1].action is None


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"history":[]}', b'{"history":3}', b'{"history":["a"]}', b"\xff", b"[" * 100_000, b"{"],
)
def test_a_file_that_is_no_trajectory_is_told_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.traj"
    path.write_bytes(content)
    with pytest.raises(UnreadableTrajectoryError, match=r"other\.traj is no SWE-agent trajectory"):
        read_trajectory(path)
