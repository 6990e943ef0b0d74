"""`cairn versions tree` and `cairn runs progress`: what the service stores, drawn with letters, over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from app.client import Cairn
from app.commands.root import app
from tests.e2e.conftest import Served


def cairn_says(served: Served, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"CAIRN_URL": served.url, "CAIRN_KEY": served.key})
    assert result.exit_code == status, result.output
    return result.output if status else result.stdout


def test_a_workflow_s_versions_are_drawn_as_a_tree(served: Served, cairn: Cairn) -> None:
    cairn.workflows.create("triage")
    cairn.versions.create("triage", id="v1", dsl=1, commit_message="The first.")
    cairn.versions.create("triage", id="v2", dsl=2, operation="mutation", parent1_id="v1")
    cairn.versions.create("triage", id="v3", dsl=3, operation="mutation", parent1_id="v1")
    cairn.versions.create("triage", id="v4", dsl=4, operation="crossover", parent1_id="v2", parent2_id="v3")
    assert cairn_says(served, "versions", "tree", "triage").splitlines() == [
        "Genealogy of workflow triage",
        "└── I v1  The first.",
        "    ├── M v2",
        "    │   ↳ X v4 × v3",
        "    └── M v3",
    ]
    cairn.versions.create("triage", id="x" * 200, dsl=5, operation="mutation", parent1_id="v4")
    assert "↳ M " + "x" * 200 in cairn_says(served, "versions", "tree", "triage")
    newest = cairn_says(served, "versions", "tree", "triage", "--limit", "1")
    assert "older versions are left out" in newest


def test_a_run_s_progress_is_drawn_generation_by_generation(served: Served, cairn: Cairn) -> None:
    cairn.evolution_runs.create(id="search")
    for number in range(3):
        made = cairn.generations.create("search", number=number)
        stats = {"best_fitness": 0.5 + number / 4, "avg_fitness": 0.25, "worst_fitness": 0.0}
        cairn.generations.complete(made.id, stats=stats)
    lines = [line.rstrip() for line in cairn_says(served, "runs", "progress", "search").splitlines()]
    assert lines[:2] == ["Progress of evolution run search", "3 generations · best fitness 1 in generation 2"]
    assert lines[2].split() == ["generation", "best", "average", "worst", "0", "fitness", "1"]
    assert [line.split()[:4] for line in lines[3:]] == [
        ["0", "0.5", "0.25", "0"],
        ["1", "0.75", "0.25", "0"],
        ["2", "1", "0.25", "0"],
    ]
    assert lines[5].endswith("b")
    assert max(len(line) for line in lines) <= 100


def test_what_is_not_there_is_told_in_one_sentence(served: Served) -> None:
    said = cairn_says(served, "versions", "tree", "none", status=1)
    assert said.startswith("The service refused: workflow_not_found: ")
    said = cairn_says(served, "runs", "progress", "none", status=1)
    assert said.startswith("The service refused: evolution_run_not_found: ")


@pytest.mark.parametrize("command", [("versions", "tree"), ("runs", "progress")])
def test_each_command_says_how_it_is_used(command: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert f"Example: cairn {' '.join(command)} " in result.stdout


def test_head_of_a_picture_says_how_large_it_is(served: Served, cairn: Cairn) -> None:
    cairn.workflows.create("triage")
    headers = {"Accept": "image/svg+xml", "Authorization": f"Bearer {served.key}"}
    with httpx.Client(base_url=served.url, headers=headers) as http:
        got, head = (http.request(method, "/v1/workflows/triage/genealogy") for method in ("GET", "HEAD"))
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "image/svg+xml", b"")
    assert int(head.headers["content-length"]) == len(got.content)


def test_a_missing_key_and_a_wrong_one_are_told_apart(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = cairn_says(Served(served.url, served.tenant, ""), "show", "inv_1", status=1)
    assert said.startswith("Give a key with --key or CAIRN_KEY: `make run` keeps one in var/development-key")
    said = cairn_says(Served(served.url, served.tenant, "wrong"), "show", "inv_1", status=1)
    assert said.startswith("The key given with --key or CAIRN_KEY does not open this service")
    assert "Give a key" not in said


def test_an_invocation_that_is_not_there_is_told_with_those_that_are(served: Served, cairn: Cairn) -> None:
    assert "None is recorded here yet" in cairn_says(served, "show", "nope", status=1)
    cairn.versions.create("w", id="v", dsl=1, workflow={"name": "w"})
    cairn.invocations.create(id="inv_1", version_id="v", input=1)
    said = cairn_says(served, "show", "nope", status=1)
    assert said == "There is no such invocation: nope. The newest here: inv_1.\n"
    assert cairn_says(served, "show", "", status=1) == "Give an invocation's id. The newest here: inv_1.\n"
