"""What this process knows of stored objects, so that a save can tell its own changes from everybody else's."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

OBJECTS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Version:
    """A revision of a stored object. Nobody changes what it holds.

    `seen` is what the holder's own copy says, which lacks what others added since; `stored` is what is stored.
    """

    etag: str
    seen: dict[str, Any]
    stored: dict[str, Any]


class StoredObject(dict[str, Any]):
    """An object as it was read: a dict of the caller's own, which remembers what it was made from."""

    version: Version | None = None


class Known:
    """The versions that the entities of this process were made from, at most `OBJECTS_MAX` of them.

    An entity is saved as a plain dict, which does not tell what it was made from: that is what this process saved
    last (`hold`), whatever was read since to be shown; or else what it read last (`note`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: OrderedDict[tuple[str, str], tuple[Version, bool]] = OrderedDict()

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
            self._versions.pop((type, key), None)

    def clear(self) -> None:
        """Every object is gone."""
        with self._lock:
            self._versions.clear()

    def _put(self, at: tuple[str, str], version: Version, *, held: bool) -> None:
        with self._lock:
            found = self._versions.get(at)
            if found is None or held or not found[1]:
                self._versions[at] = (version, held)
                self._versions.move_to_end(at)
            if len(self._versions) > OBJECTS_MAX:
                self._versions.popitem(last=False)
