"""`cairn dev` as a person runs it: one command, one Ctrl-C, and the data is there again."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from app.commands.root import app
from tests.api_process import Command
from tests.waiting import until

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@contextmanager
def dev(folder: Path, *arguments: str) -> Iterator[Command]:
    """`cairn dev` on a free port, ready; gone when the block ends."""
    # What others are told of webhooks it finds by itself.
    unset = {"webhooks__encryption_keys": "", "webhooks__allow_private": ""}
    started = Command("dev", "--folder", str(folder), "--port", "0", *arguments, url=NOWHERE, **unset)
    try:
        until(lambda: is_ready(started), "cairn dev", 90)
        yield started
        assert "Traceback" not in started.output()
    finally:
        if started.process.poll() is None:
            started.send(signal.SIGTERM)
            started.wait(30)
        started.close()


def is_ready(started: Command) -> bool:
    assert started.process.poll() is None, started.output()
    return "Ctrl-C stops everything" in started.output()


def first_request(said: str) -> str:
    """The command that it prints for pasting."""
    found = re.search(r"^curl (?:.*\\\n)*.*", said, re.MULTILINE)
    assert found is not None, said
    return found[0]


def artifact_stored(said: str, content: bytes) -> httpx.Response:
    """What the service that said this answers to an upload."""
    url, key = re.search(r"ready at (\S+)", said), re.search(r"Bearer (\S+)'", said)
    assert url is not None
    assert key is not None
    return httpx.post(f"{url[1]}/v1/artifacts", content=content, headers={"authorization": f"Bearer {key[1]}"})


def test_it_answers_its_first_request_ends_with_one_ctrl_c_and_finds_its_data_again(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with spaces"
    keys, webhook_keys, uploads = [], [], []
    for _ in range(2):
        with dev(folder) as started:
            request = first_request(started.output())
            pasted = subprocess.run(["bash", "-c", request], capture_output=True, text=True, timeout=30, check=False)
            assert (pasted.returncode, '"id":"first"' in pasted.stdout) == (0, True), pasted.stderr
            keys += re.findall(r"Bearer (\S+)'", request)
            url = re.search(r"http://[\d.]+:\d+", request)
            assert url is not None
            assert httpx.get(f"{url[0]}/readyz").json()["status"] == "ready"
            assert httpx.get(f"{url[0]}/docs").status_code == 200
            assert "may reach 127.0.0.0/8, ::1 (this machine)" in started.output()
            webhook_keys.append((folder / "webhook-key").read_text())
            stored = artifact_stored(started.output(), b"kept")
            uploads.append(stored.status_code)
            assert (folder / "artifacts" / "default" / stored.json()["hash"]).read_bytes() == b"kept"
            begun = time.monotonic()
            started.send(signal.SIGINT)
            assert started.wait(20) == 0
            assert time.monotonic() - begun < 10
            assert started.output().rstrip().endswith("Stopped.")
    assert (len(set(keys)), len(set(webhook_keys)), uploads) == (1, 1, [201, 200])
    for file in ("development-key", "webhook-key"):
        assert stat.S_IMODE((folder / file).stat().st_mode) == 0o600


def test_other_commands_find_what_runs_in_the_folder_and_a_second_start_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "var"

    def cairn(*arguments: str, status: int = 0, **environment: str) -> str:
        unset = dict.fromkeys(name for name in os.environ if name.startswith("CAIRN_"))
        result = CliRunner().invoke(app, list(arguments), env={**unset, **environment, "COLUMNS": "200"})
        assert result.exit_code == status, result.output
        return result.output

    with dev(folder) as started:
        said = started.output()
        pid, at = started.process.pid, re.search(r"ready at (\S+)", said)
        assert at is not None
        line = f"On the database of the Cairn that runs in var (process {pid})."
        for arguments, told in ((("keys", "list"), "development"), (("migrate", "--check"), "as needed")):
            assert cairn(*arguments).startswith(line)
            assert told in cairn(*arguments)
        seen = cairn("doctor")
        assert re.search(r"PostgreSQL +ok", seen)
        assert re.search(r"NATS +ok +(?!Not configured)", seen)
        # A long path is broken over lines of the table.
        told = "".join(line.strip() for line in seen[seen.index("artifacts") :].splitlines())
        assert re.match(r"artifacts +ok +They lie in the folder", told)
        assert f"{folder}/artifacts.".replace(" ", "") in told.replace(" ", "")
        assert re.search(r"webhooks +note +CAIRN_WEBHOOKS__ALLOW_PRIVATE lets them reach 127\.0\.0\.0/8", seen)
        elsewhere = {"CAIRN_DATABASE__URL": NOWHERE}
        assert "PostgreSQL does not answer" in cairn("keys", "list", status=1, **elsewhere)
        assert "development" in cairn("keys", "list", "--folder", str(folder), **elsewhere)
        assert "There is no such invocation" in cairn("show", "nope", "--url", at[1], status=1)
        second = Command("dev", "--folder", str(folder), url=NOWHERE)
        try:
            assert second.wait() == 1
            assert second.output().startswith(f"Cairn already runs here, at {at[1]} (process {pid}, data in {folder})")
            assert "--ephemeral --port 8001" in second.output()
        finally:
            second.close()
    assert "No Cairn runs in" in cairn("keys", "list", "--folder", str(folder), status=1)


def test_a_part_that_ends_by_itself_ends_everything_and_is_named_and_nothing_ephemeral_is_kept(tmp_path: Path) -> None:
    with dev(tmp_path / "var", "--ephemeral") as started:
        assert artifact_stored(started.output(), b"not kept").status_code == 201
        children = psutil.Process(started.process.pid).children(recursive=True)
        next(child for child in children if "nats" in child.name()).kill()
        assert started.wait(20) == 1
        assert "NATS ended by itself" in started.output()
        assert list(started.said.parent.iterdir()) == [started.said]
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_one_sentence_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = Command("dev", "--folder", str(tmp_path / "var"), "--port", port, url=NOWHERE)
        try:
            assert refused.wait() == 1
            assert refused.output().strip().startswith(f"Port {port} of 127.0.0.1 is taken")
        finally:
            refused.close()
    assert list(tmp_path.iterdir()) == []
