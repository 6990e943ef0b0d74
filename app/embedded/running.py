"""What runs in a data folder now, for commands that come beside it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from app.embedded.folder import FolderLock, Memory
from app.embedded.nats import nats_url
from app.embedded.postgres import postgres_url
from app.embedded.process import Launch
from app.embedded.valkey import redis_url


@dataclass(frozen=True)
class Running:
    """A folder's owner: its process, where it serves if it said so, and its servers' addresses, None for none."""

    pid: int
    url: str | None
    postgres_url: str | None = field(repr=False)
    nats_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)


def running_in(folder: Path) -> Running | None:
    """Answers what runs in a folder, and None when nothing does or another user owns it. Takes no lock."""
    lock = FolderLock(folder)
    pid = lock.running_owner()
    if pid is None:
        return None
    memory = Memory.recall(folder)

    def url_of(part: str, spelled: Callable[[Launch], str]) -> str | None:
        if part not in memory.ports:
            return None
        return spelled(Launch(folder, memory.password, False, memory.ports[part], False, print, threading.Event()))

    return Running(
        pid=pid,
        url=lock.owner_url(),
        postgres_url=url_of("postgres", postgres_url),
        nats_url=url_of("nats", nats_url),
        redis_url=url_of("redis", redis_url),
    )
