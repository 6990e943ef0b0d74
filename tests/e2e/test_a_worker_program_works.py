"""The example worker, and the one that docs/workers.md prints, work until they are told to stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.client import Cairn
from tests.e2e.conftest import Served
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
TEXT = "one two  three"
STOP_SECONDS = 15


@contextmanager
def running(arguments: list[str], served: Served) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"CAIRN_URL": served.url, "CAIRN_KEY": served.key, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait(STOP_SECONDS)


@pytest.mark.parametrize("program", ["example", "document"])
def test_a_worker_program_works_until_it_is_told_to_stop(
    served: Served, cairn: Cairn, tmp_path: Path, program: str
) -> None:
    arguments = ["-m", "examples.worker"]
    ids = [f"inv_{number}" for number in range(3)]
    if program == "document":
        told = (ROOT / "docs/workers.md").read_text().replace("http://127.0.0.1:8000", served.url)
        block, asked, *_ = re.findall(r"```python\n(.*?)```", told.replace("cairn_…", served.key), re.DOTALL)
        Path(tmp_path, "worker.py").write_text(block)
        arguments = [str(tmp_path / "worker.py")]
        exec(asked, {})
    version = cairn.versions.create("wf_1", dsl={}, workflow={})
    for one in ids:
        cairn.invocations.create(id=one, version_id=version.id)
        cairn.submissions.admit(
            id=one, session_key=one, kind="direct", agent="counter", instance_id="i",
            input={"invocation_id": one, "text": TEXT},
        )  # fmt: skip
    with running(arguments, served) as process:
        until(lambda: not cairn.submissions.any_unsettled(), "the end of the work")
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0
    if program == "document":
        ids.append("counting_1")
    for one in ids:
        answer = cairn.invocations.get(one, include=["output"]).output
        assert answer is not None
        assert answer.value() == {"words": 3}
        assert cairn.submissions.get(one).outcome == "completed"
