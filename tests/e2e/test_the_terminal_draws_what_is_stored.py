"""`cairn versions tree`: what the service stores, drawn with letters, over HTTP."""

from __future__ import annotations

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
    newest = cairn_says(served, "versions", "tree", "triage", "--limit", "1")
    assert "older versions are left out" in newest


def test_what_is_not_there_is_told_in_one_sentence(served: Served) -> None:
    said = cairn_says(served, "versions", "tree", "none", status=1)
    assert said.startswith("The service refused: workflow_not_found: ")


@pytest.mark.parametrize("command", [("versions", "tree")])
def test_each_command_says_how_it_is_used(command: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert f"Example: cairn {' '.join(command)} " in result.stdout
