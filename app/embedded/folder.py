"""The data folder: who holds it, and what is remembered in it between two starts."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from app.embedded.descriptors import close_private, keep_private
from app.embedded.fault import PartError

LOCK_FILE = "lock"
MEMORY_FILE = "servers.json"
EPHEMERAL_PREFIX = "ephemeral-"

# A guardian that ends the servers of a killed owner holds the lock meanwhile; we wait for it this long.
WAIT_SECONDS = 30.0


class FolderLock:
    """An exclusive claim on a folder that the kernel drops with the process that holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Takes the lock if nobody holds it, and says whether it did."""
        descriptor = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = keep_private(descriptor)
        return True

    def sign(self, url: str | None = None) -> None:
        """Writes this process into the lock file as the owner, and where it serves, so that others can name it."""
        assert self._descriptor is not None
        me = {"pid": os.getpid(), "started_at": psutil.Process().create_time(), "url": url}
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(me).encode(), 0)

    def acquire(self) -> None:
        """Takes and signs the lock; raises PartError naming the pid when a running owner holds it.

        A dead owner's servers are being ended by its guardian; that is waited for, within a bound.
        """
        give_up_at = time.monotonic() + WAIT_SECONDS
        seen = None
        while not self.try_acquire():
            # An owner that is being killed is still there while the kernel lets go of its files: we look twice.
            seen, pid = self.running_owner(), seen
            if pid is not None and pid == seen:
                raise PartError(
                    f"{self.folder} is in use by process {pid}: stop that process, or choose another folder."
                )
            if time.monotonic() > give_up_at:
                raise PartError(f"{self.folder} is held by a process that does not end: run `fuser {LOCK_FILE}` there.")
            time.sleep(0.1)
        self.sign()

    def acquire_after(self, owner: int) -> bool:
        """Takes the lock of an owner that is gone, and says whether it did: not when another owner was faster."""
        give_up_at = time.monotonic() + WAIT_SECONDS
        # The kernel closes a dead process's files in an order of its own, so its lock may last a moment longer.
        try:
            while not self.try_acquire():
                if self.running_owner() not in (None, owner) or time.monotonic() > give_up_at:
                    return False
                time.sleep(0.02)
        except FileNotFoundError:
            # Another start has removed the ephemeral folder of the dead one.
            return False
        return True

    def running_owner(self) -> int | None:
        """Answers the pid in the lock file when that very process, not a later one with its number, still runs."""
        try:
            owner = json.loads((self.folder / LOCK_FILE).read_bytes())
            process = psutil.Process(int(owner["pid"]))
            # The clock may have been set since, which moves start times by a second or so.
            same = abs(process.create_time() - float(owner["started_at"])) < 2.0
            alive = process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            return None
        return process.pid if same and alive else None

    def owner_url(self) -> str | None:
        """Answers where the owner in the lock file said that it serves."""
        try:
            url = json.loads((self.folder / LOCK_FILE).read_bytes())["url"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return url if isinstance(url, str) else None

    def release(self) -> None:
        """Gives the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            close_private(self._descriptor)
            self._descriptor = None


@dataclass
class Memory:
    """What a folder remembers between starts: the servers' password and their ports by part."""

    password: str = field(default_factory=lambda: secrets.token_hex(24))
    ports: dict[str, int] = field(default_factory=dict)
    is_new: bool = True

    @classmethod
    def recall(cls, folder: Path) -> "Memory":
        """Reads a folder's memory; a missing or damaged file gives a new one, with a new password."""
        try:
            kept = json.loads((folder / MEMORY_FILE).read_bytes())
            ports = {str(part): int(port) for part, port in kept["ports"].items()}
            return cls(password=str(kept["password"]), ports=ports, is_new=False)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def keep(self, folder: Path) -> None:
        """Writes the memory so that a crash leaves either the old file or the new one."""
        text = json.dumps({"password": self.password, "ports": self.ports}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=MEMORY_FILE, delete=False) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(folder / MEMORY_FILE)


def make_ephemeral_folder(parent: Path) -> tuple[Path, FolderLock]:
    """Makes a folder of its own below `parent` and answers it with its lock held."""
    # The lock is taken before the folder has the name that a sweep looks for.
    starting = Path(tempfile.mkdtemp(prefix="starting-", dir=parent))
    lock = FolderLock(starting)
    lock.try_acquire()
    lock.sign()
    folder = parent / starting.name.replace("starting-", EPHEMERAL_PREFIX, 1)
    starting.rename(folder)
    lock.folder = folder
    return folder, lock


def dead_ephemeral_folders(parent: Path) -> list[tuple[Path, FolderLock]]:
    """Finds the ephemeral folders whose owner is gone and answers each with its lock held."""
    found = []
    for folder in sorted(parent.glob(EPHEMERAL_PREFIX + "*")):
        lock = FolderLock(folder)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if lock.try_acquire():
                found.append((folder, lock))
    return found


def remove_folder(folder: Path) -> None:
    """Removes a folder with all it holds; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
