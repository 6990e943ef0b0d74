"""The README's story: every line of it, pasted into a shell beside a running `cairn dev`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def story() -> str:
    """The shell lines of the section, in order."""
    section = (ROOT / "README.md").read_text().split("## One story, end to end")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))


def documents(text: str) -> list[dict[str, object]]:
    """The JSON objects that a text begins with, one after the other."""
    found, position = [], 0
    while text[position : position + 1] == "{":
        document, position = json.JSONDecoder().raw_decode(text, position)
        found.append(document)
        position += len(text[position:]) - len(text[position:].lstrip())
    return found


def test_the_story_works_as_pasted_twice(started: str, tmp_path: Path) -> None:
    url = re.search(r"ready at (http://\S+)", started)
    assert url is not None
    cairn = f"'{sys.executable}' -m app.cli"
    lines = story().replace("http://127.0.0.1:8000", url[1]).replace(".venv/bin/cairn", cairn)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        pasted = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert pasted.returncode == 0, pasted.stderr
        answers = documents(pasted.stdout)
        refused = [answer for answer in answers if "code" in answer and "request_id" in answer]
        assert refused == []
    trace = next(answer for answer in answers if "messages" in answer and "nodes" in answer)
    assert [message["id"] for message in trace["messages"]] == ["m1", "m2"]  # type: ignore[attr-defined]
    by_model = next(answer for answer in answers if answer.get("group_by") == "model")
    assert [item["key"] for item in by_model["items"]] == ["small-1"]  # type: ignore[attr-defined]
    assert any(answer.get("by_status") == {"completed": 1} for answer in answers)
    tree = pasted.stdout.splitlines()[-20:]
    assert any("search" in line and "0.0023" in line for line in tree), tree


def test_the_first_request_that_dev_prints_works_as_pasted(started: str) -> None:
    request = re.search(r"^curl .*?^  -d '.*?'$", started, re.DOTALL | re.MULTILINE)
    assert request is not None
    pasted = subprocess.run(["bash", "-c", request[0]], capture_output=True, text=True, timeout=30, check=False)
    assert pasted.returncode == 0, pasted.stderr
    assert json.loads(pasted.stdout)["name"] == "My first workflow"
