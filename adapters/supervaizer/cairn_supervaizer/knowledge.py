"""What this process knows of stored objects, so that a save can tell its own changes from everybody else's."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

OBJECTS_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Version:
    """A revision of a stored object, as JSON.

    `seen` is what the holder's own copy says, which lacks what others added since; `stored` is what is stored.
    """

    etag: str
    seen: bytes
    stored: bytes

    @property
    def size_bytes(self) -> int:
        """What it takes to remember it."""
        return len(self.seen) + (0 if self.stored is self.seen else len(self.stored))


class StoredObject(dict[str, Any]):
    """An object as it was read: a dict of the caller's own, which remembers what it was made from."""

    key: str = ""
    version: Version | None = None


class Known:
    """The versions that the entities of this process were made from, at most `OBJECTS_MAX` and `BYTES_MAX` of them.

    An entity is saved as a plain dict, which does not tell what it was made from: that is what this process saved
    last (`hold`), whatever was read since to be shown; or else what it read last (`note`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: OrderedDict[tuple[str, str], tuple[Version, bool]] = OrderedDict()
        self._bytes = 0

    def get(self, type: str, key: str) -> Version | None:
        """The version that the entity at hand was made from, if this process knows one."""
        with self._lock:
            found = self._versions.get((type, key))
            return found and found[0]

    def hold(self, type: str, key: str, version: Version) -> None:
        """An entity of this process now has this version."""
        self._put((type, key), version, held=True)

    def note(self, type: str, key: str, version: Version) -> None:
        """This version was read; it counts unless an entity of this process has another."""
        self._put((type, key), version, held=False)

    def release(self, type: str, key: str) -> None:
        """What is read next counts."""
        with self._lock:
            if found := self._versions.get((type, key)):
                self._versions[type, key] = (found[0], False)

    def forget(self, type: str, key: str) -> None:
        """The object is gone."""
        with self._lock:
            self._drop((type, key))

    def clear(self) -> None:
        """Every object is gone."""
        with self._lock:
            self._versions.clear()
            self._bytes = 0

    def _put(self, at: tuple[str, str], version: Version, *, held: bool) -> None:
        with self._lock:
            found = self._versions.get(at)
            if found is None or held or not found[1]:
                self._drop(at)
                self._versions[at] = (version, held)
                self._bytes += version.size_bytes
            while len(self._versions) > OBJECTS_MAX or (self._bytes > BYTES_MAX and len(self._versions) > 1):
                self._drop(next(iter(self._versions)))

    def _drop(self, at: tuple[str, str]) -> None:
        found = self._versions.pop(at, None)
        self._bytes -= 0 if found is None else found[0].size_bytes
