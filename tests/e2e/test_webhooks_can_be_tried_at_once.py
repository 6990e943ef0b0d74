"""`cairn webhooks listen`, as a person tries it: beside a running service, until Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.client import Cairn
from tests.api_process import ApiProcess, serving
from tests.conftest import ADMIN_KEY
from tests.e2e.conftest import ROOT
from tests.waiting import until

LINE = r"^\d\d:\d\d:\d\d  {type}  {subject}  dlv_\w+  attempt {attempt}  signature ✓  answered {answer}$"


class Listener:
    """The command, running; what it prints goes to a file."""

    def __init__(self, folder: Path, line: str, **environment: str) -> None:
        self.said = folder / "listener"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment},
            )  # fmt: skip

    def shows(self, pattern: str) -> str:
        """Return what was printed once a line of it is as given."""

        def seen() -> str | None:
            said = self.said.read_text()
            assert re.search(pattern, said, re.MULTILINE) or self.process.poll() is None, said
            return said if re.search(pattern, said, re.MULTILINE) else None

        return str(until(seen, f"{pattern} in what the listener prints"))

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """End it; everything that it printed."""
        self.process.send_signal(number)
        assert self.process.wait(20) == 0, self.said.read_text()
        return self.said.read_text()


@contextmanager
def listening(folder: Path, line: str, **environment: str) -> Iterator[Listener]:
    """The command, listening; gone when the block ends."""
    listener = Listener(folder, line, **environment)
    try:
        listener.shows("until Ctrl-C")
        yield listener
    finally:
        if listener.process.poll() is None:
            listener.process.kill()
        listener.process.wait(20)


def command(*arguments: str) -> str:
    """The command as this interpreter runs it."""
    return " ".join([f"'{sys.executable}'", "-m", "app.cli", "webhooks", "listen", *arguments])


def test_the_lines_of_the_readme_show_a_delivery(started: str, tmp_path: Path) -> None:
    url = re.search(r"ready at (http://\S+)", started)
    assert url is not None
    section = (ROOT / "README.md").read_text().split("## Be told")[1].split("\n## ")[0]
    listen, happen = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    sample = re.findall(r"```text\n(.*?)```", section, re.DOTALL)[0].strip()
    pattern = LINE.format(type=r"workflow\.created", subject=r"wf_\w+", attempt=1, answer=200)
    assert re.match(pattern, sample.replace("…", ""))
    line = listen.replace(".venv/bin/cairn", f"'{sys.executable}' -m app.cli").strip()
    with listening(tmp_path, line, CAIRN_URL=url[1]) as listener:
        pasted = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", happen.replace("http://127.0.0.1:8000", url[1])],
            cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        assert '"name":"Told at once"' in pasted.stdout
        listener.shows(pattern)
        said = listener.end()
    assert "Stopped; attempts received: 1. The webhook is removed." in said
    with Cairn(url[1], key=(tmp_path / "var" / "development-key").read_text().strip()) as cairn:
        assert list(cairn.webhooks.list()) == []


@pytest.fixture
async def api(clone: Callable[[], Awaitable[str]]) -> AsyncIterator[ApiProcess]:
    """A service that tries again at once, with a tenant `acme`."""
    with serving(await clone(), background__enabled=True, webhooks__schedule="0.1,0.1") as process:
        with Cairn(process.url, key=ADMIN_KEY) as operator:
            operator.tenants.ensure("acme")
        yield process


def of(process: ApiProcess) -> dict[str, str]:
    """The environment of a listener."""
    return {"CAIRN_URL": process.url, "CAIRN_KEY": ADMIN_KEY, "CAIRN_TENANT": "acme"}


async def test_answers_of_failure_show_the_retries_and_sigterm_removes_the_webhook(
    api: ApiProcess, tmp_path: Path
) -> None:
    with (
        Cairn(api.url, key=ADMIN_KEY, tenant="acme") as cairn,
        listening(tmp_path, command("--answer", "500", "--body"), **of(api)) as listener,
    ):
        cairn.workflows.create(id="wf é\x1b[31m", name="x")
        for attempt in (1, 2, 3):
            said = listener.shows(
                LINE.format(type=r"workflow\.created", subject=r"wf é\S*31m", attempt=attempt, answer=500)
            )
        assert '\n{\n  "type": "workflow.created",\n  "timestamp": ' in said
        assert "\x1b" not in said
        assert len(list(cairn.webhooks.list())) == 1
        listener.end(signal.SIGTERM)
        assert list(cairn.webhooks.list()) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"webhooks__allow_private": ""}, "CAIRN_WEBHOOKS__ALLOW_PRIVATE=127.0.0.0/8"),
        ({"webhooks__encryption_keys": ""}, 'CAIRN_WEBHOOKS__ENCRYPTION_KEYS="$(cairn webhooks new-key)"'),
    ],
)
async def test_a_service_that_cannot_reach_it_is_told_with_what_to_set(
    clone: Callable[[], Awaitable[str]], tmp_path: Path, settings: dict[str, str], told: str
) -> None:
    with serving(await clone(), **settings) as process:
        with Cairn(process.url, key=ADMIN_KEY) as operator:
            operator.tenants.ensure("acme")
        refused = Listener(tmp_path, command(), **of(process))
        assert refused.process.wait(30) == 1
        said = refused.said.read_text()
        assert told in said
        assert "Traceback" not in said


def test_a_type_that_there_is_not_is_one_sentence(started: str, tmp_path: Path) -> None:
    url = re.search(r"ready at (http://\S+)", started)
    assert url is not None
    refused = Listener(tmp_path, command("--event-types", "workflow.invented"), CAIRN_URL=url[1])
    assert refused.process.wait(30) == 1
    assert refused.said.read_text().startswith("The service refused: invalid_input: /event_types/0")
