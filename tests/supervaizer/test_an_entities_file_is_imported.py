"""An entities.json, as Supervaizer has written it, is brought into a store by a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB

from cairn_supervaizer.__main__ import main
from tests.supervaizer.conftest import Controllers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with more rows than digits, as TinyDB writes it."""
    path = tmp_path / "entities.json"
    database = TinyDB(path, sort_keys=True, indent=2)
    for number in range(12):
        database.table("Job").insert(job(f"j{number}", agent_parameters=[{"value": "canary"}]))
    database.table("Case").insert(
        {"id": "c1", "job_id": "j1", "name": "A case", "status": "awaiting", "account": {"api_key": "canary"}}
    )
    database.table("ServerInfo").insert({"id": "server_instance", "port": 8000})
    database.close()
    return path


def job(job_id: str, **fields: Any) -> dict[str, Any]:
    """A job as it is stored."""
    return {"id": job_id, "name": "A job", "agent_name": "a", "status": "completed", **fields}


def run(controllers: Controllers, file: Path, *more: str) -> int:
    """The exit status of the command."""
    return main(["import", str(file), "--url", controllers.urls[0], *more])


@pytest.fixture(autouse=True)
def key(controllers: Controllers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is in the environment, where no list of processes shows it."""
    monkeypatch.setenv("CAIRN_API_KEY", controllers.key)


def test_everything_comes_in_its_order_and_without_secrets(
    controllers: Controllers, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(controllers, file) == 0
    said = capsys.readouterr()
    assert said.out == "Imported 14 (Case 1, Job 12, ServerInfo 1), unchanged 0, rejected 0.\n"
    assert "Job: 12 of 12\n" in said.err
    storage = controllers.storage()
    assert storage.get_objects("Job") == [job(f"j{number}") for number in range(12)]
    assert storage.get_object_by_id("Case", "c1") == {
        "id": "c1", "job_id": "j1", "name": "A case", "status": "awaiting", "account": {},
    }  # fmt: skip
    assert run(controllers, file) == 0
    assert capsys.readouterr().out == "Imported 0, unchanged 14 (Case 1, Job 12, ServerInfo 1), rejected 0.\n"
    assert run(controllers, file, "--store", "other") == 0
    assert capsys.readouterr().out.startswith("Imported 14")


def test_what_cannot_be_imported_is_named_and_the_rest_is(
    controllers: Controllers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers.storage().save_object("Job", job("changed", n=2))
    rows: dict[str, Any] = {
        "1": job("good"), "2": job("changed"), "3": job("good", n=2), "4": {"name": "canary"}, "5": ["canary"],
        "6": job("bogus", status="runing"), "7": {"id": "bare", "status": "failed"},
    }  # fmt: skip
    file = tmp_path / "entities.json"
    file.write_text(json.dumps({"Job": rows}))
    assert run(controllers, file) == 1
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "Imported 1 (Job 1), unchanged 0, rejected 6.",
        "  Job 'changed': another object has this id in the store, and stays as it is",
        "  Job 'good': another row of the file has this id",
        "  Job None: it has no id",
        "  Job None: it is no object",
        "  Job 'bogus': 'runing' is no status",
        "  Job 'bare': it has no name and no agent_name",
    ]
    assert controllers.storage().get_objects("Job") == [job("changed", n=2), job("good")]


@pytest.mark.parametrize("content", ["[]", '{"Job": []}', '{"Job": {"x": {}}}', "{", "\udcff"])
def test_another_file_is_refused_and_nothing_is_done(
    controllers: Controllers, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content.encode(errors="surrogateescape"))
    assert run(controllers, file) == 2
    assert str(file) in capsys.readouterr().err


def test_what_is_wrong_with_the_call_is_said(
    controllers: Controllers, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAIRN_URL", raising=False)
    assert main(["import", str(file)]) == 2
    assert "CAIRN_URL" in capsys.readouterr().err
    assert run(controllers, file, "--secret-path", "/token") == 2
    assert "TYPE:POINTER" in capsys.readouterr().err
    monkeypatch.setenv("CAIRN_API_KEY", "no-key")
    assert run(controllers, file) == 2
    assert "unauthenticated" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["import", "--help"])
    assert "python -m cairn_supervaizer import data/entities.json --url" in capsys.readouterr().out
