"""Starts the three servers of one data folder together, and stops them together."""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from app.embedded.binaries import Binaries, find_nats, find_postgres, find_valkey
from app.embedded.fault import GivenUpError, PortTakenError, explain_os_error, port_taken
from app.embedded.folder import (
    FolderLock,
    Memory,
    dead_ephemeral_folders,
    make_ephemeral_folder,
    remove_folder,
)
from app.embedded.guardian import Guardian
from app.embedded.leftovers import end_leftovers
from app.embedded.nats import await_nats, nats_url, start_nats
from app.embedded.postgres import Postgres, postgres_url
from app.embedded.process import Launch, Process, Report, free_port, port_is_free
from app.embedded.valkey import await_valkey, redis_url, start_valkey

# A port that was free a moment ago may be taken before the server has it; then another is tried.
PORT_TRIES = 5


def _say_nothing(_: str) -> None:
    """Ignores a report: the caller did not ask for any."""


class _Run:
    """Everything one start holds, and how to let go of it; safe to close at any point of the start."""

    def __init__(self, folder: Path, *, ephemeral: bool, report: Report) -> None:
        self.report, self.ephemeral = report, ephemeral
        self.owner = os.getpid()
        self.processes: list[Process] = []
        self.cancelled = threading.Event()
        self.guardian: Guardian | None = None
        self._closing = threading.Lock()
        self._made_parent = ephemeral and not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._parent = folder.resolve()
        self.folder, self.lock = self._claim()

    def _claim(self) -> tuple[Path, FolderLock]:
        if not self.ephemeral:
            lock = FolderLock(self._parent)
            lock.acquire()
            return self._parent, lock
        for dead, lock in dead_ephemeral_folders(self._parent):
            end_leftovers(dead)
            remove_folder(dead)
            lock.release()
        return make_ephemeral_folder(self._parent)

    def prepare(self) -> Guardian:
        """Ends what an earlier run left behind and sets the guardian to watch this one."""
        if ended := end_leftovers(self.folder):
            self.report(f"ended {ended} processes of an earlier run that was killed")
        self.guardian = Guardian(self.folder, ephemeral=self.ephemeral)
        return self.guardian

    def close(self) -> None:
        """Stops every server and verifies it, removes an ephemeral folder, and gives the folder back."""
        with self._closing:
            # A forked child has the object but not the servers.
            if os.getpid() != self.owner:
                return
            self.cancelled.set()
            for process in self.processes:
                process.begin_stop()
            while self.processes:
                self.processes[-1].stop()
                self.processes.pop()
            if self.guardian:
                self.guardian.dismiss()
                self.guardian = None
            if self.ephemeral:
                remove_folder(self.folder)
                if self._made_parent and self._parent.exists() and not any(self._parent.iterdir()):
                    self._parent.rmdir()
            self.lock.release()


@dataclass(frozen=True)
class Servers:
    """Running servers: their addresses (empty for a part that was not asked for) and the way to stop them."""

    postgres_url: str = field(repr=False)
    nats_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    folder: Path
    _run: _Run = field(repr=False)

    def stop(self) -> None:
        """Stops the servers and returns when each is gone, its port closed and the folder's lock released.

        A second call does nothing. Raises PartError when a server does not end.
        """
        self._run.close()

    def ended_part(self) -> str | None:
        """Names a server that has ended by itself, or answers None while all are running."""
        return next((process.part for process in self._run.processes if not process.is_running()), None)

    def announce(self, url: str) -> None:
        """Writes into the folder where its owner serves, for whoever comes beside it."""
        self._run.lock.sign(url)

    def pids(self) -> dict[str, int]:
        """Answers the process id of each running server by part."""
        return {process.part: process.pid for process in self._run.processes}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@dataclass(frozen=True)
class _Part:
    """One server to start: its name in the memory and how to start it and wait for it."""

    name: str
    label: str
    start: Callable[[Launch], Process]
    await_ready: Callable[[Process, Launch], None]
    url: Callable[[Launch], str]


def start_servers(
    folder: Path,
    *,
    ephemeral: bool = False,
    postgres: bool = True,
    nats: bool = True,
    redis: bool = True,
    report: Report = _say_nothing,
    fast: bool = False,
    ports: Mapping[str, int] | None = None,
    binaries: Binaries | None = None,
) -> Servers:
    """Starts the servers of a data folder and returns when each answers a query.

    The folder is made if needed and locked; its data, password and ports are found again by the next start.
    `ephemeral` works in a folder of its own inside and keeps nothing. `fast` gives up durability, for tests.
    `ports` states a port for `postgres`, `nats` or `redis`; the others are free ones. `report` is told what is
    being done, from any thread. Raises PartError, having
    stopped what was started, when a part cannot be started.
    """
    binaries = binaries or Binaries()
    wanted = {"postgres": postgres, "nats": nats, "redis": redis}
    try:
        run = _Run(folder, ephemeral=ephemeral, report=report)
        try:
            guardian = run.prepare()
            servers = _start_all(run, _parts(binaries, wanted), dict(ports or {}), fast=fast)
            guardian.await_watching()
            return servers
        except BaseException:
            run.close()
            raise
    except OSError as error:
        raise explain_os_error(error, folder) from error


def _parts(binaries: Binaries, wanted: Mapping[str, bool]) -> list[_Part]:
    parts = []
    if wanted["postgres"]:
        parts.append(_postgres_part(binaries.postgres or find_postgres()))
    if wanted["nats"]:
        nats = binaries.nats or find_nats()
        parts.append(_Part("nats", "NATS", lambda launch: start_nats(nats, launch), await_nats, nats_url))
    if wanted["redis"]:
        valkey = binaries.valkey or find_valkey()
        parts.append(_Part("redis", "Valkey", lambda launch: start_valkey(valkey, launch), await_valkey, redis_url))
    return parts


def _postgres_part(programs: Path) -> _Part:
    return _Part(
        "postgres",
        "PostgreSQL",
        lambda launch: Postgres(programs, launch).start(),
        lambda process, launch: Postgres(programs, launch).await_ready(process),
        postgres_url,
    )


def _start_all(run: _Run, parts: list[_Part], stated: dict[str, int], *, fast: bool) -> Servers:
    memory = Memory.recall(run.folder)
    with ThreadPoolExecutor(max_workers=max(1, len(parts))) as pool:
        futures = {part.name: pool.submit(_start_one, run, part, memory, stated.get(part.name), fast) for part in parts}
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        finally:
            # Either all are ready, or one failed or the user lost patience: then the others need not go on.
            if not all(future.done() and future.exception() is None for future in futures.values()):
                run.cancelled.set()
    faults = [error for future in futures.values() if (error := future.exception())]
    if faults:
        raise next((error for error in faults if not isinstance(error, GivenUpError)), faults[0])
    launches = {name: future.result() for name, future in futures.items()}
    memory.ports |= {name: launch.port for name, launch in launches.items()}
    memory.keep(run.folder)
    urls = {part.name: part.url(launches[part.name]) for part in parts}
    return Servers(
        postgres_url=urls.get("postgres", ""),
        nats_url=urls.get("nats", ""),
        redis_url=urls.get("redis", ""),
        folder=run.folder,
        _run=run,
    )


def _start_one(run: _Run, part: _Part, memory: Memory, stated: int | None, fast: bool) -> Launch:
    """Starts one part on the stated port, else on the remembered one, else on any free one."""
    port = stated or memory.ports.get(part.name) or free_port()
    for tries_left in reversed(range(PORT_TRIES)):
        launch = Launch(run.folder, memory.password, memory.is_new, port, fast, run.report, run.cancelled)
        try:
            _start_on(run, part, launch)
            return launch
        except PortTakenError:
            if stated or not tries_left:
                raise
            port = free_port()
    raise AssertionError("the last try either returns or raises")


def _start_on(run: _Run, part: _Part, launch: Launch) -> None:
    if not port_is_free(launch.port):
        raise port_taken(part.label, launch.port)
    process = part.start(launch)
    run.processes.append(process)
    try:
        part.await_ready(process, launch)
    except PortTakenError:
        process.stop()
        run.processes.remove(process)
        raise
