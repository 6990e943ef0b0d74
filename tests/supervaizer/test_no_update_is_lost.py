"""Several processes change one job or case, and nothing that one of them did is undone by another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cairn_supervaizer import StaleObjectError
from cairn_supervaizer.merging import MergeConflictError, merged
from tests.supervaizer import package
from tests.supervaizer.conftest import Controllers

CONTROLLER = Path(__file__).with_name("controller.py")
# Each starts an interpreter and imports the whole package, on a machine that has much else to do.
SECONDS_MAX = 60


def stored(controllers: Controllers, type: str, id: str) -> dict[str, Any]:
    """What a process that comes later finds."""
    found = controllers.storage().get_object_by_id(type, id)
    assert found is not None
    return dict(found)


def test_two_processes_that_save_one_job_both_keep_their_cases(controllers: Controllers) -> None:
    controllers.storage().save_object("Job", {"id": "shared", "case_ids": [], "responses": []})
    processes = [
        subprocess.Popen(
            [sys.executable, CONTROLLER, url, controllers.key, name, "20"],
            env=package.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for url, name in zip(controllers.urls, "ab", strict=True)
    ]  # fmt: skip
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in processes:
        # Both have read the job before either changes it.
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=SECONDS_MAX)[0] for one in processes]
    assert [one.returncode for one in processes] == [0, 0], said
    job = stored(controllers, "Job", "shared")
    for name in "ab":
        mine = [f"{name}{number}" for number in range(20)]
        assert [one for one in job["case_ids"] if one.startswith(name)] == mine
        assert [one["message"] for one in job["responses"] if one["message"].startswith(name)] == mine


def test_what_somebody_else_added_is_no_removal_of_mine(controllers: Controllers) -> None:
    one, two = controllers.storage(), controllers.storage()
    mine: dict[str, Any] = {"id": "j", "case_ids": ["a"], "status": "in_progress"}
    one.save_object("Job", mine)
    theirs = two.get_object_by_id("Job", "j")
    assert theirs is not None
    theirs["case_ids"].append("b")
    two.save_object("Job", theirs)
    # What is only shown to somebody is not what the entity knows.
    assert one.get_object_by_id("Job", "j") == {"id": "j", "case_ids": ["a", "b"], "status": "in_progress"}
    assert one.get_objects("Job")[0]["case_ids"] == ["a", "b"]
    for change in ({"status": "awaiting"}, {"case_ids": ["a", "c"]}, {"status": "in_progress"}):
        mine |= change
        one.save_object("Job", mine)
    assert stored(controllers, "Job", "j") == {"id": "j", "case_ids": ["a", "b", "c"], "status": "in_progress"}
    mine["case_ids"] = ["c"]
    one.save_object("Job", mine)
    assert stored(controllers, "Job", "j")["case_ids"] == ["b", "c"]


def test_a_change_of_what_was_read_holds_beside_an_entity_that_knows_less(controllers: Controllers) -> None:
    one, two = controllers.storage(), controllers.storage()
    entity: dict[str, Any] = {"id": "j", "status": "in_progress", "case_ids": ["a"]}
    one.save_object("Job", entity)
    two.save_object("Job", (two.get_object_by_id("Job", "j") or {}) | {"case_ids": ["a", "b"]})
    shown = one.get_object_by_id("Job", "j")
    assert shown is not None
    shown["status"] = "cancelled"
    shown["case_ids"].remove("b")
    one.save_object("Job", shown)
    assert stored(controllers, "Job", "j") == {"id": "j", "status": "cancelled", "case_ids": ["a"]}
    one.save_object("Job", entity | {"case_ids": ["a", "c"]})
    assert stored(controllers, "Job", "j") == {"id": "j", "status": "cancelled", "case_ids": ["a", "c"]}


def test_a_contradiction_is_refused_and_names_the_member(controllers: Controllers) -> None:
    one, two = controllers.storage(), controllers.storage()
    one.save_object("Case", {"id": "c", "status": "in_progress", "n": 1})
    read = two.get_object_by_id("Case", "c")
    assert read is not None
    one.save_object("Case", {"id": "c", "status": "completed", "n": 1})
    read["status"] = "failed"
    with pytest.raises(StaleObjectError, match="Case 'c' was not saved: /status") as refused:
        two.save_object("Case", read)
    assert (refused.value.type, refused.value.id, refused.value.member) == ("Case", "c", "/status")
    assert stored(controllers, "Case", "c")["status"] == "completed"
    again = two.get_object_by_id("Case", "c")
    assert again is not None
    again["status"] = "failed"
    two.save_object("Case", again)
    assert stored(controllers, "Case", "c")["status"] == "failed"


def test_who_asks_for_it_is_refused_whatever_changed(controllers: Controllers) -> None:
    one, two = (controllers.storage(on_conflict="raise") for _ in range(2))
    one.save_object("Job", {"id": "j", "case_ids": []})
    with pytest.raises(StaleObjectError, match="changed elsewhere"):
        two.save_object("Job", {"id": "j", "case_ids": ["b"]})
    assert two.get_object_by_id("Job", "j") == {"id": "j", "case_ids": []}
    two.save_object("Job", {"id": "j", "case_ids": ["b"]})
    with pytest.raises(StaleObjectError):
        one.save_object("Job", {"id": "j", "case_ids": ["a"]})
    assert stored(controllers, "Job", "j") == {"id": "j", "case_ids": ["b"]}
    # Each process says of itself what it is, under one id.
    for storage in (one, two):
        storage.save_object("ServerInfo", {"id": "server_instance", "port": 8000})


def test_who_asks_for_it_overwrites_member_by_member(controllers: Controllers) -> None:
    one, two = (controllers.storage(on_conflict="last_write_wins") for _ in range(2))
    one.save_object("Job", {"id": "j", "case_ids": ["a"], "status": "in_progress"})
    two.save_object("Job", {"id": "j", "case_ids": ["b"]})
    assert stored(controllers, "Job", "j") == {"id": "j", "case_ids": ["b"], "status": "in_progress"}


def test_an_object_that_was_deleted_elsewhere_is_saved_anew(controllers: Controllers) -> None:
    one, two = controllers.storage(), controllers.storage()
    one.save_object("Job", {"id": "j", "n": 1})
    assert two.delete_object("Job", "j")
    one.save_object("Job", {"id": "j", "n": 1})
    assert stored(controllers, "Job", "j") == {"id": "j", "n": 1}
    two.reset_storage()
    one.save_object("Job", {"id": "j", "n": 2})
    assert stored(controllers, "Job", "j") == {"id": "j", "n": 2}


def test_what_is_remembered_is_bounded_and_what_is_forgotten_merged(
    controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cairn_supervaizer.knowledge.BYTES_MAX", 100)
    one, two = controllers.storage(), controllers.storage()
    for number in range(9):
        one.save_object("Job", {"id": f"j{number}", "case_ids": ["a"]})
    assert sum(one._known.get("Job", f"j{number}") is not None for number in range(9)) == 3
    theirs = two.get_object_by_id("Job", "j0") or {}
    theirs["case_ids"].append("b")
    two.save_object("Job", theirs)
    one.save_object("Job", {"id": "j0", "case_ids": ["a", "c"]})
    assert stored(controllers, "Job", "j0") == {"id": "j0", "case_ids": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("known", "ours", "theirs", "result"),
    [
        ([], ["a"], ["b"], ["b", "a"]),
        (["a", "b"], ["b"], ["a", "b", "c"], ["b", "c"]),
        (["a"], ["a", "b"], [], ["b"]),
        (["a"], ["a", "x"], ["a", "x"], ["a", "x"]),
        ([{"n": 1}], [{"n": 1, "s": "done"}], [{"n": 1}, {"n": 2}], [{"n": 1, "s": "done"}, {"n": 2}]),
        # Both have appended a step, which both call the second.
        ([{"n": 1}], [{"n": 1}, {"n": 2, "b": 1}], [{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 2}, {"n": 2, "b": 1}]),
        ([{"a": 1, "b": 1}], [{"a": 2, "b": 1}], [{"a": 1, "b": 2}], [{"a": 2, "b": 2}]),
        # What they have put before ours is no change of ours.
        ([{"n": 1}], [{"n": 2}], [{"t": 1}, {"n": 1}], [{"t": 1}, {"n": 2}]),
        ([0], [False], [0], [False]),
    ],
)  # fmt: skip
def test_lists_are_united_by_their_elements(
    known: list[Any], ours: list[Any], theirs: list[Any], result: list[Any]
) -> None:
    found = merged({"list": known}, {"list": ours}, {"list": theirs})
    assert json.dumps(found) == json.dumps({"list": result})


def test_members_are_merged_where_they_stand() -> None:
    known = {"metadata": {"ours": 1, "theirs": 1, "dropped": 1, "both": {"a": 1}}, "left": 1}
    ours = {"metadata": {"ours": 2, "theirs": 1, "both": {"a": 1, "b": 2}}}
    theirs = {"metadata": {"ours": 1, "theirs": 2, "dropped": 1, "both": {"a": 1, "c": 3}, "new": 1}, "left": 2}
    assert merged(known, ours, theirs) == {
        "metadata": {"ours": 2, "theirs": 2, "both": {"a": 1, "b": 2, "c": 3}, "new": 1},
        "left": 2,
    }


@pytest.mark.parametrize(
    ("known", "ours", "theirs", "member"),
    [
        ({"a": 1}, {"a": 2}, {"a": 3}, "/a"),
        ({"a/b~": {"c": 1}}, {"a/b~": {"c": 2}}, {"a/b~": {"c": 3}}, "/a~1b~0/c"),
        ({}, {"a": 2}, {"a": 3}, "/a"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {}}, "/a/b"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, {"a": [{"b": 3}]}, "/a/0/b"),
    ],
)
def test_what_both_changed_otherwise_is_a_conflict(
    known: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], member: str
) -> None:
    with pytest.raises(MergeConflictError) as conflict:
        merged(known, ours, theirs)
    assert conflict.value.member == member


def test_without_knowledge_ours_is_taken_and_no_element_lost() -> None:
    assert merged(None, {"a": 1, "list": ["x"], "in": {"b": 1}}, {"a": 2, "list": ["y"], "in": {"c": 1}}) == {
        "a": 1, "list": ["y", "x"], "in": {"c": 1, "b": 1},
    }  # fmt: skip
