"""Servers that outlived their owner: found by what they are, never by a number in a file, and ended."""

import contextlib
import hashlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from app.embedded.fault import PartError

NAMES = frozenset({"postgres", "initdb", "nats-server", "valkey-server", "redis-server", "unshare"})

# A fast shutdown writes a checkpoint; after this long the process is killed and the next start recovers.
END_SECONDS = 15.0
KILL_SECONDS = 5.0


def mark_of(folder: Path) -> str:
    """Answers the name under which a folder's PostgreSQL shows itself in every process title."""
    return "cairn-" + hashlib.sha256(bytes(folder.resolve())).hexdigest()[:16]


def find_leftovers(folder: Path) -> list[psutil.Process]:
    """Finds the server processes at work in a folder.

    A process belongs to the folder when it is one of our servers and works in a directory of the folder (every
    server is started in its own), or carries the folder's mark. A pid file is not asked: its number may be reused.
    """
    return list(_processes_of(folder.resolve(), mark_of(folder)))


def _processes_of(folder: Path, mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.name() not in NAMES or process.status() == psutil.STATUS_ZOMBIE:
                continue
            try:
                at_work = folder in Path(process.cwd()).parents
            except psutil.AccessDenied:
                at_work = False
            if at_work or any(mark in word for word in process.cmdline()):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def end_leftovers(folder: Path) -> int:
    """Ends every server process at work in the folder, gently first, and answers how many there were.

    psutil checks the start time before each signal, so a number that is reused meanwhile is never hit.
    """
    leftovers = find_leftovers(folder)
    for process in leftovers:
        _ask_to_end(process)
    alive = _wait_gone(leftovers, END_SECONDS)
    for process in alive:
        _signal(process, signal.SIGKILL)
    alive = _wait_gone(alive, KILL_SECONDS)
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise PartError(f"Servers of an earlier run in {folder} do not end: kill the processes {pids} and start again.")
    return len(leftovers)


def _ask_to_end(process: psutil.Process) -> None:
    try:
        is_postgres, is_postmaster = process.name() == "postgres", "-D" in process.cmdline()
    except psutil.Error:
        return
    if is_postgres and not is_postmaster:
        # Its postmaster ends it, and where that is gone it notices by itself.
        return
    _signal(process, signal.SIGINT if is_postgres else signal.SIGTERM)


def _wait_gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    give_up_at = time.monotonic() + seconds
    alive = [process for process in processes if _is_alive(process)]
    while alive and time.monotonic() < give_up_at:
        time.sleep(0.02)
        alive = [process for process in alive if _is_alive(process)]
    return alive


def _is_alive(process: psutil.Process) -> bool:
    # A zombie has ended; in a container without an init nobody may ever collect it.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
