"""The shell lines of the documents that go on from the README's story, pasted into a shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from app.client import Cairn
from tests.e2e.conftest import Served

ROOT = Path(__file__).resolve().parents[2]


def shell_lines(place: str) -> str:
    """Those of a document, or of one section of it: `file#Heading`, `file#` before the first."""
    document, part, heading = place.partition("#")
    text = (ROOT / document).read_text()
    if part:
        text = (text.split(f"\n## {heading}\n")[1] if heading else text).split("\n## ")[0]
    return "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))


def api() -> str:
    """The line of the story that defines `api`."""
    [line] = re.findall(r"^api\(\) .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    return str(line)


@pytest.mark.parametrize(
    ("document", "last"),
    [
        ("docs/conversations.md", '"records":[{"id": "r1", "type": "note", "confidence": 1.0}]'),
        ("docs/attachments.md", "three small words"),
        ("docs/artifacts.md", "what came of it"),
        ("docs/contexts.md", '{"deleted":1}'),
        ("docs/events.md", '"name":"Told at once"'),
        ("docs/backups.md#", '"label":"before the migration"'),
        ("docs/retention.md", '"kind":"retention.run"'),
        ("README.md#Remember, and find again", '"id":"sky","kind":"record","score":0.03'),
    ],
)
def test_the_lines_can_be_pasted_twice(served: Served, cairn: Cairn, tmp_path: Path, document: str, last: str) -> None:
    version = cairn.versions.create("wf_research", workflow={"name": "Research assistant"}, dsl={})
    cairn.invocations.create(version_id=version.id, id="inv_1")
    for _ in range(2):
        pasted = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{api()}\n{shell_lines(document)}"],
            cwd=tmp_path, env={**os.environ, "CAIRN_URL": served.url, "CAIRN_KEY": served.key},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert pasted.returncode == 0, pasted.stderr
        assert '"request_id"' not in pasted.stdout
        assert last in pasted.stdout.splitlines()[-1]
