"""A server that hangs, ends at once or does not listen to a polite signal costs a bounded time."""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.embedded import PartError, start_servers
from app.embedded.fault import explain_output
from app.embedded.process import Launch, Process, Step, free_port

STEPS = (Step(signal.SIGTERM, 0.2), Step(signal.SIGKILL, 10))
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], Process]:
    """Starts a Python program as a server would be started."""
    work = tmp_path / "work"
    work.mkdir()
    return lambda code: Process("Sleeper", [sys.executable, "-c", code], work=work, port=free_port(), steps=STEPS)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(tmp_path, "", False, 1, True, lambda _: None, threading.Event())


def test_a_server_that_ignores_the_polite_signal_is_killed(run, eventually, all_gone) -> None:
    process = run(DEAF)
    eventually(lambda: "deaf" in process.output())

    process.begin_stop()
    process.stop()

    assert all_gone([process.pid])


def test_a_server_that_never_answers_is_given_up(run, launch: Launch) -> None:
    process = run(DEAF)
    try:
        with pytest.raises(PartError, match=r"Sleeper did not answer within 0 s: read .*work\.log\."):
            process.await_ready(lambda: False, launch, 0.1)
    finally:
        process.stop()


def test_a_wait_ends_when_the_start_is_cancelled(run, launch: Launch) -> None:
    process = run(DEAF)
    launch.cancelled.set()
    try:
        with pytest.raises(PartError, match="because another part failed"):
            process.await_ready(lambda: False, launch, 60)
    finally:
        process.stop()


def test_a_server_that_ends_at_once_is_quoted(run, launch: Launch) -> None:
    process = run("raise SystemExit('FATAL: the moon is full')")
    with pytest.raises(PartError, match=r"Sleeper ended while starting \(FATAL: the moon is full\); read .*work\.log"):
        process.await_ready(lambda: False, launch, 60)
    process.stop()


def test_a_guardian_that_cannot_run_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(PartError, match=r"The guardian of the servers did not start .* see that /bin/false runs"):
        start_servers(tmp_path, postgres=False, redis=False)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("bind: Address already in use", "NATS cannot use port 4222: another program listens there"),
        ("write: Disk quota exceeded", "The disk that holds /data is full"),
        ("dyld: Library not loaded: /opt/libssl.dylib", "the shared library /opt/libssl.dylib is missing"),
        ("open: Permission denied", "NATS may not read or write /data: give the folder to the user"),
        ("LOG: hello\nFATAL: no\nLOG: bye", "NATS ended while starting (FATAL: no); read /data.log."),
        ("", "NATS ended while starting (it said nothing); read /data.log."),
    ],
)
def test_last_words_become_one_sentence(said: str, told: str) -> None:
    fault = explain_output("NATS", said, Path("/data.log"), Path("/data"), 4222)
    assert told in str(fault)
