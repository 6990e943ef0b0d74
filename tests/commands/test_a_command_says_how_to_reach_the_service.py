"""What commands that speak to a service say when they cannot, and the key they find beside `make run`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.commands.connection import connected
from app.commands.root import app

AWAY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a .env file and without a development key."""
    monkeypatch.chdir(tmp_path)


def refusal(*arguments: str, status: int = 1, **environment: str) -> str:
    """What a command says that does not succeed."""
    result = CliRunner().invoke(app, list(arguments), env={"CAIRN_URL": AWAY, "CAIRN_KEY": None} | environment)
    assert result.exit_code == status, result.output
    return result.output


def keep_key(folder: Path, key: str) -> None:
    (folder / "var").mkdir()
    (folder / "var" / "development-key").write_text(key + "\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000", "http://127.0.0.1:8000/"])
def test_the_development_key_goes_to_the_default_address_however_it_is_spelled(tmp_path: Path, url: str) -> None:
    keep_key(tmp_path, "kept")
    with connected(url, None, None) as cairn:
        assert cairn.workflows._mode.manner.headers["Authorization"] == "Bearer kept"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8001", "http://example.org:8000", "https://127.0.0.1:8000"])
def test_the_development_key_goes_nowhere_else(tmp_path: Path, url: str) -> None:
    keep_key(tmp_path, "kept")
    with connected(url, None, None) as cairn:
        assert "Authorization" not in cairn.workflows._mode.manner.headers


def test_a_service_that_does_not_answer_is_told_with_what_starts_one() -> None:
    said = refusal("runs", "progress", "run_1")
    assert said.startswith(f"No answer from {AWAY} (")
    assert "`make run` or `cairn dev`" in said


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost", "http://", "http://host:port"])
def test_an_address_that_is_no_url_is_not_told_as_a_service_that_is_down(url: str) -> None:
    assert refusal("show", "inv_1", CAIRN_URL=url).startswith(f"{url!r} is no HTTP URL; write")


def test_files_that_are_not_there_are_told_before_anything_is_asked() -> None:
    said = refusal("import", "trajectory", "nofile.traj", status=2)
    assert said.startswith("nofile.traj cannot be read: no such file or directory; name the SWE-agent .traj files")
    away = "postgresql://nobody@127.0.0.1:1/none"
    assert refusal("import", "lucky", "nowhere", CAIRN_DATABASE__URL=away).startswith("nowhere is no folder; name")
